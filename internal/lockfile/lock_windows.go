package lockfile

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// noFollow is nothing: this system cannot open a file without following a link.
const noFollow = 0

// locksDirs reports whether directories can be locked.
const locksDirs = false

// lock locks a file, or returns [ErrLocked]. What is locked cannot be read by
// others, so it is a byte far behind what the file has.
func lock(f *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: math.MaxInt32})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}
