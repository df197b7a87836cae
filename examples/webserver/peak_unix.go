//go:build unix

package main

import (
	"runtime"
	"syscall"
)

// peakRSS is the most memory that the process had at any time, in bytes.
func peakRSS() uint64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return heldMemory()
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return uint64(usage.Maxrss) // in bytes there, in kilobytes elsewhere
	}
	return uint64(usage.Maxrss) * 1024
}
