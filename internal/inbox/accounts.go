package inbox

import (
	"maps"
	"time"

	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/stage/reason"
)

// Accounts is a copy of an inbox's accounts at one instant.
type Accounts struct {
	Submitted, Received            uint64
	OK, Forwarded, Emitted, Errors uint64
	Rejected, Shed, Dead           map[reason.Reason]uint64
	Crashes, Retries, Restarts     uint64
	Streak                         int    // crashes since a command was last completed
	RetriesRefused                 uint64 // by the retry budget
	Queued, InHand, Delayed        int
	Suspended                      int // of those in hand, suspended
	Carried                        int // handled, and not handed over because the next inbox is full, or it is not their turn
	Waiting                        int // of those carried, not their turn: results of an ordered stage
	Held                           int // in the workers' batches
	Submitters                     int // callers and handlers that wait for a free slot
	Senders                        int // workers of other inboxes that wait here to hand over
	Reserved                       int // slots that were promised to such workers
	// commands that could be given out if the inbox were not paused and had
	// enough workers
	Due                    int
	Live, Busy, Most, Out  int
	Blocked, Idle          int  // of the stage's own workers; Busy, Blocked and Idle are all of them
	Stalled                bool // shared pools take nothing, because an inbox ahead is full
	Visits, Empties, Stuck uint64
	Abandoned              int
	Oldest                 time.Duration // how long the next command has waited; 0 if that is not known
	Pool                   *SharedPool
	Knobs                  Knobs
	BusyTime               time.Duration
	BlockedTime, IdleTime  time.Duration
	RateWait               time.Duration        // for how long commands have waited for the rate
	KeyCapacity            int                  // slots that the commands of one key may hold; 0: there is no bound
	RateKeys               int                  // keys whose commands wait for the rate of their key
	GuardHeld              int                  // of those queued, held back by guards
	Guards                 []line.GuardAccounts // nil if there are none
	Wait, Work             histogram.Histogram
	Open, Halted           bool
	Draining, Drained      bool // Draining: it is being drained, or has been. Drained: and the inbox is empty
}

// Snapshot copies the accounts of the inboxes of one pipeline, all at the same
// instant: it holds all their locks, taken in order. No other function holds
// the locks of two inboxes.
func Snapshot(inboxes []*Inbox) []Accounts {
	return snapshot(inboxes, func(in *Inbox, now int64) Accounts {
		s := in.accounts(now)
		s.Wait, s.Work = in.counts.wait.Clone(), in.counts.work.Clone()
		return s
	})
}

// Counts is [Snapshot] without Wait and Work, which stay empty. They may be two
// kilobytes each, and the control loop, which reads the accounts often, has no
// use for them.
func Counts(inboxes []*Inbox) []Accounts {
	return snapshot(inboxes, func(in *Inbox, now int64) Accounts { return in.accounts(now) })
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

// accounts copies all but the histograms.
func (s *state) accounts(now int64) Accounts {
	busy, blocked, idle := s.times(now)
	due := s.demand(now) // first: guards say meanwhile which commands they hold back
	var kept line.Accounts
	s.queue.line.Account(now, &kept)
	return Accounts{
		Submitted: s.counts.submitted, Received: s.counts.received,
		OK: s.counts.ok, Forwarded: s.counts.forwarded, Emitted: s.counts.emitted + s.emittedSingly.Load(), Errors: s.counts.errors,
		Rejected: maps.Clone(s.counts.rejected), Shed: maps.Clone(s.counts.shed), Dead: maps.Clone(s.counts.dead),
		Crashes: s.counts.crashes, Streak: int(s.counts.streak), Retries: s.counts.retries, Restarts: s.counts.restarts,
		RetriesRefused: s.counts.retriesRefused,
		Queued:         s.queue.fresh(), InHand: s.counts.inHand + s.runnable(), Delayed: s.postponed(),
		Suspended: s.suspended(), Carried: int(s.carried) + kept.Results, Waiting: kept.Results,
		Held: max(s.counts.inHand-s.suspended(), 0), Due: due,
		Submitters: int(s.waiters.n-s.waiters.retries) + s.linedAtLanes, Senders: len(s.forSlots) + len(s.forPlaces) + len(s.barred), Reserved: int(s.reserved),
		KeyCapacity: s.keyCapacity(),
		Live:        s.live, Busy: s.counts.busy, Most: max(s.most, s.counts.mostOut), Out: s.busyInstances,
		Visits: s.counts.visits, Empties: s.empties.Load(), Oldest: s.oldest(),
		Stuck: s.counts.stuck, Abandoned: int(s.counts.abandoned),
		Pool: s.pool, Knobs: s.knobs.Knobs,
		Blocked: s.counts.blocked, Idle: max(s.live-s.counts.busy-s.counts.blocked, 0), Stalled: s.stalled,
		BusyTime: busy, BlockedTime: blocked, IdleTime: idle, RateWait: s.rateWait(now), RateKeys: s.rateKeys(),
		GuardHeld: kept.Held, Guards: kept.Guards,
		Open: s.phase() == open, Halted: s.halted.Load(),
		Draining: !s.InUse(), Drained: s.phase() == drained && s.load() == 0,
	}
}

// rateWait is for how long commands have waited for the rate.
func (s *state) rateWait(now int64) time.Duration {
	var sum time.Duration
	if s.rate != nil {
		sum = s.rate.Total(now)
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

// Sum adds up the counts of all reasons.
func Sum(by map[reason.Reason]uint64) (n uint64) {
	for _, c := range by {
		n += c
	}
	return n
}
