package inbox

import (
	"math"
	"time"
)

// Rate bounds how many commands are given out: N in each Per, and up to Burst at once. All three are above zero, and the
// Rate [Rate.Fits]; any other Rate, such as the zero one, is no bound.
type Rate struct {
	N     int
	Per   time.Duration
	Burst int
}

// Fits reports whether a bucket can count the permits: Burst times Per is not too much for an int64. Per is above zero.
func (r Rate) Fits() bool { return int64(r.Burst) <= math.MaxInt64/int64(r.Per) }

func (r Rate) bounds() bool { return r.N > 0 && r.Per > 0 && r.Burst > 0 && r.Fits() }

// bucket is a token bucket. Its tokens are called permits, because an inbox gives tokens to shared pools: there are N more in each
// Per, there is room for Burst, and a command that is given out takes one. The level is counted in shares of a permit that a
// nanosecond brings N of, so no permit is ever early or late by a rounding error.
//
// Invariant: 0 <= level <= room.
type bucket struct {
	pour   int64 // shares that a nanosecond brings
	permit int64 // shares of a permit
	room   int64 // shares of a full bucket
	level  int64 // shares at the time since
	since  int64
}

// limit is a bucket for the whole inbox.
type limit struct {
	bucket
	delay
}

// newLimit returns a limit whose bucket is full, nil if there is no bound.
func newLimit(r Rate) *limit {
	if b := newBucket(r); b != nil {
		return &limit{bucket: *b}
	}
	return nil
}

// delay is when commands waited for permits, and nothing else. They do from began until due, or until there are permits for
// another reason.
type delay struct {
	waits      bool
	alarmed    bool // an alarm is set for due
	began, due int64
	sum        time.Duration // of the delays that are over
}

// newBucket returns a full bucket, nil if there is no bound.
func newBucket(r Rate) *bucket {
	if !r.bounds() {
		return nil
	}
	room := int64(r.Burst) * int64(r.Per)
	return &bucket{pour: int64(r.N), permit: int64(r.Per), room: room, level: room}
}

// fill adds the shares that have come until now.
func (b *bucket) fill(now int64) {
	past := now - b.since
	if past <= 0 {
		return
	}
	b.since = now
	if missing := b.room - b.level; past > missing/b.pour {
		b.level = b.room
	} else {
		b.level += past * b.pour
	}
}

// permits is how many whole permits there are.
func (b *bucket) permits(now int64) int {
	b.fill(now)
	return int(b.level / b.permit)
}

// isFull reports whether the bucket holds as many permits as it has room for.
func (b *bucket) isFull(now int64) bool {
	b.fill(now)
	return b.level == b.room
}

// take takes permits out that are there.
func (b *bucket) take(n int) { b.level -= int64(n) * b.permit }

// giveBack puts permits back. A full bucket takes no more.
func (b *bucket) giveBack(n int) { b.level += min(int64(n)*b.permit, b.room-b.level) }

// dueAt is when there will be so many permits, which are at most Burst and more than there are; the end of time if it is later.
func (b *bucket) dueAt(permits int) int64 {
	missing := int64(permits)*b.permit - b.level
	return b.since + min((missing-1)/b.pour+1, math.MaxInt64-b.since)
}

// within is how many permits come in a time, at most Burst.
func (b *bucket) within(d time.Duration) int {
	if int64(d) > b.room/b.pour {
		return int(b.room / b.permit)
	}
	return int(int64(d) * b.pour / b.permit)
}

// wait notes that commands wait for permits until a time. It reports whether an alarm is to be set.
func (d *delay) wait(now, due int64) bool {
	if !d.waits {
		d.waits, d.began = true, now
	}
	if d.alarmed && d.due == due {
		return false
	}
	d.due, d.alarmed = due, true
	return true
}

// end notes that commands wait for permits no more.
func (d *delay) end(now int64) { d.sum, d.waits = d.total(now), false }

// total is for how long commands have waited.
func (d *delay) total(now int64) time.Duration {
	if !d.waits {
		return d.sum
	}
	return d.sum + time.Duration(max(min(now, d.due)-d.began, 0))
}
