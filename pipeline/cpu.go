package pipeline

import (
	"slices"
	"time"
)

// cpuMeter measures which share of the CPUs the process has used of late: during the last second, or since the meter
// was last asked if that is longer ago. It is the same for all that ask, and asking changes nothing for others.
// One goroutine asks at a time.
type cpuMeter struct {
	samples []cpuSample // a window back, oldest first
}

// cpuSample is how much CPU time the process had used at a time.
type cpuSample struct {
	at   time.Time
	used time.Duration
}

const (
	cpuWindow = time.Second
	cpuStep   = cpuWindow / 10 // between two samples that are kept
	cpuLeast  = cpuStep / 10   // a shorter time says nothing
)

// usage is the share of so many CPUs, from 0 to 1; 0 if it is not known, as at first.
func (m *cpuMeter) usage(cpus int) float64 {
	used, known := processTime()
	if !known {
		return 0
	}
	return m.share(cpuSample{time.Now(), used}, cpus)
}

// share is the usage at a time.
func (m *cpuMeter) share(now cpuSample, cpus int) (share float64) {
	if len(m.samples) == 0 {
		m.samples = append(m.samples, now)
		return 0
	}
	for len(m.samples) > 1 && now.at.Sub(m.samples[1].at) >= cpuWindow {
		m.samples = slices.Delete(m.samples, 0, 1)
	}
	begin := m.samples[0]
	if span := now.at.Sub(begin.at); span >= cpuLeast && cpus > 0 {
		share = float64(now.used-begin.used) / float64(span) / float64(cpus)
	}
	if now.at.Sub(m.samples[len(m.samples)-1].at) >= cpuStep {
		m.samples = append(m.samples, now)
	}
	return min(max(share, 0), 1)
}
