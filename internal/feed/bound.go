package feed

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"sync"
)

// Bound is how many commands of a source are in a pipeline at once: the source
// submits no more until some have ended.
type Bound struct {
	Most   int
	Source string // a description of the source, such as `inlet "orders"`
	Option string // which option says so
}

// bounded has the names of the functions that call [SetBound] before all else.
var bounded sync.Map

// Bounds says that the function of a name, as package runtime has it, is a
// source that calls [SetBound] before all else, so that a pipeline that is made
// with the source can ask. Method values of generic types have a code of their
// own in each package, but the same name.
func Bounds(name string) { bounded.Store(name, true) }

type question struct{}

// errAsked ends a source that was only asked.
var errAsked = errors.New("feed: the source was asked for its bound")

// SetBound says how many commands of a source are in the pipeline at once. The
// source returns the error at once, if there is one: no window behind it would
// ever close, or the source was only asked.
func SetBound(ctx context.Context, b Bound) error {
	if answer, ok := ctx.Value(question{}).(*Bound); ok {
		*answer = b
		return errAsked
	}
	if c := Of(ctx); c != nil && c.Bounded != nil {
		return c.Bounded(b)
	}
	return nil
}

// BoundOf asks a source for its bound, by a function that runs it. It is zero
// if none is known.
func BoundOf(source any, run func(ctx context.Context)) (b Bound) {
	code := runtime.FuncForPC(reflect.ValueOf(source).Pointer())
	if code == nil {
		return b
	}
	if _, ok := bounded.Load(code.Name()); ok {
		run(context.WithValue(context.Background(), question{}, &b))
	}
	return b
}
