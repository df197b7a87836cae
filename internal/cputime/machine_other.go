//go:build !linux

package cputime

import "time"

// Machine reports that the time is not known on this system.
func Machine() (busy time.Duration, cpus int, known bool) { return 0, 0, false }
