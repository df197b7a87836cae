// Package rate counts permits: what a rate allows, and for how long commands
// have waited for it. It is pure: the time is an argument.
package rate

import (
	"math"
	"time"
)

// Limit bounds how many commands are given out: N in each Per, and up to Burst
// at once. All three are above zero, and the Limit [Limit.Fits]; any other
// Limit, such as the zero one, is no bound.
type Limit struct {
	N     int
	Per   time.Duration
	Burst int
}

// Fits reports whether a bucket can count the permits: Burst times Per is not
// too much for an int64. Per is above zero.
func (r Limit) Fits() bool { return int64(r.Burst) <= math.MaxInt64/int64(r.Per) }

func (r Limit) bounds() bool { return r.N > 0 && r.Per > 0 && r.Burst > 0 && r.Fits() }

// Bucket is a token bucket. Its tokens are called permits, because an inbox
// gives tokens to shared pools: there are N more in each Per, there is room for
// Burst, and a command that is given out takes one. The level is counted in
// shares of a permit that a nanosecond brings N of, so no permit is ever early
// or late by a rounding error.
//
// Invariant: 0 <= level <= room.
type Bucket struct {
	pour   int64 // shares that a nanosecond brings
	permit int64 // shares of a permit
	room   int64 // shares of a full bucket
	level  int64 // shares at the time since
	since  int64
}

// Delay is when commands waited for permits, and nothing else. They do from
// began until due, or until there are permits for another reason. The zero
// Delay is none.
type Delay struct {
	waits      bool
	alarmed    bool // an alarm is set for due
	began, due int64
	sum        time.Duration // of the delays that are over
}

// New returns a full bucket, nil if there is no bound.
func New(r Limit) *Bucket {
	if !r.bounds() {
		return nil
	}
	room := int64(r.Burst) * int64(r.Per)
	return &Bucket{pour: int64(r.N), permit: int64(r.Per), room: room, level: room}
}

// Fill adds the shares that have come until now.
func (b *Bucket) Fill(now int64) {
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

// Permits is how many whole permits there are.
func (b *Bucket) Permits(now int64) int {
	b.Fill(now)
	return int(b.level / b.permit)
}

// IsFull reports whether the bucket holds as many permits as it has room for.
func (b *Bucket) IsFull(now int64) bool {
	b.Fill(now)
	return b.level == b.room
}

// Take takes permits out that are there.
func (b *Bucket) Take(n int) { b.level -= int64(n) * b.permit }

// GiveBack puts permits back. A full bucket takes no more.
func (b *Bucket) GiveBack(n int) { b.level += min(int64(n)*b.permit, b.room-b.level) }

// DueAt is when there will be so many permits, which are at most Burst and more
// than there are; the end of time if it is later.
func (b *Bucket) DueAt(permits int) int64 {
	missing := int64(permits)*b.permit - b.level
	return b.since + min((missing-1)/b.pour+1, math.MaxInt64-b.since)
}

// Within is how many permits come in a time, at most Burst.
func (b *Bucket) Within(d time.Duration) int {
	if int64(d) > b.room/b.pour {
		return int(b.room / b.permit)
	}
	return int(int64(d) * b.pour / b.permit)
}

// Wait notes that commands wait for permits until a time. It reports whether an
// alarm must be set.
func (d *Delay) Wait(now, due int64) bool {
	if !d.waits {
		d.waits, d.began = true, now
	}
	if d.alarmed && d.due == due {
		return false
	}
	d.due, d.alarmed = due, true
	return true
}

// End notes that commands wait for permits no more.
func (d *Delay) End(now int64) { d.sum, d.waits = d.Total(now), false }

// Total is for how long commands have waited.
func (d *Delay) Total(now int64) time.Duration {
	if !d.waits {
		return d.sum
	}
	return d.sum + time.Duration(max(min(now, d.due)-d.began, 0))
}

// Waits reports whether commands wait for permits.
func (d *Delay) Waits() bool { return d.waits }

// Alarmed notes that the alarm has gone off.
func (d *Delay) Alarmed() { d.alarmed = false }
