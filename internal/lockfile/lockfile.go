// Package lockfile lets one pipeline or process at a time use a directory.
package lockfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrLocked reports that another process, or another part of this one, holds
// the lock.
var ErrLocked = errors.New("it is in use")

// ErrReplaced reports that the path leads to another file than the one that was
// locked: it is a link, or the file was removed meanwhile.
var ErrReplaced = errors.New("the lock file is a link, or was replaced")

// Take makes the file of that name if it is not there, and locks it. The lock
// ends when the file is closed, and with the process at the latest. The file
// has the number of the process that locked it last, for messages only.
func Take(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		if there, _ := os.Lstat(name); there != nil && there.Mode()&os.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s: %w", name, ErrReplaced)
		}
		return nil, err
	}
	if err := take(name, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// A disk that is full cannot take the number. The lock holds all the same.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	return f, nil
}

// TakeDir locks a directory itself: the lock is held although a file in it is
// removed. The lock ends when the file is closed, and with the process at the
// latest. The file is nil where a system has no locks of directories, such as
// Windows.
func TakeDir(dir string) (*os.File, error) {
	if !locksDirs {
		return nil, nil //nolint:nilnil // there is nothing to lock
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// take locks a file that is open, and makes sure that the name still leads to
// it.
func take(name string, f *os.File) error {
	if err := lock(f); err != nil {
		if pid := readPID(f); pid != "" && errors.Is(err, ErrLocked) {
			return fmt.Errorf("%w by process %s", ErrLocked, pid)
		}
		return err
	}
	there, err := os.Lstat(name)
	if err != nil {
		return err
	}
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(there, mine) {
		return fmt.Errorf("%s: %w", name, ErrReplaced)
	}
	return nil
}

func readPID(f *os.File) string {
	buf := make([]byte, 20)
	n, _ := f.ReadAt(buf, 0)
	return strings.TrimSpace(string(buf[:n]))
}
