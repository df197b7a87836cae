//go:build !unix

package show

import "time"

// maxRSS returns the best approximation without getrusage: the runtime returns
// memory to the system, but keeps its addresses.
func maxRSS() uint64 { return heldMemory() }

// CPUTime is unknown on this system.
func CPUTime() (used time.Duration, ok bool) { return 0, false }
