package inbox

import (
	"time"

	"github.com/golda-dev/golda/internal/histogram"
)

// Accounts is a copy of an inbox's accounts at one instant.
type Accounts struct {
	Submitted, Received            uint64
	OK, Forwarded, Emitted, Errors uint64
	Rejected, Shed, Dead           map[Reason]uint64
	Crashes, Retries, Restarts     uint64
	Queued, InHand, Delayed        int
	Suspended                      int // of those in hand, suspended
	Carried                        int // handled, and not handed over because the next room is full
	Held                           int // in workers' hands
	Due                            int // what could be given out, were it not paused and were there workers enough
	Live, Busy, Most, Out          int
	Blocked, Idle                  int  // workers of the inbox's own; with Busy they are all there are
	Stalled                        bool // shared pools take nothing, because an inbox ahead is full
	Visits, Empties, Stuck         uint64
	Abandoned                      int
	Oldest                         time.Duration // how long the next command has waited; 0 if that is not known
	Crew                           *SharedPool
	Knobs                          Knobs
	BusyTime                       time.Duration
	BlockedTime, IdleTime          time.Duration
	Wait, Work                     histogram.Histogram
	Open, Halted                   bool
	Draining, Drained              bool // it is being drained, or has been; and nothing is here
}

// Snapshot copies the accounts of the inboxes of one house, all at the same
// instant: it holds all their locks, taken in order. Nobody else holds two.
func Snapshot(inboxes []*Inbox) []Accounts {
	return snapshot(inboxes, func(in *Inbox, now int64) Accounts {
		s := in.accounts(now)
		s.Wait, s.Work = in.counts.wait.Clone(), in.counts.work.Clone()
		return s
	})
}

// Counts is [Snapshot] without Wait and Work, which stay empty. They may be two kilobytes each, and
// whoever looks often, as controllers do, has no use for them.
func Counts(inboxes []*Inbox) []Accounts { return snapshot(inboxes, (*Inbox).accounts) }

func snapshot(inboxes []*Inbox, sheet func(in *Inbox, now int64) Accounts) []Accounts {
	sheets := make([]Accounts, len(inboxes))
	for _, in := range inboxes {
		in.mu.Lock()
	}
	var now int64
	for i, in := range inboxes {
		if pl := in.Pipeline(); now == 0 && pl != nil { // with all locks: it is one instant
			now = pl.Now()
		}
		sheets[i] = sheet(in, now)
	}
	for _, in := range inboxes {
		in.mu.Unlock()
	}
	return sheets
}

// noLosses are those of an inbox that has none. They are not changed.
var noLosses losses

// accounts copies all but the histograms.
func (in *Inbox) accounts(now int64) Accounts {
	busy, blocked, idle := in.times(now)
	lost := in.counts.lost
	if lost == nil {
		lost = &noLosses
	}
	return Accounts{
		Submitted: in.counts.submitted, Received: in.counts.received,
		OK: in.counts.ok, Forwarded: in.counts.forwarded, Emitted: in.counts.emitted + in.emittedSingly.Load(), Errors: in.counts.errors,
		Rejected: byReason(lost.rejected[:], rejectedNames[:]),
		Shed:     byReason(lost.shed[:], shedNames[:]),
		Dead:     byReason(lost.dead[:], deadNames[:]),
		Crashes:  in.counts.crashes, Retries: in.counts.retries, Restarts: in.counts.restarts,
		Queued: in.queue.fresh(), InHand: in.counts.inHand + in.runnable(), Delayed: in.postponed(),
		Suspended: in.suspended(), Carried: int(in.carried), Held: max(in.counts.inHand-in.suspended(), 0), Due: in.demand(),
		Live: in.live, Busy: in.counts.busy, Most: max(in.most, in.counts.mostOut), Out: in.busyInstances,
		Visits: in.counts.visits, Empties: in.empties.Load(), Oldest: in.oldest(),
		Stuck: in.counts.stuck, Abandoned: int(in.counts.abandoned),
		Crew: in.pool, Knobs: in.knobs.Knobs,
		Blocked: int(in.sole.away), Idle: max(in.live-in.counts.busy-int(in.sole.away), 0), Stalled: in.stalled,
		BusyTime: busy, BlockedTime: blocked, IdleTime: idle,
		Open: in.open, Halted: in.halted.Load(),
		Draining: !in.InUse(), Drained: in.phase.Load() == drained && in.load() == 0,
	}
}

// oldest is how long the next command has waited.
func (in *Inbox) oldest() time.Duration {
	if in.queue.fresh() == 0 {
		return 0
	}
	return in.queue.waited(in.Pipeline().Now(), in.knobs.Batch) // of so many that are submitted one tells
}

// byReason names the counts that are not zero.
func byReason(counts []uint64, names []Reason) map[Reason]uint64 {
	var m map[Reason]uint64
	for i, n := range counts {
		if n == 0 {
			continue
		}
		if m == nil {
			m = make(map[Reason]uint64, len(counts))
		}
		m[names[i]] = n
	}
	return m
}

// Sum adds up the counts of all reasons.
func Sum(by map[Reason]uint64) (n uint64) {
	for _, c := range by {
		n += c
	}
	return n
}
