// Package need checks required arguments.
package need

import "context"

// Context panics if ctx is nil and names the call that got it. A nil context is a mistake in the caller's program.
// Context reports it at the public API, before any work has started; deeper inside it would be a nil dereference in the
// middle of the work. It is not an error, because a caller might take an error for the one that the context ended with.
func Context(ctx context.Context, call string) {
	if ctx == nil {
		refuse(call)
	}
}

// refuse is a function of its own so that Context is inlined: one comparison.
//
//go:noinline
func refuse(call string) { panic(call + ": nil context") }
