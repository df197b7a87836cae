//go:build unix

package nats_test

import "syscall"

// The signals that have a process stand still and go on.
const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)
