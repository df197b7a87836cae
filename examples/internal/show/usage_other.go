//go:build !unix

package show

import "time"

// maxRSS is as near as one comes without getrusage: the runtime gives memory
// back, but not its addresses.
func maxRSS() uint64 { return heldMemory() }

// CPUTime is not known here.
func CPUTime() (used time.Duration, ok bool) { return 0, false }
