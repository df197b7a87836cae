//go:build !unix

package cputime

import "time"

// Used reports that the time is not known on this system.
func Used() (used time.Duration, known bool) { return 0, false }
