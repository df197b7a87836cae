package letters

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/worker"
)

// A command may be of any size and shape. The JSON of a letter has bounds.
const (
	maxCommand = 64 << 10 // bytes of a command
	maxStack   = 64 << 10
	maxDepth   = 32 // values within values; more may be a cycle
)

// line is a letter as JSON.
type line struct {
	ID          uint64          `json:"id"`
	Pipeline    string          `json:"pipeline"`
	Stage       string          `json:"stage"`
	Reason      reason.Reason   `json:"reason"`
	Error       string          `json:"error,omitempty"`
	Attempts    int             `json:"attempts"`
	At          time.Time       `json:"at"`
	EmittedBy   string          `json:"emitted_by,omitempty"`
	Version     string          `json:"version,omitempty"`
	Fingerprint string          `json:"fingerprint,omitempty"`
	Seen        uint64          `json:"seen"`
	First       time.Time       `json:"first"`
	Last        time.Time       `json:"last"`
	Type        string          `json:"command_type"`
	Command     json.RawMessage `json:"command,omitempty"`
	Text        string          `json:"command_text,omitempty"`
	Cut         bool            `json:"command_cut,omitempty"`
	Stack       string          `json:"stack,omitempty"`
}

// MarshalJSON writes a letter whatever its command is. A command that package json can write, and that is not too large, is
// the field command. Any other is the field command_text, as %+v writes it; command_cut says that the text is cut.
func (l Letter) MarshalJSON() ([]byte, error) {
	out := line{
		ID: l.ID, Pipeline: l.Pipeline, Stage: l.Stage, Reason: l.Reason, Attempts: l.Attempts,
		At: l.At, EmittedBy: l.EmittedBy, Version: l.Version, Fingerprint: l.Fingerprint, Seen: l.Seen, First: l.First, Last: l.Last,
		Type: fmt.Sprintf("%T", l.Command), Stack: string(l.Stack[:min(len(l.Stack), maxStack)]),
	}
	// The methods of errors and of commands are user code, and may panic.
	if crash := worker.Guard(l.Stage, func() error {
		if l.Err != nil {
			out.Error = plain.Text(l.Err)
		}
		return nil
	}); crash != nil {
		out.Error = fmt.Sprintf("%T", l.Err)
	}
	if err := worker.Guard(l.Stage, func() (err error) {
		out.Command, err = encode(l.Command)
		return err
	}); err != nil || len(out.Command) > maxCommand {
		out.Command = nil
		out.Text, out.Cut = plain.Shape(l.Command, maxCommand)
	}
	return json.Marshal(out)
}

// encode returns a command as JSON, or an error if it is too large or contains itself.
func encode(cmd any) ([]byte, error) {
	left := maxCommand
	if !fits(reflect.ValueOf(cmd), 0, &left) {
		return nil, fmt.Errorf("more than %d bytes, or a cycle", maxCommand)
	}
	return json.Marshal(cmd)
}

// fits reports whether the JSON of a value takes not much more than the bytes that are left, and subtracts them. A value
// that writes itself counts as small.
func fits(v reflect.Value, depth int, left *int) bool {
	if *left--; *left < 0 || depth > maxDepth {
		return false
	}
	if !v.IsValid() || writesItself(v.Type()) {
		return true
	}
	switch v.Kind() {
	case reflect.String:
		*left -= v.Len()
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || fits(v.Elem(), depth+1, left)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			*left -= v.Len()
			break
		}
		for i := range v.Len() {
			if !fits(v.Index(i), depth+1, left) {
				return false
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if !fits(it.Key(), depth+1, left) || !fits(it.Value(), depth+1, left) {
				return false
			}
		}
	case reflect.Struct:
		return fieldsFit(v, depth, left)
	default:
	}
	return *left >= 0
}

func fieldsFit(v reflect.Value, depth int, left *int) bool {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" && !fits(v.Field(i), depth+1, left) {
			return false
		}
	}
	return true
}

var (
	jsonWriter = reflect.TypeFor[json.Marshaler]()
	textWriter = reflect.TypeFor[encoding.TextMarshaler]()
)

func writesItself(t reflect.Type) bool { return t.Implements(jsonWriter) || t.Implements(textWriter) }
