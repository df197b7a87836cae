package line

import (
	"container/heap"
	"time"

	"github.com/golda-dev/golda/internal/rate"
)

// Rates is a line that bounds how many commands of each key are given out.
type Rates interface {
	// Advance has the line learn the time, before it is asked for commands. If
	// some wait for the rate, and no other may be taken, it returns when to ask
	// again, and whether an alarm must be set for that; Alarmed is called when
	// the alarm has gone off.
	Advance(now int64) (due int64, alarm bool)
	Alarmed()
	// Refund puts a permit back, for a command whose handler was not called.
	Refund(r Rank)
	// Delayed returns for how long commands waited for the rate, and nothing
	// else could be done. Dry returns how many keys have such commands.
	Delayed(now int64) time.Duration
	Dry() int
}

// RatesOf returns a line as one with rates; nil if it has none.
func RatesOf(l Line) Rates {
	if l := lanesOf(l); l != nil && l.full != nil {
		return l
	}
	return nil
}

// fillUp gives a lane a copy of a full bucket; nil: there is no rate.
func (ln *Lane) fillUp(full *rate.Bucket, now int64) {
	if full == nil {
		return
	}
	if ln.permits == nil {
		ln.permits = new(rate.Bucket)
	}
	*ln.permits = *full
	ln.permits.Fill(now) // it is full: only the time changes
}

// dryUp lists a lane as dry.
func (l *lanes) dryUp(ln *Lane) {
	ln.due = ln.permits.DueAt(1)
	heap.Push(&l.dry, ln)
}

// undry takes a lane out of the dry ones.
func (l *lanes) undry(ln *Lane) {
	if ln.dryAt > 0 {
		heap.Remove(&l.dry, ln.dryAt-1)
	}
}

// forgettable reports whether a lane without commands is as good as a fresh
// one.
func (l *lanes) forgettable(ln *Lane) bool { return ln.permits == nil || ln.permits.IsFull(l.now) }

// keepSpent keeps a lane without commands whose bucket is not full, and forgets
// those whose buckets have filled up.
func (l *lanes) keepSpent(ln *Lane) {
	if !l.hasRoom(ln) {
		ln.ring = Ring{}
	}
	l.keep(ln)
	for range 2 { // one for the lane that has come, and one more
		if l.empty.n > mostSpent || l.empty.n > mostEmpty && l.forgettable(l.empty.first) {
			l.forget()
		}
	}
}

// Advance lists the dry lanes as ready whose next permits are there. If that is
// none it returns when to ask again, and whether an alarm must be set for that.
func (l *lanes) Advance(now int64) (due int64, alarm bool) {
	l.advance(now)
	if l.takeable > 0 || len(l.dry) == 0 {
		l.delay.End(now)
		return 0, false
	}
	due = l.dry[0].due
	return due, l.delay.Wait(now, due)
}

func (l *lanes) advance(now int64) {
	l.now = max(l.now, now)
	for len(l.dry) > 0 && l.dry[0].due <= l.now {
		ln := l.dry[0]
		l.undry(ln)
		l.update(ln)
	}
}

// Alarmed books that the alarm has gone off.
func (l *lanes) Alarmed() { l.delay.Alarmed() }

// Delayed returns for how long commands have waited for the rate while no other
// command could be started.
func (l *lanes) Delayed(now int64) time.Duration { return l.delay.Total(now) }

// Dry returns how many keys have commands that wait for the rate. It may count
// keys whose next permits are there, when no worker has asked since.
func (l *lanes) Dry() int { return len(l.dry) }

// Refund puts a permit back, for a command whose handler was not called.
func (l *lanes) Refund(r Rank) {
	ln := l.byKey.get(r.Key)
	if ln == nil {
		return // its bucket was full
	}
	ln.permits.Fill(l.now)
	ln.permits.GiveBack(1)
	if ln.dryAt > 0 {
		l.undry(ln)
		l.update(ln)
	}
	l.count(ln)
}
