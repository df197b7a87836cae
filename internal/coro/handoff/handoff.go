// Package handoff is the measure of what a switch of coroutines costs: a hand-off over unbuffered
// channels to a goroutine, and back. It is for benchmarks and their tests.
package handoff

import (
	"slices"
	"time"
)

// Both are measured in turns, so many of each at a time: so few that a round is mostly over before another
// process gets the core. The median of each counts. The best round would not be fair: a hand-off is
// quickest when both goroutines happen to be on one processor, which nobody can have them be.
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

// timed is how long one of several turns takes.
func timed(turn func()) time.Duration {
	begin := time.Now()
	for range turns {
		turn()
	}
	return time.Since(begin) / turns
}
