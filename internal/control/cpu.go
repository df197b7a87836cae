package control

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/cputime"
)

// cpuMeter measures which share of the CPUs the process has used recently:
// during the last second, or since the last reading if that is longer ago.
// Readings at the same time are equal, and a reading does not change later
// ones. One goroutine at a time may use it.
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
	cpuLeast  = cpuStep / 10   // a shorter time is not measured
)

// usage returns the used share of a number of CPUs, from 0 to 1; it is 0 if
// that is not known, as at the first reading.
func (m *cpuMeter) usage(cpus int) float64 {
	used, known := cputime.Used()
	if !known {
		return 0
	}
	return m.share(cpuSample{time.Now(), used}, cpus)
}

// machine returns the share of all CPUs of the machine that was used, by this
// process and all others, in the same way.
func (m *cpuMeter) machine() float64 {
	busy, cpus, known := cputime.Machine()
	if !known {
		return 0
	}
	return m.share(cpuSample{time.Now(), busy}, cpus)
}

// share returns the usage at a time.
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
