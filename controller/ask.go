package controller

import (
	"runtime/debug"

	"github.com/golda-dev/golda/internal/plain"
)

// PanicError is the error of a controller that panicked.
type PanicError struct {
	Value any    // the value that the controller panicked with
	Stack []byte // the stack of the panic
}

// Error includes the value, but not the stack.
func (e *PanicError) Error() string {
	return "controller: panicked: " + plain.Text(e.Value)
}

// Unwrap returns the value if it is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Ask resets d, calls c and lets it write its answer into d. If c panics, Ask
// returns a [*PanicError] and d is empty: Ask drops an incomplete answer, and
// earlier decisions stay in force. The controller may be called again.
//
// This is the only recover besides the worker's. A controller is user code,
// too, and a pipeline must not stop because its controller failed.
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
