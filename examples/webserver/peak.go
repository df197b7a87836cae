package main

import "runtime"

// heldMemory is the address space that the Go runtime ever took.
func heldMemory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys
}
