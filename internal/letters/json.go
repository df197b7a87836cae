package letters

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/kept"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
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
	Parked      bool            `json:"parked,omitempty"`
	Waiting     int             `json:"waiting,omitempty"`
	Type        string          `json:"command_type"`
	Command     json.RawMessage `json:"command,omitempty"`
	Data        []byte          `json:"command_data,omitempty"` // as a codec of the user has encoded the command
	Text        string          `json:"command_text,omitempty"`
	Cut         bool            `json:"command_cut,omitempty"`
	Missing     string          `json:"command_missing,omitempty"` // why there is neither Command nor Data
	Stack       string          `json:"stack,omitempty"`
}

// MarshalJSON writes a letter whatever its command is. A command that package
// json can write, and that is not too large, is the field command. Any other is
// the field command_text, as %+v writes it; command_cut says that the text is
// cut.
func (l Letter) MarshalJSON() ([]byte, error) {
	out := l.line()
	if err := crash.Guard(l.Stage, func() (err error) {
		out.Command, err = encode(l.Command)
		return err
	}); err != nil || len(out.Command) > maxCommand {
		out.Command = nil
		out.Text, out.Cut = plain.Shape(l.Command, maxCommand)
	}
	return json.Marshal(out)
}

// line returns the letter as JSON without its command.
func (l Letter) line() line {
	out := line{
		ID: l.ID, Pipeline: l.Pipeline, Stage: l.Stage, Reason: l.Reason, Attempts: l.Attempts,
		At: l.At, EmittedBy: l.EmittedBy, Version: l.Version, Fingerprint: l.Fingerprint, Seen: l.Seen, First: l.First, Last: l.Last,
		Parked: l.Parked, Waiting: l.Waiting,
		Type: fmt.Sprintf("%T", l.Command), Stack: string(l.Stack[:min(len(l.Stack), maxStack)]),
	}
	if m, ok := errors.AsType[*missing](l.Missing); ok {
		out.Type, out.Missing = m.of, m.Error()
	}
	out.Error = textOf(l.Stage, l.Err)
	return out
}

// textOf returns the text of an error. The methods of errors are user code, and
// may panic.
func textOf(stageName string, err error) (text string) {
	if err == nil {
		return ""
	}
	if broken := crash.Guard(stageName, func() error { text = plain.Text(err); return nil }); broken != nil {
		return fmt.Sprintf("%T", err)
	}
	return text
}

// letter returns a letter that was read, without its command.
func (x *line) letter() stage.DeadLetter {
	d := stage.DeadLetter{
		Pipeline: x.Pipeline, Stage: x.Stage, Reason: x.Reason, Attempts: x.Attempts, At: x.At, EmittedBy: x.EmittedBy,
	}
	if x.Error != "" {
		d.Err = errors.New(x.Error)
	}
	if x.Stack != "" {
		d.Stack = []byte(x.Stack)
	}
	return d
}

// encode returns a command as JSON, or an error if it is too large, contains
// itself, or has a string that JSON would change.
func encode(cmd any) ([]byte, error) {
	left := maxCommand
	if !fits(reflect.ValueOf(cmd), 0, &left) {
		return nil, fmt.Errorf("more than %d bytes, or a cycle", maxCommand)
	}
	return kept.Marshal(cmd)
}

// fits reports whether the JSON of a value takes not much more than the bytes
// that are left, and subtracts them. A value that writes itself counts as
// small.
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
