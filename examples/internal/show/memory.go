package show

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// PeakMemory is the most memory that the process had at any time, in bytes.
func PeakMemory() uint64 {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		if peak, ok := highWater(string(status)); ok {
			return peak
		}
	}
	return maxRSS()
}

// highWater finds the peak in what Linux tells of a process. The other way,
// getrusage, counts whoever started the process, too: it had that one's memory until it
// had its own.
func highWater(status string) (bytes uint64, ok bool) {
	for line := range strings.Lines(status) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib * 1024, err == nil
		}
	}
	return 0, false
}

// heldMemory is the address space that the Go runtime ever took.
func heldMemory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys
}
