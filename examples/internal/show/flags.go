package show

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// Parse parses arguments as f.Parse does. The error of a flag that is not known names -help, which lists those that are; other
// errors name their flag. Asked for help, it writes a line
// about the program and all flags to the writer, and returns [flag.ErrHelp]. Nothing else is written.
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
	case err != nil && strings.HasPrefix(err.Error(), "flag provided but not defined"): // package flag has no error for it
		return fmt.Errorf("%w; see -help", err)
	default:
		return err
	}
}
