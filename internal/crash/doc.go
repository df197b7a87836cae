// Package crash is how the engine survives user code. [Guard] runs code that is
// no handler, in a goroutine of its own. [Error] is the crash of a handler or of
// such code, and a [Site] is where it happened.
//
// Handlers run in the goroutines of workers and on coroutines, which recover
// from their crashes themselves, and find the place with [Last.Here].
package crash
