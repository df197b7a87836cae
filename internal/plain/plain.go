// Package plain writes strangers' values down in plain words, whatever they are: what was
// given to panic, errors, commands.
//
// Package fmt cannot be asked to. It follows a map or a slice that holds itself until the
// stack overflows, which no recover stops and which ends the process; it writes as much
// as there is; and it lets a panic through if the Error method of a value panics with a
// value whose Error method panics. Here a value may hold itself, may be of any size, and
// its methods may panic.
//
// What cannot be helped: a method that never returns is waited for, one that ends its
// goroutine (runtime.Goexit) ends the caller's, one that calls itself for ever overflows the
// stack, and a map that somebody else writes to meanwhile may end the process, as with fmt.
package plain

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Most is how many bytes [Text] writes of a value, a word that there is more aside.
const Most = 16 << 10

const (
	deepest = 32 // values within values; more may be a circle
	more    = "... (cut)"
)

// Text writes an error as its Error method does, a [fmt.Stringer] as its String method
// does, and any other value as %+v does; so it goes on inside of a value. If a method
// panics, the value's type and shape are written instead. It may be called by
// anybody at any time, and ends after [Most] bytes.
func Text(v any) string { return Brief(v, Most) }

// Brief is [Text] that ends after so many bytes.
func Brief(v any, most int) string {
	d := description{most: most, asks: true}
	d.top(v)
	if d.cut {
		return strings.ToValidUTF8(string(d.text), "") + more
	}
	return string(d.text)
}

// Shape writes a value as %+v does, but calls none of its methods and writes at most so
// many bytes; it reports whether there is more.
func Shape(v any, most int) (text string, cut bool) {
	d := description{most: most}
	d.top(v)
	return string(d.text), d.cut
}

type description struct {
	most int
	asks bool // the methods of values
	text []byte
	cut  bool
}

func (d *description) write(s string) {
	if room := d.most - len(d.text); len(s) > room {
		s, d.cut = s[:room], true
	}
	d.text = append(d.text, s...)
}

// top writes a whole value. Only here a pointer is followed, as fmt does.
func (d *description) top(v any) {
	r := reflect.ValueOf(v)
	if d.said(r) {
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
	if depth > 0 && d.said(v) {
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

// list writes values with spaces between them, as long as there is room.
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

// atom writes a value that holds no others, or leads to them.
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
		return "(" + v.Type().String() + ")" // an address says nothing
	}
}

// said writes a value by its own method, and reports whether it has one that answered.
func (d *description) said(v reflect.Value) bool {
	if !d.asks || !v.IsValid() || !v.CanInterface() || len(d.text) >= d.most {
		return false
	}
	say := method(v.Interface())
	if say == nil {
		return false
	}
	text, ok := ask(say)
	if !ok {
		text = v.Type().String() + " " // and then its shape
	}
	d.write(text)
	return ok
}

// method is how a value writes itself; nil if it does not.
func method(v any) func() string {
	switch v := v.(type) {
	case error:
		return v.Error
	case fmt.Stringer:
		return v.String
	default:
		return nil
	}
}

// ask calls a method of a stranger. It could do so in a goroutine of its own, so as to
// survive runtime.Goexit; but then it would be no place for the ground floor, whose errors
// hold strangers' values, too. Where an engine's goroutine writes, the caller guards it.
func ask(say func() string) (text string, ok bool) {
	defer func() { _ = recover() }()
	return say(), true
}
