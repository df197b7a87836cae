//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is what the process has computed, in user's and in system's mode.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
