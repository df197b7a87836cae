//go:build !unix

package main

// peakRSS is as near as one comes without getrusage: the runtime gives memory
// back, but not its addresses.
func peakRSS() uint64 { return heldMemory() }
