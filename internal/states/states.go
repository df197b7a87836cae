// Package states has what stages and pipelines share to save the states of
// stages outside of the process: as bytes, each with a description of its type.
package states

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Stateful is the behaviour of a stage with a state that can be saved. A
// pipeline calls its methods.
type Stateful interface {
	// Unsavable returns why the state cannot be saved, in words; "" if it can.
	Unsavable() string
	// Save returns the state. It is called while the stage has no commands but
	// those that it holds. An error that is [ErrBusy] says that it has others.
	Save() (State, error)
	// Restore gives a stage that has not started a state. It returns the loads
	// of the commands that the stage must be given when it has started, before
	// all others.
	Restore(State) (loads []any, err error)
	// Park ends the commands that the stage holds, with no result: a saved
	// state has them.
	Park()
}

// ErrBusy is why a state cannot be saved now.
var ErrBusy = errors.New("the stage is at work")

// State is the state of a stage.
type State struct {
	Type    string // the types of the values in it, see [Describe]
	Entries int    // how many values, such as open windows
	Data    []byte
}

// Encode encodes a value whose type is known to [Decode].
func Encode(value any) ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(value); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Decode decodes into what a pointer leads to.
func Decode(data []byte, into any) error { return gob.NewDecoder(bytes.NewReader(data)).Decode(into) }

// Lossy returns what encoding/gob would leave out of values of a type, in
// words; "" if nothing.
func Lossy(t reflect.Type) string { return lossy(t, map[reflect.Type]bool{}) }

func lossy(t reflect.Type, seen map[reflect.Type]bool) string {
	if seen[t] || encodes(t) {
		return ""
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return fmt.Sprintf("a %v cannot be saved", t)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return lossy(t.Elem(), seen)
	case reflect.Map:
		if why := lossy(t.Key(), seen); why != "" {
			return why
		}
		return lossy(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			switch {
			case f.Name == "_":
			case !f.IsExported():
				return fmt.Sprintf("the field %s of %v is not exported, and would not be saved: export it, or give the type the methods of "+
					"gob.GobEncoder and gob.GobDecoder", f.Name, t)
			default:
				if why := lossy(f.Type, seen); why != "" {
					return why
				}
			}
		}
	}
	return ""
}

// encodes reports whether a type encodes its values itself.
func encodes(t reflect.Type) bool {
	for _, itself := range []reflect.Type{reflect.TypeFor[gob.GobEncoder](), reflect.TypeFor[encoding.BinaryMarshaler]()} {
		if t.Implements(itself) || reflect.PointerTo(t).Implements(itself) {
			return true
		}
	}
	return false
}

// Keyless returns why two values of a type may be equal as keys before they are
// saved and not afterwards, in words; "" if that cannot be.
func Keyless(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Chan, reflect.Interface, reflect.UnsafePointer:
		return fmt.Sprintf("a key that is or has a %v is another one in the next process", t)
	case reflect.Array:
		return Keyless(t.Elem())
	case reflect.Struct:
		if encodes(t) {
			return ""
		}
		for i := range t.NumField() {
			if why := Keyless(t.Field(i).Type); why != "" {
				return why
			}
		}
	}
	return ""
}

// Describe returns a text that is the same for two types if one can take the
// values of the other without loss.
func Describe(t reflect.Type) string {
	var b strings.Builder
	describe(&b, t, map[reflect.Type]bool{})
	return b.String()
}

func describe(b *strings.Builder, t reflect.Type, seen map[reflect.Type]bool) {
	b.WriteString(t.String())
	if seen[t] || encodes(t) {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		if t.Elem().Name() != "" && t.Elem().PkgPath() != "" {
			b.WriteString(" of ")
			describe(b, t.Elem(), seen)
		}
	case reflect.Map:
		b.WriteString(" of ")
		describe(b, t.Key(), seen)
		b.WriteString(" to ")
		describe(b, t.Elem(), seen)
	case reflect.Struct:
		b.WriteString("{")
		for i := range t.NumField() {
			if i > 0 {
				b.WriteString("; ")
			}
			b.WriteString(t.Field(i).Name + " ")
			describe(b, t.Field(i).Type, seen)
		}
		b.WriteString("}")
	default:
		if t.Name() != t.Kind().String() && t.Name() != "" {
			b.WriteString(" " + t.Kind().String())
		}
	}
}
