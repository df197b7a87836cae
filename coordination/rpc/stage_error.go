package rpc

import (
	"errors"

	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
)

func init() { //nolint:gochecknoinits // as gob.Register is used
	for name, err := range map[string]error{
		"ErrFull": stage.ErrFull, "ErrClosed": stage.ErrClosed, "ErrDraining": stage.ErrDraining, "ErrNotRunning": stage.ErrNotRunning,
		"ErrShed": stage.ErrShed, "ErrRate": stage.ErrRate, "ErrPolicy": stage.ErrPolicy, "ErrDisabled": stage.ErrDisabled,
		"ErrMaxInFlight": stage.ErrMaxInFlight, "ErrExpired": stage.ErrExpired, "ErrRetryBudget": stage.ErrRetryBudget,
		"ErrSelfCall": stage.ErrSelfCall, "ErrStopped": stage.ErrStopped, "ErrTimeout": stage.ErrTimeout, "ErrStuck": stage.ErrStuck,
		"ErrForeign": stage.ErrForeign, "ErrElsewhere": stage.ErrElsewhere,
	} {
		transport.RegisterError("stage."+name, err)
	}
	transport.RegisterErrorType[*stageError]("rpc.stageError")
}

// stageError is an error of a stage on its way to another node.
// [stage.Overloaded] and [stage.Crashed] find the same facts in it there as
// here.
type stageError struct {
	Overloaded *stage.Overload `json:",omitempty"`
	Crash      *crash          `json:",omitempty"`

	err error // nil at the other node: its text and the errors that it is are sent beside it
}

// crash is a [stage.CrashError], whose value may be of any type.
type crash struct {
	Stage    string
	Value    string
	Stack    []byte
	Attempts int
	Version  string
}

// outbound returns an error as it is sent to another node.
func outbound(err error) error {
	e := &stageError{err: err}
	if o, ok := stage.Overloaded(err); ok {
		e.Overloaded = &o
	}
	if c, ok := errors.AsType[*stage.CrashError](err); ok {
		e.Crash = &crash{c.Stage, plain.Text(c.Value), c.Stack, c.Attempts, c.Version}
	}
	if e.Overloaded == nil && e.Crash == nil {
		return err
	}
	return e
}

func (e *stageError) Error() string {
	if e.err == nil {
		return "an error of a stage"
	}
	return e.err.Error()
}

func (e *stageError) Unwrap() error { return e.err }

// Overload is for [stage.Overloaded].
func (e *stageError) Overload() (stage.Overload, bool) {
	if e.Overloaded == nil {
		return stage.Overload{}, false
	}
	return *e.Overloaded, true
}

// As is for errors.As.
func (e *stageError) As(target any) bool {
	c, ok := target.(**stage.CrashError)
	if !ok || e.Crash == nil {
		return false
	}
	*c = &stage.CrashError{
		Stage: e.Crash.Stage, Value: e.Crash.Value, Stack: e.Crash.Stack, Attempts: e.Crash.Attempts, Version: e.Crash.Version,
	}
	return true
}
