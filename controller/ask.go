package controller

import (
	"runtime/debug"

	"github.com/golda-dev/golda/internal/plain"
)

// PanicError is the error of a controller that panicked.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // where
}

// Error tells the value, not the stack.
func (e *PanicError) Error() string {
	return "controller: panicked: " + plain.Text(e.Value)
}

// Unwrap returns the value if it is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Ask resets d and lets c answer into it. If c panics, the error is a
// [*PanicError] and d is empty: half an answer is none, and what was decided
// before stays in force. The controller may be asked again.
//
// This is the one recover beside the worker's. A controller is user code, too, and
// a pipeline does not stop working because nobody watches its queues.
func Ask(c Controller, ev Event, s *Snapshot, d *Decisions) (err error) {
	defer func() {
		if v := recover(); v != nil {
			d.Reset()
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	d.Reset()
	c.Control(ev, s, d)
	return nil
}
