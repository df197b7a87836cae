package nats

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// lockFile takes the lock of a store, which ends with the process at the latest. The file has the number of the process that took it
// last, for messages only.
func lockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		if pid := readPID(f); pid != "" && errors.Is(err, ErrLocked) {
			err = fmt.Errorf("%w: process %s", ErrLocked, pid)
		}
		return nil, errors.Join(err, f.Close())
	}
	// A disk that is full cannot take the number. The lock holds all the same.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	return f, nil
}

func readPID(f *os.File) string {
	buf := make([]byte, 20)
	n, _ := f.ReadAt(buf, 0)
	return strings.TrimSpace(string(buf[:n]))
}
