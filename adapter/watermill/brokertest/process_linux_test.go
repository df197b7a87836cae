package brokertest

import "syscall"

// attributes has a process killed when the thread that has started it ends, so that it does not outlive the tests.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
