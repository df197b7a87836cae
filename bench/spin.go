package main

import (
	"math"
	"runtime"
	"time"
)

// spinTime is approximately how long the work of one stage of W3 takes.
const spinTime = 2 * time.Microsecond

// spin computes for a while, and returns a result so that the compiler keeps
// the computation.
//
//go:noinline
func spin(rounds int) uint64 {
	x := uint64(rounds) | 1
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// calibrate finds how many rounds take spinTime. It is called once for a whole
// run, so that all implementations do the same work, whatever the load of the
// machine.
func calibrate() int {
	const rounds = 200_000
	best := time.Duration(math.MaxInt64)
	for range 9 {
		begin := time.Now()
		runtime.KeepAlive(spin(rounds))
		best = min(best, time.Since(begin))
	}
	return max(1, int(int64(rounds)*int64(spinTime)/max(1, int64(best))))
}
