package feed

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
)

// source is a source.Source, which this package cannot import.
type source[C any] = func(ctx context.Context, submit func(C) error) error

// refusals has the code of the sources that [Refused] has returned.
var refusals sync.Map

// Refused returns a source that stands for a wrong argument of a constructor.
// [Check] returns its error, and so does a run.
func Refused[C any](format string, args ...any) source[C] {
	err := fmt.Errorf("source: "+format, args...)
	src := func(context.Context, func(C) error) error { return &FatalError{err} }
	refusals.Store(reflect.ValueOf(src).Pointer(), true) // all closures of this function have the same code
	return src
}

// Check returns an error if a source is nil, or if its constructor has refused
// an argument.
func Check[C any](src source[C]) error {
	if src == nil {
		return errors.New("the source is nil")
	}
	if _, is := refusals.Load(reflect.ValueOf(src).Pointer()); !is {
		return nil
	}
	err := src(context.Background(), nil)
	if fatal, ok := errors.AsType[*FatalError](err); ok {
		return fatal.Err
	}
	return err
}
