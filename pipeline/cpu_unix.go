//go:build unix

package pipeline

import (
	"runtime"
	"syscall"
	"time"
)

// usage is from 0 to 1; 0 the first time.
func (c *cpuClock) usage() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	used, at := time.Duration(u.Utime.Nano()+u.Stime.Nano()), time.Now()
	spent, span := used-c.used, at.Sub(c.at)
	first := c.at.IsZero()
	c.used, c.at = used, at
	if first || span <= 0 {
		return 0
	}
	return min(float64(spent)/float64(span)/float64(runtime.NumCPU()), 1)
}
