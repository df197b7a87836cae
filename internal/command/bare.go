package command

import (
	"context"
	"reflect"
	"time"

	"github.com/golda-dev/golda/internal/coro"
)

// bare strips the layers from a context that add no values: a task's layer, the
// deadlines of a batch, and the layers of WithCancel, WithTimeout and WithDeadline, which can be stripped
// by reflection only. A layer of an unknown type is taken to have values, which
// costs some time for each command and has no other effect.
func bare(ctx context.Context) context.Context {
	if inner := inside(ctx); inner != nil {
		return bare(inner)
	}
	return ctx
}

// inside returns the parent of a context whose outermost layer adds no values,
// or nil.
func inside(ctx context.Context) context.Context {
	switch c := ctx.(type) {
	case *coro.Task:
		return c.Parent()
	case *batched:
		return c.Context
	}
	l := layerOn(ctx)
	if l == nil {
		return nil
	}
	// An assertion of the compiler remembers types; reflect.TypeAssert would
	// look the type up in a table each time.
	inner, _ := reflect.ValueOf(ctx).Elem().FieldByIndex(l.parent).Interface().(context.Context)
	return inner
}

// layerOn returns the layer of package context that is the outermost of a
// context, or nil if that is of another type.
func layerOn(ctx context.Context) *layer {
	t := reflect.TypeOf(ctx)
	for i := range layers {
		if t == layers[i].of {
			return &layers[i]
		}
	}
	return nil
}

// layer is a type of contexts without values, and the field that is the parent.
type layer struct {
	of     reflect.Type
	parent []int
}

// layers lists the types of package context without values.
var layers = func() (known []layer) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	timed, cancel := context.WithTimeout(context.Background(), time.Hour)
	cancel()
	for _, ctx := range []context.Context{canceled, timed} {
		if l, ok := layerOf(ctx); ok {
			known = append(known, l)
		}
	}
	return known
}()

// layerOf returns the layer of a context whose parent must be the background.
func layerOf(ctx context.Context) (l layer, ok bool) {
	t := reflect.TypeOf(ctx)
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return layer{}, false
	}
	f, ok := t.Elem().FieldByName("Context")
	if !ok {
		return layer{}, false
	}
	v := reflect.ValueOf(ctx).Elem().FieldByIndex(f.Index)
	if !v.CanInterface() || v.Interface() != any(context.Background()) {
		return layer{}, false
	}
	return layer{t, f.Index}, true
}
