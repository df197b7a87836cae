package show

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// PeakMemory returns the peak memory of the process in bytes.
func PeakMemory() uint64 {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		if peak, ok := highWater(string(status)); ok {
			return peak
		}
	}
	return maxRSS()
}

// highWater finds the peak in the status that Linux reports for a process. The
// alternative, getrusage, also counts the parent process, whose memory the
// process had until it got its own.
func highWater(status string) (bytes uint64, ok bool) {
	for line := range strings.Lines(status) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib * 1024, err == nil
		}
	}
	return 0, false
}

// heldMemory returns the address space that the Go runtime has reserved.
func heldMemory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys
}
