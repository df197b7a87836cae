package pipeline

import "time"

// cpuClock tells which share of the CPUs the process has used since it was last asked.
type cpuClock struct {
	used time.Duration
	at   time.Time
}
