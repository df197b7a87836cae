package main

import (
	"runtime"
	"time"
)

// usage is the process's use of resources so far.
type usage struct {
	at     time.Time
	cpu    time.Duration
	allocs uint64
	bytes  uint64
}

// used reads all figures; it stops the world for a moment.
func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{at: time.Now(), cpu: cpuTime(), allocs: m.Mallocs, bytes: m.TotalAlloc}
}

// since sets the figures of s for a number of commands.
func (u usage) since(s *sample, commands, hops int) {
	now := used()
	n := float64(max(1, commands))
	s.NsPerHop = float64(now.at.Sub(u.at)) / n / float64(hops)
	s.CPUPerCommand = float64(now.cpu-u.cpu) / n
	s.AllocsPerHop = float64(now.allocs-u.allocs) / n / float64(hops)
	s.BytesPerHop = float64(now.bytes-u.bytes) / n / float64(hops)
}
