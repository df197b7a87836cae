package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/golda-dev/golda/stage"
)

// failures are the images that were not written.
type failures struct {
	lines []string
	paths map[string]bool
	stack []byte // of the first crash; the others are probably the same
}

func (f *failures) add(path string, err error) {
	f.lines = append(f.lines, explain(path, err))
	if f.paths == nil {
		f.paths = make(map[string]bool)
	}
	f.paths[path] = true
	var crash *stage.CrashError
	if f.stack == nil && errors.As(err, &crash) {
		f.stack = crash.Stack
	}
}

// explain returns a line that says how an image failed, with its stage and its
// file.
func explain(path string, err error) string {
	var crash *stage.CrashError
	switch {
	case errors.As(err, &crash):
		return fmt.Sprintf("stage %q: %s: crashed %d times: %v", crash.Stage, path, crash.Attempts, crash.Value)
	case errors.Is(err, stage.ErrStopped):
		return fmt.Sprintf("%s: %v", path, err)
	default: // stage and file are in the error already, see job.fail
		return err.Error()
	}
}

func (f *failures) print(w io.Writer) {
	for _, line := range f.lines {
		_, _ = fmt.Fprintln(w, "failed:", line) // w is stderr; the status reports failures as well
	}
	if f.stack != nil {
		_, _ = fmt.Fprintf(w, "the first crash was at:\n%s\n", f.stack)
	}
}
