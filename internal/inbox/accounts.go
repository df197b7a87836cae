package inbox

import (
	"maps"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/stage/stats"
)

// Accounts is a copy of an inbox's accounts at one instant. The first groups
// are copied into the snapshot of a stage, which adds the bounds of its workers
// and the numbers of its keys.
type Accounts struct {
	Queue      stats.Queue
	Workers    stats.Workers
	Counts     stats.Counts
	Reasons    stats.Reasons
	Wait, Work histogram.Histogram // times of commands in the queue, and in handlers

	InBatches int  // commands in the batches of workers
	Due       int  // commands that could be given out if the inbox were not paused and had enough workers
	Out       int  // instances that workers use
	Stalled   bool // shared pools take nothing, because an inbox ahead is full
	Pool      *SharedPool
	Knobs     Knobs
	Guards    []line.GuardAccounts // nil if there are none

	Open, Halted bool
	Draining     bool // the inbox is being drained, or has been
	Drained      bool // the inbox has been drained, and is empty
}

// Snapshot copies the accounts of the inboxes of one pipeline, all at the same
// instant: it holds all their locks, taken in order. No other function holds
// the locks of two inboxes.
func Snapshot(inboxes []*Inbox) []Accounts {
	return snapshot(inboxes, func(in *Inbox, now int64) Accounts {
		s := in.state.accounts(now)
		s.Wait, s.Work = in.state.counts.wait.Clone(), in.state.counts.work.Clone()
		return s
	})
}

// Counts is [Snapshot] without Wait and Work, which stay empty. They may be two
// kilobytes each, and the control loop, which reads the accounts often, has no
// use for them.
func Counts(inboxes []*Inbox) []Accounts {
	return snapshot(inboxes, func(in *Inbox, now int64) Accounts { return in.state.accounts(now) })
}

func snapshot(inboxes []*Inbox, read func(in *Inbox, now int64) Accounts) []Accounts {
	all := make([]Accounts, len(inboxes))
	for _, in := range inboxes {
		in.mu.Lock()
	}
	var now int64
	for i, in := range inboxes {
		if pl := in.Pipeline(); now == 0 && pl != nil { // with all locks held, so that it is one instant
			now = pl.Now()
		}
		all[i] = read(in, now)
	}
	for _, in := range inboxes {
		in.finish()
	}
	return all
}

// Hottest returns the keys of which most commands wait in an inbox, see
// [line.Hottest]. It holds the lock for a bounded time, however many keys there
// are, and nothing is counted for it unless it is called.
func Hottest(in *Inbox, most int, commands bool) (top []line.KeyLoad, whole bool) {
	from := rand.Uint64() //nolint:gosec // it chooses a sample
	in.mu.Lock()
	defer in.finish()
	return line.Hottest(in.state.queue.line, most, from, commands)
}

// NextRetry returns when the next command of an inbox is tried again, on the
// clock of its pipeline. It returns false if none waits for that.
func NextRetry(in *Inbox) (at time.Duration, ok bool) {
	in.mu.Lock()
	defer in.finish()
	if in.state.delayed.Len() == 0 {
		return 0, false
	}
	return time.Duration(in.state.delayed.heap[0].at), true
}

// accounts copies all but the histograms.
func (s *state) accounts(now int64) Accounts {
	totals := s.totals(now)
	due := s.demand(now) // first: guards say meanwhile which commands they hold back
	var kept line.Accounts
	s.queue.line.Account(now, &kept)
	return Accounts{
		Queue: s.queueStats(&kept), Workers: s.workerStats(), Counts: totals, Reasons: s.counts.cloneReasons(),
		InBatches: max(s.counts.inHand-s.suspended(), 0), Due: due, Out: s.instances.Busy(),
		Stalled: s.visits.stalled, Pool: s.visits.pool, Knobs: s.knobs.Knobs, Guards: kept.Guards,
		Open: s.phase() == open, Halted: s.halted.Load(),
		Draining: !s.phase().inUse(), Drained: s.phase() == drained && s.load() == 0,
	}
}

// totals copies the totals, and adds counts that are written elsewhere or
// depend on the time.
func (s *state) totals(now int64) stats.Counts {
	c := s.counts.Counts
	c.Accepted = c.Submitted + c.Received
	c.Emitted += s.emittedSingly.Load()
	c.EmptyVisits = s.visits.empties.Load()
	c.BusyTime, c.BlockedTime, c.IdleTime = s.times(now)
	c.RateWait = s.rateWait(now)
	return c
}

func (c *counts) cloneReasons() stats.Reasons {
	if c.refused == nil {
		return stats.Reasons{}
	}
	r := &c.refused.reasons
	return stats.Reasons{Rejected: maps.Clone(r.Rejected), Shed: maps.Clone(r.Shed), DeadLettered: maps.Clone(r.DeadLettered)}
}

func (s *state) queueStats(kept *line.Accounts) stats.Queue {
	return stats.Queue{
		Queued: s.queue.fresh(), Held: kept.Held, Oldest: s.oldest(),
		InHand: s.counts.inHand + s.runnable(), Suspended: s.suspended(), Delayed: s.postponed(),
		Capacity: s.knobs.Capacity, KeyCapacity: s.keyCapacity(),
		Reserved: int(s.slots.reserved), Carried: int(s.slots.carried) + kept.Results, Waiting: kept.Results,
		Submitters: int(s.waiters.n-s.waiters.retries) + s.senders.linedAtLanes,
		Senders:    s.senders.number(),
		RateKeys:   s.rateKeys(), FairKeys: kept.Keys, FairMost: kept.OfOneKey, ParkedKeys: kept.Parked,
	}
}

func (s *state) workerStats() stats.Workers {
	return stats.Workers{
		Live: s.workers.Live(), Busy: s.counts.busy, Blocked: s.counts.blocked,
		Idle:      max(s.workers.Live()-s.counts.busy-s.counts.blocked, 0),
		Most:      max(s.workers.Most(), s.counts.mostOut),
		Instances: s.knobs.Instances, CrashStreak: s.streak.Length(), Abandoned: int(s.counts.abandoned),
	}
}

// rateWait is for how long commands have waited for the rate.
func (s *state) rateWait(now int64) time.Duration {
	var sum time.Duration
	if s.pace.rate != nil {
		sum = s.pace.rate.Total(now)
	}
	if s.queue.rates != nil {
		sum += s.queue.rates.Delayed(now)
	}
	return sum
}

// rateKeys is how many keys have commands that wait for the rate of their key.
// It may count a key whose next permit is there by now, if no worker has taken
// a command since.
func (s *state) rateKeys() int {
	if s.queue.rates == nil {
		return 0
	}
	return s.queue.rates.Dry()
}

// oldest is how long the next command has waited.
func (s *state) oldest() time.Duration {
	if s.queue.fresh() == 0 {
		return 0
	}
	return s.queue.waited(s.now(), s.knobs.Batch) // one in each batch of submitted commands has a timestamp
}
