package feed

import (
	"reflect"
	"sync"
)

// checkpoints has the code of the sources that [Mark] was given.
var checkpoints sync.Map

// Mark notes that a source begins with a checkpoint, so that a pipeline that is
// made with the source knows. The source is a closure of a function that marks
// each of its closures: all of them have the same code.
func Mark(source any) { checkpoints.Store(reflect.ValueOf(source).Pointer(), true) }

// Marked reports whether a source begins with a checkpoint. A function around
// such a source is not marked.
func Marked(source any) bool {
	_, is := checkpoints.Load(reflect.ValueOf(source).Pointer())
	return is
}
