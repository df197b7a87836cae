// Package handoff is the measure of what a switch of coroutines costs: a hand-off over unbuffered
// channels to a goroutine, and back. It is for benchmarks and their tests.
package handoff

import (
	"math"
	"time"
)

// Both are measured in turns, so many of each at a time: so few that a round is mostly over before another
// process gets the core. The best round of each counts, for whatever else a machine does only adds to it.
const (
	turns  = 400
	rounds = 200
)

// Cost is what a turn costs beside a hand-off.
type Cost struct{ Turn, HandOff time.Duration }

// Ratio is how many hand-offs a turn costs.
func (c Cost) Ratio() float64 { return float64(c.Turn) / float64(c.HandOff) }

// Measure measures a turn and a hand-off, one after the other: 80,000 of either. It
// returns when the goroutine that it needed has ended.
func Measure(turn func()) Cost {
	there, back := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(back)
		for range there {
			back <- struct{}{}
		}
	}()
	best := Cost{math.MaxInt64, math.MaxInt64}
	for range rounds {
		best.Turn = min(best.Turn, timed(turn))
		best.HandOff = min(best.HandOff, timed(func() { there <- struct{}{}; <-back }))
	}
	close(there)
	<-back
	return best
}

// timed is how long one of several turns takes.
func timed(turn func()) time.Duration {
	begin := time.Now()
	for range turns {
		turn()
	}
	return time.Since(begin) / turns
}
