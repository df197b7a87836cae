//go:build !unix

package reexec

import (
	"os"
	"os/exec"
)

// hangups are the signals that ask for a new version.
var hangups []os.Signal

// become starts a process of a file, in the place of this one. If it returns
// nil, this one must end.
func become(path string) error {
	cmd := exec.Command(path) //nolint:noctx // it must outlive this process
	cmd.Args = args(path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Start()
}
