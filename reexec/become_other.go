//go:build !unix

package reexec

import (
	"os"
	"os/exec"
)

// hangups are the signals that ask for a new version.
var hangups []os.Signal

// become starts a process of a file, in the place of this one. If it returns nil, this one must end.
func become(path string) error {
	cmd := exec.Command(path, os.Args[1:]...) //nolint:noctx // it must outlive this process
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Start()
}
