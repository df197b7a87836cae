// Bench does the same work on Golda and on alternatives: plain calls, channels,
// channels that carry batches, protoactor-go in its plain form, and libraries
// that Go programmers would use instead. It prints one table for each work, and
// the guarantees of each implementation beside its figures.
//
//	go run -C bench .                                  # all works, three rounds
//	go run -C bench . -work W1,W2 -rounds 3 -json      # one object per work and implementation
//	go run -C bench . -work W1 -impl golda -rounds 1 -cpuprofile /tmp/w1.pprof
//	go run -C bench . -report ../docs/performance.md   # the page of figures
//
// # Fairness
//
// All implementations get the same commands, in the same number, each a pointer
// to a small struct; the same limit of 1,024 commands before each stage, if
// they have bounds; and one submitter outside the line. All commands are
// counted at the end, in the same way. If some commands never end there is no
// figure: the run fails.
//
// The implementations take turns: a round measures each work on each
// implementation, every time in another order, so that none has an advantage by
// its time. Each measurement has a process of its own. The tables compare
// medians over the rounds. Implementations that a target compares are measured
// several times a round, one right after the other. The target's figure is the
// median of the ratios of such neighbours, with its range.
//
// # Another implementation
//
// Write one file that makes a line from a shape, see line.go and channels.go,
// and add it to implementations. The tests send each work through it.
package main

import (
	"context"
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
	statusFailed      = 1   // a measurement failed, or a generator missed its schedule
	statusUsage       = 2   // nothing was measured
	statusInterrupted = 130 // by Ctrl-C, as shells have it
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childWord {
		os.Exit(child(os.Args[2:], os.Stdout))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	os.Exit(status)
}

// complain writes an error in one line and returns the status.
func complain(w io.Writer, status int, err error) int {
	_, _ = fmt.Fprintln(w, "bench:", strings.Join(strings.Fields(err.Error()), " ")) // if w is closed, the status must do
	return status
}
