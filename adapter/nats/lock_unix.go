//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package nats

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file, or returns [ErrLocked].
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
