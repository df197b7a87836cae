//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// Used returns how much CPU time the process has used, of the user's and the
// system's; known is false if the system does not say.
func Used() (used time.Duration, known bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
