package show

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

// The exit statuses of the examples.
const (
	StatusOK          = 0
	StatusFailed      = 1   // the work failed
	StatusUsage       = 2   // the flags are wrong, and nothing was started
	StatusInterrupted = 130 // ended by Ctrl-C, as shells define it
)

// Usage writes an error of the flags of a program and returns the exit status.
// [flag.ErrHelp] is no error.
func Usage(stderr io.Writer, program string, err error) (status int) {
	if errors.Is(err, flag.ErrHelp) {
		return StatusOK
	}
	complain(stderr, program, err)
	return StatusUsage
}

// Status returns the exit status of a program, and writes its error if there is
// one.
func Status(stderr io.Writer, program string, err error) (status int) {
	if err == nil {
		return StatusOK
	}
	complain(stderr, program, err)
	return StatusFailed
}

// complain writes joined errors in one line.
func complain(stderr io.Writer, program string, err error) {
	_, _ = fmt.Fprintf(stderr, "%s: %s\n", program, strings.ReplaceAll(err.Error(), "\n", "; "))
}

// Faults writes joined errors of a program, each in a line of its own, and
// returns the exit status that it is given.
func Faults(stderr io.Writer, program string, status int, err error) int {
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", program, strings.TrimSpace(line)) // if stderr is closed, the status must do
	}
	return status
}

// Fault returns an error if something is wrong, and nil otherwise.
func Fault(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// NoArguments returns an error if there are arguments that are not flags.
func NoArguments(f *flag.FlagSet) error {
	return Fault(f.NArg() > 0, "stray argument %q; everything is set with flags, see -help", f.Arg(0))
}

// Main runs a program until it ends, and ends the process with its exit status.
// The first signal to stop ends the context of the program, and a second one
// ends the process at once.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
