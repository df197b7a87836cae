package main

import (
	"math"
	"runtime"
	"time"
)

// spinTime is how long the work of one stage of W3 takes, about.
const spinTime = 2 * time.Microsecond

// spin computes for a while, and returns something so that it is not left out.
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

// calibrate finds how many rounds take spinTime. It is done once for a whole run, so
// that all implementations do the same work, whatever the machine is doing meanwhile.
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
