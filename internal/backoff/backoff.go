// Package backoff has the arithmetic of pauses. Some pauses grow: before a
// retry of a command, before a crashing stage works on, and before a supervisor
// restarts a child. Other pauses are asked for by another program. A [Budget]
// bounds how many retries there are.
package backoff

import (
	"math/bits"
	"time"
)

// Pause returns the n-th pause of a row, counted from one: first, doubled for
// each further one up to most, and changed by a share of itself, from -1 to 1,
// which callers draw at random. It returns 0 if first is 0.
func Pause(first, most time.Duration, n int, share float64) time.Duration {
	if first == 0 {
		return 0
	}
	d := most
	if doublings := max(n-1, 0); doublings < bits.LeadingZeros64(uint64(first))-1 { // otherwise it would overflow
		d = min(first<<doublings, most)
	}
	return d + time.Duration(share*float64(d))
}

// LongestAsked is the longest pause that another program may ask for, unless
// the user allows longer ones.
const LongestAsked = time.Minute

// Heed returns the pause to make when another program asks for one: the pause
// asked for, but at most a bound. Cut reports whether the program asks for
// more. All code that pauses because it was asked to calls Heed: stages, the
// sources of brokers, the functions that send requests, and the handlers that
// pass a pause on to their clients.
func Heed(asked, most time.Duration) (pause time.Duration, cut bool) {
	return min(max(asked, 0), most), asked > most
}
