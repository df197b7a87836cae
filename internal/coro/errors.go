package coro

import (
	"errors"
	"fmt"
)

var (
	// ErrStopped is the answer to a task that suspends itself, or is suspended, when it
	// is stopped.
	ErrStopped = errors.New("coroutine: stopped")

	// ErrNotRunning is the answer to a goroutine that suspends a task which is not
	// running: it has ended, or is suspended already, so the goroutine cannot be the task's.
	ErrNotRunning = errors.New("coroutine: suspended by who does not run it: " +
		"its function has returned, or another goroutine than the function's uses its context")

	// ErrGoexit is the fault of a task whose function called runtime.Goexit, as a
	// failing test helper does.
	ErrGoexit = errors.New("coroutine: called runtime.Goexit")

	// ErrIgnoredStop is the fault of a task that was stopped and, instead of returning, suspended
	// itself again and again; see [Task.Refused].
	ErrIgnoredStop = errors.New("coroutine: stopped, but went on suspending, and was ended: " +
		"a handler returns when a suspension returns ErrStopped")

	// ErrClosed is the answer to who starts a task on a host that is closed.
	ErrClosed = errors.New("coroutine: host closed")
)

// PanicError is the error of a function that panicked.
type PanicError struct {
	// Value is what was given to panic.
	Value any
	// Stack is the stack of the goroutine that panicked, at that moment.
	Stack []byte
}

// Error tells the value; the stack is apart.
func (e *PanicError) Error() string { return fmt.Sprintf("coroutine: panic: %v", e.Value) }

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
