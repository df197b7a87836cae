package room

import (
	"time"

	"github.com/golda-dev/golda/internal/histogram"
)

// Sheet is a copy of a room's accounts at one instant.
type Sheet struct {
	Submitted, Received            uint64
	OK, Forwarded, Emitted, Errors uint64
	Rejected, Shed, Dead           map[Reason]uint64
	Crashes, Retries, Restarts     uint64
	Queued, InHand, Delayed        int
	Suspended                      int // of those in hand, set aside
	Carried                        int // handled, and not handed over because the next room is full
	Held                           int // in workers' hands
	Due                            int // what could be given out, were it not paused and were there workers enough
	Live, Busy, Most, Out          int
	Blocked, Idle                  int  // workers of the room's own; with Busy they are all there are
	Stalled                        bool // crews take nothing, because a room ahead is full
	Visits, Empties, Stuck         uint64
	Abandoned                      int
	Oldest                         time.Duration // how long the next command has waited; 0 if that is not known
	Crew                           *Crew
	Knobs                          Knobs
	BusyTime                       time.Duration
	BlockedTime, IdleTime          time.Duration
	Wait, Work                     histogram.Histogram
	Open, Halted                   bool
	Draining, Drained              bool // it is being drained, or has been; and nothing is here
}

// Snapshot copies the accounts of the rooms of one house, all at the same
// instant: it holds all their locks, taken in order. Nobody else holds two.
func Snapshot(rooms []*Room) []Sheet {
	return snapshot(rooms, func(r *Room, now int64) Sheet {
		s := r.sheet(now)
		s.Wait, s.Work = r.c.wait.Clone(), r.c.work.Clone()
		return s
	})
}

// Counts is [Snapshot] without Wait and Work, which stay empty. They may be two kilobytes each, and
// whoever looks often, as controllers do, has no use for them.
func Counts(rooms []*Room) []Sheet { return snapshot(rooms, (*Room).sheet) }

func snapshot(rooms []*Room, sheet func(r *Room, now int64) Sheet) []Sheet {
	sheets := make([]Sheet, len(rooms))
	for _, r := range rooms {
		r.mu.Lock()
	}
	var now int64
	for i, r := range rooms {
		if h := r.Host(); now == 0 && h != nil { // with all locks: it is one instant
			now = h.Now()
		}
		sheets[i] = sheet(r, now)
	}
	for _, r := range rooms {
		r.mu.Unlock()
	}
	return sheets
}

// noLosses are those of a room that has none. They are not changed.
var noLosses losses

// sheet copies all but the histograms.
func (r *Room) sheet(now int64) Sheet {
	busy, blocked, idle := r.times(now)
	lost := r.c.lost
	if lost == nil {
		lost = &noLosses
	}
	return Sheet{
		Submitted: r.c.submitted, Received: r.c.received,
		OK: r.c.ok, Forwarded: r.c.forwarded, Emitted: r.c.emitted + r.sent.Load(), Errors: r.c.errors,
		Rejected: byReason(lost.rejected[:], rejectedNames[:]),
		Shed:     byReason(lost.shed[:], shedNames[:]),
		Dead:     byReason(lost.dead[:], deadNames[:]),
		Crashes:  r.c.crashes, Retries: r.c.retries, Restarts: r.c.restarts,
		Queued: r.queue.fresh(), InHand: r.c.inHand + r.going(), Delayed: r.postponed(),
		Suspended: r.suspended(), Carried: int(r.carried), Held: max(r.c.inHand-r.suspended(), 0), Due: r.demand(),
		Live: r.live, Busy: r.c.busy, Most: max(r.most, r.c.mostOut), Out: r.out,
		Visits: r.c.visits, Empties: r.empties.Load(), Oldest: r.oldest(),
		Stuck: r.c.stuck, Abandoned: int(r.c.abandoned),
		Crew: r.crew, Knobs: r.knobs.Knobs,
		Blocked: int(r.alone.away), Idle: max(r.live-r.c.busy-int(r.alone.away), 0), Stalled: r.stalled,
		BusyTime: busy, BlockedTime: blocked, IdleTime: idle,
		Open: r.open, Halted: r.halted.Load(),
		Draining: !r.InUse(), Drained: r.phase.Load() == drained && r.load() == 0,
	}
}

// oldest is how long the next command has waited.
func (r *Room) oldest() time.Duration {
	if r.queue.fresh() == 0 {
		return 0
	}
	return r.queue.waited(r.Host().Now(), r.knobs.Batch) // of so many that are submitted one tells
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
