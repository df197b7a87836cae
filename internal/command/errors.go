package command

import (
	"fmt"
	"strings"
	"sync"
)

// MostErrors is how many errors a ticket keeps. It counts the others.
const MostErrors = 16

// JoinedError is the error of a ticket if several of its commands failed: the
// command itself, or commands that were emitted on its way. [errors.Is] and
// [errors.As] inspect all errors that are kept.
type JoinedError struct {
	// Count is how many commands failed.
	Count int
	// Errs are the errors of the first of them, [MostErrors] at most, in the
	// order in which the commands ended. They must not be changed.
	Errs []error
}

// Error returns the number of failed commands and the texts of the errors that
// are kept.
func (e *JoinedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d commands failed: ", e.Count)
	for i, err := range e.Errs {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(err.Error())
	}
	if more := e.Count - len(e.Errs); more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

// Unwrap returns the errors that are kept.
func (e *JoinedError) Unwrap() []error { return e.Errs }

// failures holds the errors of a ticket's commands.
type failures struct {
	first error // never changes

	mu    sync.Mutex   // guards the rest
	more  []error      // those after the first, MostErrors-1 at most
	count int          // how many errors there are after the first
	all   *JoinedError // the last result of err
}

// fail records the error of a command that has not been counted as ended yet.
// It ignores the error of a ticket that has ended, which is a mistake of the
// caller.
func (t *Ticket) fail(err error) {
	if t.ended() || t.failed.Load() == nil && t.failed.CompareAndSwap(nil, &failures{first: err}) {
		return
	}
	t.failed.Load().add(err)
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if len(f.more) < MostErrors-1 {
		f.more = append(f.more, err)
	}
}

// err returns the error of the ticket, the same at every call.
func (f *failures) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		if f.count == 0 {
			return f.first
		}
		f.all = &JoinedError{Count: f.count + 1, Errs: append([]error{f.first}, f.more...)}
	}
	return f.all
}
