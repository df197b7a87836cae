// Jobs does the same work on job queues: Golda's, with the embedded NATS
// server; River with SQLite; asynq with Redis; and Watermill with the streams
// of Redis. It prints a table.
//
//	go run -C bench/jobs .                                       # three rounds; some minutes
//	go run -C bench/jobs . -system golda,river -rounds 1         # two of them
//	go run -C bench/jobs . -sync                                 # each write is synced to the disk
//	go run -C bench/jobs . -report ../../docs/jobs-compared.md   # the page of figures
//
// # The work
//
// A job is an ID, and its handler appends a line to a file. A measurement has
// one process that works, which handles -at-once jobs at a time, and three
// parts with a queue of their own each:
//
//   - speed: -jobs jobs are in the queue, and the process handles them;
//   - urgent: jobs that take 20 ms on average are in the queue, and meanwhile urgent
//     jobs are added, one each 25 ms;
//   - kills: the process is killed with SIGKILL -kills times while it handles
//     jobs that take 1 ms, and started again each time. The part ends when
//     the queue says that it is empty, or when nothing has moved for -patience.
//
// The file is the measure: which jobs were done, how often, and when.
//
// # Fairness
//
// The systems take turns within a round, in another order each round. Each is
// configured as its documentation advises for many short jobs. A process that
// is killed counts as gone after two seconds, in systems with a setting for
// that. Systems with a server of their own have it on this machine, with a Unix
// socket; it is not killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// The exit statuses.
const (
	statusOK          = 0
	statusFailed      = 1   // a measurement failed
	statusUsage       = 2   // nothing was measured
	statusInterrupted = 130 // by Ctrl-C, as shells have it
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childWord {
		os.Exit(child(os.Args[2:]))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	os.Exit(status)
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK
	case err != nil:
		return complain(stderr, statusUsage, err)
	}
	s := newSuite(c, stderr)
	s.measure(ctx)
	if ctx.Err() != nil {
		return complain(stderr, statusInterrupted, errors.New("interrupted"))
	}
	status := statusOK
	for _, err := range s.failures {
		status = complain(stderr, statusFailed, err)
	}
	if _, err := io.WriteString(stdout, s.text()); err != nil {
		return complain(stderr, statusFailed, err)
	}
	if c.report != "" && status == statusOK {
		if err := s.writeReport(c.report); err != nil {
			return complain(stderr, statusFailed, err)
		}
	}
	return status
}

// complain writes an error in one line and returns the status.
func complain(w io.Writer, status int, err error) int {
	_, _ = fmt.Fprintln(w, "jobs:", strings.Join(strings.Fields(err.Error()), " ")) // if w is closed, the status must do
	return status
}
