package pipeline

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/worker"
)

// What a letter holds is a user's, and may be of any size and shape. Its json is not.
const (
	mostCommand = 64 << 10 // bytes of a command
	mostStack   = 64 << 10
	deepest     = 32 // values within values; more may be a circle
)

// line is a letter in json.
type line struct {
	ID          uint64          `json:"id"`
	Pipeline    string          `json:"pipeline"`
	Stage       string          `json:"stage"`
	Reason      stage.Reason    `json:"reason"`
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

// MarshalJSON writes a letter whatever its command is. One that json knows, and that is
// not too large, is the field command. Another is the field command_text, as %+v writes
// it; command_cut says that there is more of it.
func (l Letter) MarshalJSON() ([]byte, error) {
	out := line{
		ID: l.ID, Pipeline: l.Pipeline, Stage: l.Stage, Reason: l.Reason, Attempts: l.Attempts,
		At: l.At, EmittedBy: l.EmittedBy, Version: l.Version, Fingerprint: l.Fingerprint, Seen: l.Seen, First: l.First, Last: l.Last,
		Type: fmt.Sprintf("%T", l.Command), Stack: string(l.Stack[:min(len(l.Stack), mostStack)]),
	}
	// The methods of errors and of commands are a user's code, and may panic.
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
	}); err != nil || len(out.Command) > mostCommand {
		out.Command = nil
		out.Text, out.Cut = plain.Shape(l.Command, mostCommand)
	}
	return json.Marshal(out)
}

// encode is a command in json, if there is not too much of it.
func encode(cmd any) ([]byte, error) {
	left := mostCommand
	if !fits(reflect.ValueOf(cmd), 0, &left) {
		return nil, fmt.Errorf("more than %d bytes, or a circle", mostCommand)
	}
	return json.Marshal(cmd)
}

// fits reports whether what json would write of a value is not much more than what
// is left, and takes it away. Values with methods of their own are taken for small.
func fits(v reflect.Value, depth int, left *int) bool {
	if *left--; *left < 0 || depth > deepest {
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
