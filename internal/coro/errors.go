package coro

import (
	"errors"
	"fmt"
)

var (
	// ErrStopped is returned to a task that suspends itself, or is suspended,
	// when it is stopped.
	ErrStopped = errors.New("coroutine: stopped")

	// ErrNotRunning is returned to a goroutine that suspends a task that is not
	// running: the task has ended, or is suspended already, so the goroutine
	// cannot be the task's.
	ErrNotRunning = errors.New("coroutine: the task is not running on this goroutine: " +
		"its function has returned, or another goroutine than the function's uses its context")

	// ErrGoexit is the fault of a task whose function called runtime.Goexit, as
	// a failing test helper does.
	ErrGoexit = errors.New("coroutine: called runtime.Goexit")

	// ErrIgnoredStop is the fault of a task that was stopped and, instead of
	// returning, suspended itself repeatedly; see [Task.Refused].
	ErrIgnoredStop = errors.New("coroutine: ended because it continued to suspend after being stopped: " +
		"a handler must return when a suspension returns ErrStopped")

	// ErrClosed is returned when a task is started on a closed host.
	ErrClosed = errors.New("coroutine: host closed")
)

// PanicError is the error of a function that panicked.
type PanicError struct {
	// Value is the value given to panic.
	Value any
	// Stack is the stack of the goroutine that panicked, at that moment.
	Stack []byte
}

// Error includes the value, but not the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("coroutine: panic: %v", e.Value) }

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
