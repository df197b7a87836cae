//go:build !unix

package nats_test

import "syscall"

// This system has no such signals: the tests that send them fail.
const (
	sigStop = syscall.SIGKILL
	sigCont = syscall.SIGKILL
)
