package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// errAbandoned is the error of a file that is written after the second Ctrl-C.
var errAbandoned = errors.New("interrupted")

// outbox writes files whole or not at all: first into a temporary file in the
// same directory, which it renames when it is complete. It remembers the
// temporary files, so that they can be removed when the program must end at
// once. It is safe for concurrent use. The zero outbox is ready to use.
type outbox struct {
	mu     sync.Mutex // guards the fields below
	open   map[string]bool
	serial int
	closed bool
}

// put writes a file, and replaces an older one of that name.
func (o *outbox) put(path string, data []byte) (err error) {
	temp, err := o.create(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer o.forget(temp.Name()) // also after a crash
	if _, err := temp.Write(data); err != nil {
		return errors.Join(err, temp.Close())
	}
	if err := temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// create makes a temporary file. Its name includes the process; a file of that
// name was left by a process that has ended. (os.CreateTemp would make a file
// that only its owner may read.)
func (o *outbox) create(dir string) (*os.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, errAbandoned
	}
	o.serial++
	name := filepath.Join(dir, fmt.Sprintf(".golda-%d-%d.tmp", os.Getpid(), o.serial))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666) //nolint:gosec // pictures are not secret; the umask applies
	if err != nil {
		return nil, err
	}
	if o.open == nil {
		o.open = make(map[string]bool)
	}
	o.open[name] = true
	return f, nil
}

// forget removes a temporary file that was not renamed.
func (o *outbox) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, name)
	_ = os.Remove(name) // after a rename there is nothing to remove
}

// abandon removes all temporary files, and prevents new ones.
func (o *outbox) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for name := range o.open {
		_ = os.Remove(name) // the program ends, so an error cannot be reported
	}
}
