package main

import (
	"time"

	"github.com/golda-dev/golda/examples/internal/show"
)

// clock measures a run: the time, and what the process computed in it.
type clock struct {
	begin time.Time
	used  time.Duration
}

func startClock() clock {
	used, _ := show.CPUTime() // if it is not known, stop finds the same
	return clock{time.Now(), used}
}

// stop tells both; cpu is nil where nobody knows.
func (c clock) stop() (wall time.Duration, cpu *time.Duration) {
	wall = time.Since(c.begin)
	if used, ok := show.CPUTime(); ok {
		used -= c.used
		cpu = &used
	}
	return wall, cpu
}
