// Package plain formats untrusted values safely, whatever they are: values
// given to panic, errors, commands.
//
// Package fmt cannot do this. It follows a map or a slice that contains itself
// until the stack overflows, which no recover stops and which ends the process;
// it has no limit on the output; and it lets a panic through if the Error
// method of a value panics with a value whose Error method panics. Here a value
// may contain itself, may be of any size, and its methods may panic.
//
// Some things cannot be prevented, as with fmt: if a method never returns,
// neither does the caller; if it ends its goroutine (runtime.Goexit), it ends
// the caller's; if it calls itself for ever, it overflows the stack; and a map
// that another goroutine writes to meanwhile may end the process.
package plain

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Most is how many bytes of a value [Text] writes, not counting the mark for a
// cut.
const Most = 16 << 10

const (
	deepest = 32 // depth of nested values; more may be a cycle
	more    = "... (cut)"
)

// Text writes an error as its Error method does, a [fmt.Stringer] as its String
// method does, and any other value as %+v does; the same holds for values
// inside the value. If a method panics, Text writes the value's type and shape
// instead. It may be called by any goroutine at any time, and ends after [Most]
// bytes.
func Text(v any) string { return Brief(v, Most) }

// Brief is like [Text], but ends after the given number of bytes.
func Brief(v any, most int) string {
	d := description{most: most, asks: true}
	d.top(v)
	if d.cut {
		return strings.ToValidUTF8(string(d.text), "") + more
	}
	return string(d.text)
}

// Shape writes a value as %+v does, but calls none of its methods and writes at
// most the given number of bytes; it reports whether the value was cut.
func Shape(v any, most int) (text string, cut bool) {
	d := description{most: most}
	d.top(v)
	return string(d.text), d.cut
}

type description struct {
	most int
	asks bool // call the Error and String methods of values
	text []byte
	cut  bool
}

func (d *description) write(s string) {
	if left := d.most - len(d.text); len(s) > left {
		s, d.cut = s[:left], true
	}
	d.text = append(d.text, s...)
}

// top writes a whole value. As in fmt, only a pointer at the top is followed.
func (d *description) top(v any) {
	r := reflect.ValueOf(v)
	if d.byMethod(r) {
		return
	}
	if r.Kind() == reflect.Pointer && !r.IsNil() {
		d.write("&")
		r = r.Elem()
	}
	d.value(r, 0)
}

func (d *description) value(v reflect.Value, depth int) {
	if !v.IsValid() {
		d.write("<nil>")
		return
	}
	if depth > deepest {
		d.write("...")
		d.cut = true
		return
	}
	if depth > 0 && d.byMethod(v) {
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		d.value(v.Elem(), depth+1)
	case reflect.String:
		d.write(v.String())
	case reflect.Struct:
		d.list("{", v.NumField(), "}", func(i int) {
			d.write(v.Type().Field(i).Name + ":")
			d.value(v.Field(i), depth+1)
		})
	case reflect.Slice, reflect.Array:
		d.list("[", v.Len(), "]", func(i int) { d.value(v.Index(i), depth+1) })
	case reflect.Map:
		it := v.MapRange()
		d.list("map[", v.Len(), "]", func(int) {
			if it.Next() {
				d.value(it.Key(), depth+1)
				d.write(":")
				d.value(it.Value(), depth+1)
			}
		})
	default:
		d.write(atom(v))
	}
}

// list writes values with spaces between them, until the limit is reached.
func (d *description) list(open string, n int, end string, write func(i int)) {
	d.write(open)
	for i := 0; i < n && len(d.text) < d.most; i++ {
		if i > 0 {
			d.write(" ")
		}
		write(i)
	}
	d.write(end)
}

// atom writes a value that contains no others and does not point to any.
func atom(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10)
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits())
	case v.CanComplex():
		return strconv.FormatComplex(v.Complex(), 'g', -1, v.Type().Bits())
	case v.IsNil():
		return "<nil>"
	default:
		return "(" + v.Type().String() + ")" // an address would be of no use
	}
}

// byMethod writes a value with its own Error or String method, and reports
// whether it has one that returned. If the method panics, byMethod writes the
// type, and the shape follows.
//
// It could call the method in a goroutine of its own, to survive
// runtime.Goexit; but then this package could not be on the lowest layer, whose
// errors contain untrusted values, too. Where a goroutine of the engine formats
// a value, the caller guards the call.
func (d *description) byMethod(v reflect.Value) (ok bool) {
	if !d.asks || !v.IsValid() || !v.CanInterface() || len(d.text) >= d.most {
		return false
	}
	defer func() {
		if recover() != nil {
			d.write(v.Type().String() + " ")
		}
	}()
	switch v := v.Interface().(type) {
	case error:
		d.write(v.Error())
	case fmt.Stringer:
		d.write(v.String())
	default:
		return false
	}
	return true
}
