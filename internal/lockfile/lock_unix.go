//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package lockfile

import (
	"errors"
	"os"
	"syscall"
)

// noFollow has a link not followed, so that no file is made where it leads.
const noFollow = syscall.O_NOFOLLOW

// locksDirs reports whether directories can be locked.
const locksDirs = true

// lock locks a file, or returns [ErrLocked].
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
