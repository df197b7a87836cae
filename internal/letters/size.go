package letters

import (
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/golda-dev/golda/internal/crash"
)

// errTooLarge is why a letter in a store has no command.
var errTooLarge = errors.New("the command is larger than the store keeps; see Bytes of letters.Options")

// measure sets the size of an entry. The entry loses its command if that is
// larger than the store. Stacks do not count: crashes with the same call path
// share one.
func (l *Store) measure(e *Entry) {
	if e.missing == nil {
		e.size = l.sizeOf(e)
		l.limit(e)
	}
}

// limit takes the command out of an entry that is larger than the store. It
// reports whether it has done so.
func (l *Store) limit(e *Entry) bool {
	if e.size <= l.bound.Bytes || e.missing != nil {
		return false
	}
	e.missing = &missing{fmt.Errorf("about %d bytes: %w", e.size, errTooLarge), fmt.Sprintf("%T", e.Command)}
	e.Command, e.size = nil, 0
	return true
}

// sizeOf returns the size of an entry's command.
func (l *Store) sizeOf(e *Entry) int64 {
	own := ownSize(e.Command)
	if l.sizes == nil || e.inUse() {
		return own
	}
	size := int64(0)
	stage, cmd := e.Stage, e.Command
	// If sizes crashes, ownSize's result counts.
	_ = crash.Guard(stage, func() error {
		if n, ok := l.sizes(stage, cmd); ok {
			size = min(int64(n), math.MaxInt64/2)
		}
		return nil
	})
	return max(own, size)
}

// ownSize returns how many bytes a command takes, as far as that can be found
// out without a look at memory that the program may be writing to: the value
// itself, which is a copy of the letter, and the lengths of the strings and the
// capacities of the slices in it. For a pointer it counts the size of the type
// that it points to; of a map, and of what the elements of a slice refer to,
// nothing.
func ownSize(cmd any) int64 {
	if cmd == nil {
		return 0
	}
	left := mostValues
	v := reflect.ValueOf(cmd)
	return int64(v.Type().Size()) + behind(v, &left)
}

// mostValues is how many values within a command [ownSize] looks at.
const mostValues = 256

// behind returns how many bytes a value refers to.
func behind(v reflect.Value, left *int) (bytes int64) {
	if *left--; *left < 0 || !v.IsValid() {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Slice:
		return int64(v.Cap()) * int64(v.Type().Elem().Size())
	case reflect.Pointer:
		if !v.IsNil() {
			return int64(v.Type().Elem().Size())
		}
	case reflect.Interface:
		if inner := v.Elem(); inner.IsValid() { // an interface has a copy, too, which is never changed
			return int64(inner.Type().Size()) + behind(inner, left)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			bytes += behind(v.Field(i), left)
		}
	case reflect.Array:
		for i := 0; i < v.Len() && *left > 0; i++ {
			bytes += behind(v.Index(i), left)
		}
	default:
	}
	return bytes
}
