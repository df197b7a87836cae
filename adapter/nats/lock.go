package nats

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/golda-dev/golda/internal/lockfile"
)

// locks are the files that a server has locked.
type locks []*os.File

// lockStore takes the locks of a store, which end with the process at the
// latest: the lock of a file, and the lock of the directory, since the file may
// be removed.
func lockStore(dir string) (all locks, err error) {
	for _, take := range []func() (*os.File, error){
		func() (*os.File, error) { return lockfile.Take(filepath.Join(dir, lockName)) },
		func() (*os.File, error) { return lockfile.TakeDir(dir) },
	} {
		f, err := take()
		if errors.Is(err, lockfile.ErrLocked) {
			err = fmt.Errorf("%w: %w", ErrLocked, err)
		}
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all = append(all, f)
	}
	return all, nil
}

// Close gives the locks up.
func (l locks) Close() (err error) {
	for _, f := range l {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
