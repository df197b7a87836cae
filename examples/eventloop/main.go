// Eventloop is an echo server with a status line, written as an event
// scheduler: handlers read and write as if they blocked, and their shared state
// needs no lock.
//
//	go run ./examples/eventloop            # then, elsewhere: nc 127.0.0.1 7777
//
// Ctrl-C ends it. See the README beside this file.
package main

import (
	"os"
	"syscall"

	"github.com/golda-dev/golda/coordination/scheduler"
)

func main() {
	stop := scheduler.Signal(os.Interrupt, syscall.SIGTERM)
	os.Exit(run(stop, os.Args[1:], os.Stdout, os.Stderr))
}
