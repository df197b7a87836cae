package engine

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/golda-dev/golda/internal/stacks"
)

// Made is the stack with which a stage was made. It is looked at only to say
// where.
type Made [8]uintptr

// MadeHere returns the caller's stack.
func MadeHere() (m Made) {
	runtime.Callers(2, m[:])
	return m
}

// String returns the file and line of the first function that is not one of the
// packages which make stages.
func (m Made) String() string {
	frames := runtime.CallersFrames(m[:])
	for {
		f, more := frames.Next()
		own := strings.HasPrefix(f.Function, stacks.Module+"stage.") || strings.HasPrefix(f.Function, stacks.Module+"window.")
		if f.Function != "" && !own {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
