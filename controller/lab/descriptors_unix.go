//go:build unix

package lab

import (
	"fmt"
	"syscall"
)

// descriptors returns the limit of file descriptors, or nothing if it is unknown.
func descriptors() string {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return ""
	}
	return fmt.Sprint(limit.Cur)
}
