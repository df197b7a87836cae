package command

import (
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/link"
)

// Boxes is a free list of boxes for commands of type C.
//
// A box belongs to one command: its envelope and the copies of that have it.
// [Boxes.Recycle] takes it back when the command has been completed and no copy
// of its envelope will be read any more. Where that is not certain the box is
// left to the garbage collector: that costs an allocation and does no harm. So
// code that ends a command in an unusual way need not know of boxes, if it
// reads the command with [Envelope.Command] or [link.Open].
//
// The free list is a pool of chains: the boxes of a batch are returned
// together. Putting and taking each box by itself would cost half as much
// again, mostly where one processor takes a box that another one has put. The
// garbage collector empties the pool, so a burst leaves nothing behind.
type Boxes[C any] struct {
	chains sync.Pool // of *link.Box[C]
	clears bool      // commands have pointers, so a free box is cleared: it must keep nothing alive
}

// Recycler takes back boxes of any type.
type Recycler interface {
	// Recycle takes back the boxes among the loads of envelopes, whose commands
	// must have been completed.
	Recycle(loads []any)
}

// NewBoxes returns boxes for commands of type C. It returns nil if such
// commands need none: an interface holds them without an allocation.
func NewBoxes[C any]() *Boxes[C] {
	t := reflect.TypeFor[C]()
	if t.Kind() == reflect.Interface || t.Size() == 0 || isByte(t) || isPointer(t) {
		return nil
	}
	return &Boxes[C]{clears: hasPointers(t)}
}

// hasPointers reports whether the memory of a value has pointers.
func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if hasPointers(f.Type) {
				return true
			}
		}
		return false
	case reflect.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	default:
		return t.Kind() > reflect.Complex128 // the kinds up to here are numbers and bool
	}
}

// isByte reports whether the runtime has all values of a type already.
func isByte(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return true
	default:
		return false
	}
}

// isPointer reports whether a value of a type is one pointer, which an
// interface holds as it is.
func isPointer(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return true
	case reflect.Struct:
		for f := range t.Fields() {
			if f.Type.Size() == t.Size() {
				return isPointer(f.Type) // the other fields have no size
			}
		}
		return false
	case reflect.Array:
		return t.Len() == 1 && isPointer(t.Elem())
	default:
		return false
	}
}

// Load returns the load of an envelope for a command. Any goroutine may call
// it.
func (b *Boxes[C]) Load(cmd C) any {
	if b == nil {
		return cmd
	}
	x := b.Take()
	*x.Command() = cmd
	return x
}

// Take returns an empty box. Any goroutine may call it.
func (b *Boxes[C]) Take() *link.Box[C] {
	x, _ := b.chains.Get().(*link.Box[C])
	if x == nil {
		return new(link.Box[C])
	}
	if rest := x.Take(); rest != nil {
		b.chains.Put(rest)
	}
	return x
}

// Recycle takes back boxes. Loads that are no boxes for the type are left
// alone.
func (b *Boxes[C]) Recycle(loads []any) {
	var chain *link.Box[C]
	for _, load := range loads {
		if x, ok := load.(*link.Box[C]); ok {
			if c := x.Command(); b.clears {
				*c = *new(C)
			}
			x.Free(chain)
			chain = x
		}
	}
	if chain != nil && !retired.Load() {
		b.chains.Put(chain)
	}
}

// retired says that no box is used twice.
var retired atomic.Bool

// Retire has no box used again from now on, so that a use after its recycling
// panics for certain. It is for tests, which call the returned function at
// their end.
func Retire() (restore func()) {
	was := retired.Swap(true)
	return func() { retired.Store(was) }
}
