//go:build unix

package show

import (
	"runtime"
	"syscall"
	"time"
)

// maxRSS returns the peak memory of the process in bytes.
func maxRSS() uint64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return heldMemory()
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return uint64(usage.Maxrss) // in bytes there, in kilobytes elsewhere
	}
	return uint64(usage.Maxrss) * 1024
}

// CPUTime returns the CPU time of the process so far, in user and system mode.
func CPUTime() (used time.Duration, ok bool) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err == nil
}
