// Package handoff measures a reference for the cost of a coroutine switch: a
// hand-off over unbuffered channels to a goroutine, and back. It is for
// benchmarks and their tests.
package handoff

import (
	"slices"
	"time"
)

// The turns and the hand-offs are measured alternately, this many at a time: so
// few that a round is mostly over before another process gets the core. The
// median of each counts. The best round would be unfair: a hand-off is fastest
// when both goroutines happen to be on one processor, which a program cannot
// arrange.
const (
	turns  = 400
	rounds = 200
)

// Cost is the cost of a turn and of a hand-off.
type Cost struct{ Turn, HandOff time.Duration }

// Ratio returns how many hand-offs a turn costs.
func (c Cost) Ratio() float64 { return float64(c.Turn) / float64(c.HandOff) }

// Measure measures a turn and a hand-off, alternately: 80,000 of each. It
// returns when the goroutine that it needed has ended.
func Measure(turn func()) Cost {
	there, back := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(back)
		for range there {
			back <- struct{}{}
		}
	}()
	mine, theirs := make([]time.Duration, rounds), make([]time.Duration, rounds)
	for i := range rounds {
		mine[i] = timed(turn)
		theirs[i] = timed(func() { there <- struct{}{}; <-back })
	}
	close(there)
	<-back
	slices.Sort(mine)
	slices.Sort(theirs)
	return Cost{mine[rounds/2], theirs[rounds/2]}
}

// timed returns how long one of several turns takes.
func timed(turn func()) time.Duration {
	begin := time.Now()
	for range turns {
		turn()
	}
	return time.Since(begin) / turns
}
