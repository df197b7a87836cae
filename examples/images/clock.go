package main

import (
	"time"

	"github.com/golda-dev/golda/examples/internal/show"
)

// clock measures the wall time and the CPU time of a run.
type clock struct {
	begin time.Time
	used  time.Duration
}

func startClock() clock {
	used, _ := show.CPUTime() // if it is unknown, stop finds that, too
	return clock{time.Now(), used}
}

// stop returns both; cpu is nil if it is unknown.
func (c clock) stop() (wall time.Duration, cpu *time.Duration) {
	wall = time.Since(c.begin)
	if used, ok := show.CPUTime(); ok {
		used -= c.used
		cpu = &used
	}
	return wall, cpu
}
