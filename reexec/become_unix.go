//go:build unix

package reexec

import (
	"os"
	"syscall"
)

// hangups are the signals that ask for a new version.
var hangups = []os.Signal{syscall.SIGHUP}

// become replaces the process by a process of the file. It returns if that
// fails.
func become(path string) error {
	var files syscall.Rlimit
	limited := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	err := syscall.Exec(path, args(path), os.Environ())
	if limited == nil { // Exec has undone the Go runtime's change of the limit
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files)
	}
	return &os.PathError{Op: "exec", Path: path, Err: err}
}
