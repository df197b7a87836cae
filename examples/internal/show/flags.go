package show

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// Parse parses arguments as f.Parse does. The error of an unknown flag names
// -help, which lists the known flags; other errors name their flag. For -help
// it writes a line about the program and all flags to the writer, and returns
// [flag.ErrHelp]. It writes nothing else.
func Parse(f *flag.FlagSet, args []string, about string, help io.Writer) error {
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintln(help, about)
		f.SetOutput(help)
		f.PrintDefaults()
		return err
	case err != nil && strings.HasPrefix(err.Error(), "flag provided but not defined"): // package flag has no error value for it
		return fmt.Errorf("%w; see -help", err)
	default:
		return err
	}
}
