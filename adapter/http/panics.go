package stagehttp

import (
	"net/http"
	"runtime/debug"
	"strconv"

	"github.com/golda-dev/golda/internal/plain"
)

const (
	longestQuoted = 128  // bytes of a value of a request in an error or a log line
	longestText   = 1024 // bytes of an error in an answer or a log line
)

// panicError is the error of a function of the handler that panicked.
type panicError struct {
	value  any
	stack  []byte
	answer error // that Problem was called with, if it is Problem that panicked
}

func (e *panicError) Error() string {
	text := "panic: " + plain.Brief(e.value, longestText)
	if e.answer != nil {
		text += ", while the answer was made to: " + plain.Brief(e.answer, longestText)
	}
	return text
}

// aborts reports whether the function panicked to abort the connection, which
// net/http allows and does not log.
func (e *panicError) aborts() bool { return e.value == http.ErrAbortHandler } //nolint:errorlint // as net/http does

// caught returns the error of a panic, given the value that recover returned,
// and nil without a panic.
func caught(value any) *panicError {
	if value == nil {
		return nil
	}
	if e, ok := value.(*panicError); ok {
		return e // of another goroutine, with the stack of that
	}
	return &panicError{value: value, stack: debug.Stack()}
}

// quote quotes the start of a value that a client has sent.
func quote(value string) string { return strconv.Quote(plain.Brief(value, longestQuoted)) }
