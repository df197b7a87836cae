//go:build unix

package reexec

import (
	"os"
	"syscall"
)

// hangups are the signals that ask for a new version.
var hangups = []os.Signal{syscall.SIGHUP}

// become replaces the process by that of a file. It returns if that fails.
func become(path string) error {
	return &os.PathError{Op: "exec", Path: path, Err: syscall.Exec(path, os.Args, os.Environ())}
}
