//go:build !unix

package main

import "time"

// maxRSS is as near as one comes without getrusage: the runtime gives memory
// back, but not its addresses.
func maxRSS() uint64 { return heldMemory() }

// cpuTime is not known here.
func cpuTime() (used time.Duration, ok bool) { return 0, false }
