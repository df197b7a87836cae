// Package handling has the contexts of handlers.
//
// There are three. A command without a caller's context is handled with its
// worker's context, which is always the same: [Plain]. Other commands have
// contexts of their own: [Valued] has the values of the caller's context, and
// [Calling] ends with it too. So a context that a handler keeps still has the
// values of its command, whatever the worker does by then. [Timed] is around
// one of them if the stage has a time limit. A handler that suspends has the
// context of its task instead.
//
// [Until] waits with any of them, and with the context of a caller outside.
package handling
