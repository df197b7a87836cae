package show

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// The exit statuses of the examples.
const (
	StatusOK          = 0
	StatusFailed      = 1   // the work failed
	StatusUsage       = 2   // the flags are wrong, and nothing was started
	StatusInterrupted = 130 // ended by Ctrl-C, as shells define it
)

// Usage writes an error of the flags of a program and returns the exit status. [flag.ErrHelp] is no error.
func Usage(stderr io.Writer, program string, err error) (status int) {
	if errors.Is(err, flag.ErrHelp) {
		return StatusOK
	}
	complain(stderr, program, err)
	return StatusUsage
}

// Status returns the exit status of a program, and writes its error if there is one.
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
