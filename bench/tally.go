package main

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// tally counts the commands that have left a line. All implementations pay for
// it, so it should cost little, and the same for all: a counter that several
// processors write would cost more than a hop of the fastest. So each goroutine
// writes one of many counters, which is selected by the address of its stack.
type tally struct{ counters [1 << tallyBits]padded }

const tallyBits = 5

// padded is a counter with a cache line of its own, and the next line, which
// processors prefetch.
type padded struct {
	n atomic.Int64
	_ [120]byte
}

// add counts one command. Any goroutine may call it.
func (t *tally) add() {
	var here byte
	stack := uint64(uintptr(unsafe.Pointer(&here))) >> 11 //nolint:gosec // it is only a number: the address of this stack
	const golden = 0x9e3779b97f4a7c15                     // spreads neighbours, as in Knuth's multiplicative hashing
	t.counters[stack*golden>>(64-tallyBits)].n.Add(1)
}

// sum returns the count.
func (t *tally) sum() int {
	total := int64(0)
	for i := range t.counters {
		total += t.counters[i].n.Load()
	}
	return int(total)
}

// glance is how long await sleeps between two checks. It is the error of a
// measurement, some 0.1 ms of at least 300 ms.
const glance = 50 * time.Microsecond

// await waits until n were counted, or until the count has not changed for the
// patience.
func (t *tally) await(n int, patience time.Duration) (counted int) {
	last, since := -1, time.Now()
	for {
		counted = t.sum()
		switch {
		case counted >= n:
			return counted
		case counted != last:
			last, since = counted, time.Now()
		case time.Since(since) > patience:
			return counted
		}
		time.Sleep(glance)
	}
}
