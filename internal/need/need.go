// Package need refuses what is missing and cannot be done without.
package need

import "context"

// Context panics if ctx is nil, with the call that it was given to. Who passes none has a
// mistake in his program, and is told at the edge, before anything has begun: deep inside it
// would be a nil dereference, with half of the work done. It is no error, which might be taken
// for one that the context ended with.
func Context(ctx context.Context, call string) {
	if ctx == nil {
		refuse(call)
	}
}

// refuse stands apart so that Context is inlined: one comparison.
//
//go:noinline
func refuse(call string) { panic(call + ": nil context") }
