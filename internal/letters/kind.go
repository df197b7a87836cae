package letters

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

const (
	maxKind   = 200 // bytes of the text of a kind
	maxCauses = 8   // errors within errors
)

// kindOf returns the kind of an error, so that failures of one kind form a
// group: the types of the errors that it wraps, outermost first, and their
// texts without the parts that vary. It reads the fields of the errors and
// calls none of their methods, which are user code: workers call it for every
// command that fails.
//
// An error has a text if it is a string, or a struct with a text field, as the
// errors of packages errors and fmt are. It has a cause if it has a field of
// type error or []error. The types of packages errors and fmt are left out, and
// so are the errors that they wrap, because their text contains them:
//
//	errors.New("no such page")              no such page
//	fmt.Errorf("page %d: %w", 7, err)       page #: no such page
//	&url.Error{Op: "Get", Err: &net.OpE...  *url.Error: *net.OpError: *os.SyscallError: syscall.Errno(111)
//	&StatusError{Code: 404}                 *main.StatusError
func kindOf(err error) string {
	var b [2 * maxKind]byte
	text := b[:0]
	v := reflect.ValueOf(err)
	for range maxCauses {
		if len(text) >= maxKind {
			break
		}
		var s *errorShape
		if v, s = deref(v); s == nil {
			break
		}
		if !s.bare {
			text = add(text, s.name)
		}
		text = s.describe(text, v)
		if s.cause < 0 || s.bare && s.text >= 0 {
			break
		}
		if v = v.Field(s.cause); v.Kind() == reflect.Slice {
			if v.Len() == 0 {
				break
			}
			v = v.Index(0)
		}
	}
	return strings.ToValidUTF8(string(text[:min(len(text), maxKind)]), "")
}

// add appends a part to a kind.
func add(text []byte, part string) []byte {
	if len(text) > 0 {
		text = append(text, ": "...)
	}
	return append(text, part...)
}

// errorShape describes a type of errors.
type errorShape struct {
	name        string
	bare        bool // of package errors or fmt
	text, cause int  // fields; -1 if there is none
}

var shapes sync.Map // of *errorShape by reflect.Type

// deref follows interfaces and a pointer to the value of an error. The shape is
// nil if there is no value.
func deref(v reflect.Value) (reflect.Value, *errorShape) {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		return v, nil
	}
	s := shapeOf(v.Type())
	if v.Kind() == reflect.Pointer {
		if v = v.Elem(); !v.IsValid() { // a nil pointer has no fields
			return v, &errorShape{name: s.name, text: -1, cause: -1}
		}
	}
	return v, s
}

func shapeOf(t reflect.Type) *errorShape {
	if s, ok := shapes.Load(t); ok {
		return s.(*errorShape)
	}
	s := &errorShape{name: t.String(), text: -1, cause: -1}
	of := t
	if t.Kind() == reflect.Pointer {
		of = t.Elem()
	}
	s.bare = of.PkgPath() == "errors" || of.PkgPath() == "fmt"
	if of.Kind() == reflect.Struct {
		s.text, s.cause = fieldsOf(of)
	}
	shapes.Store(t, s)
	return s
}

var errorType = reflect.TypeFor[error]()

// fieldsOf returns the fields with the text and the cause of a struct type.
func fieldsOf(t reflect.Type) (text, cause int) {
	text, cause = -1, -1
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case text < 0 && f.Type.Kind() == reflect.String && isText(f.Name):
			text = i
		case cause < 0 && (f.Type == errorType || f.Type.Kind() == reflect.Slice && f.Type.Elem() == errorType):
			cause = i
		}
	}
	return text, cause
}

// isText reports whether a field of this name has an error's text.
func isText(name string) bool {
	switch strings.ToLower(name) {
	case "s", "msg", "message", "text", "reason":
		return true
	default:
		return false
	}
}

// describe appends the facts of an error besides its type.
func (s *errorShape) describe(text []byte, v reflect.Value) []byte {
	switch {
	case s.text >= 0:
		return normal(text, v.Field(s.text).String())
	case v.Kind() == reflect.String:
		return normal(text, v.String())
	case v.CanInt():
		return append(append(text, '('), strconv.FormatInt(v.Int(), 10)+")"...)
	case v.CanUint():
		return append(append(text, '('), strconv.FormatUint(v.Uint(), 10)+")"...)
	}
	return text
}

// normal appends a text with a # in place of each part that varies: parts in
// double quotes or back quotes, words that have a digit, and words that have a
// slash.
func normal(text []byte, s string) []byte {
	if len(text) > 0 {
		text = append(text, ": "...)
	}
	for len(s) > 0 && len(text) < maxKind {
		n, varies := word(s)
		if varies {
			text = append(text, '#')
		} else {
			text = append(text, s[:min(n, maxKind-len(text))]...)
		}
		s = s[n:]
	}
	return text
}

// word returns the length of the first word of a text, or of the character
// before it, and whether it varies. A character that closes a word, such as a
// colon, is not part of it.
func word(s string) (n int, varies bool) {
	switch classes[s[0]] {
	case quotes:
		if end := strings.IndexByte(s[1:], s[0]); end >= 0 {
			return end + 2, true
		}
		return 1, false
	case parts, equals:
		return 1, false
	default:
	}
	path := false
	for n < len(s) {
		c := classes[s[n]]
		if c >= quotes && (c != equals || !path) {
			break
		}
		path = path || c == slash
		varies = varies || path || c == digit
		n++
	}
	for n > 1 && classes[s[n-1]] == closes {
		n--
	}
	return n, varies
}

// class is the role of a character in a word: inside it or, from quotes on,
// between two words.
type class uint8

const (
	inside class = iota // the characters that have no other class
	digit
	slash
	closes
	quotes
	equals
	parts
)

var classes = func() (of [256]class) {
	for c := range of {
		if c <= ' ' {
			of[c] = parts
		}
	}
	for c, chars := range map[class]string{
		digit: "0123456789", slash: "/", closes: ":.,;-", quotes: "\"`", equals: "=", parts: "'()[]{}<>",
	} {
		for i := range len(chars) {
			of[chars[i]] = c
		}
	}
	return of
}()
