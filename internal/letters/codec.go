package letters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/kept"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// Codec turns the commands of a stage into bytes and back. Its functions are
// user code, and are called by any number of goroutines at once.
type Codec struct {
	Type   reflect.Type // of the stage's commands
	Encode func(cmd any) ([]byte, error)
	Decode func(data []byte) (any, error)
	// Sums is the codec of the results that letters of the stage may have in
	// place of commands; nil if there are none, or they have the same type.
	Sums *Codec
}

// Codecs returns the codec of the stage of that name.
type Codecs func(stage string) (Codec, error)

// JSON returns the codec of package json for a type. The error names a part of
// its values that JSON would lose.
func JSON(of reflect.Type) (Codec, error) {
	if problem := kept.ByJSON(of); problem != "" {
		return Codec{}, fmt.Errorf("JSON does not keep all of %v: %s", of, problem)
	}
	return Codec{Type: of}, nil
}

// own reports whether the codec is one of the user.
func (c Codec) own() bool { return c.Encode != nil }

// write puts a command into a line, or why that cannot be.
func (c Codec) write(to *line, cmd any) (err error) {
	defer func() {
		if err != nil {
			to.Command, to.Data, to.Missing = nil, nil, err.Error()
		}
	}()
	if c.Sums != nil && reflect.TypeOf(cmd) == c.Sums.Type {
		c = *c.Sums
	}
	if !c.fits(reflect.TypeOf(cmd)) {
		return fmt.Errorf("the stage takes %v, and the command is a %T", c.Type, cmd)
	}
	err = crash.Guard(to.Stage, func() (err error) {
		if c.own() {
			to.Data, err = c.Encode(cmd)
		} else {
			to.Command, err = kept.Marshal(cmd)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the command was not encoded: %w", err)
	}
	return nil
}

// fits reports whether a command of a type can be one of the stage.
func (c Codec) fits(t reflect.Type) bool {
	if c.Type.Kind() == reflect.Interface {
		return t == nil || t.Implements(c.Type)
	}
	return t == c.Type
}

// read returns the command of a line.
func (c Codec) read(from *line) (cmd any, err error) {
	if c.Sums != nil && from.Type == c.Sums.Type.String() {
		c = *c.Sums
	}
	switch {
	case from.Missing != "":
		return nil, errors.New(from.Missing)
	case from.Command == nil && from.Data == nil:
		return nil, errors.New("the letter has no command that can be read")
	case c.Type.Kind() != reflect.Interface && from.Type != c.Type.String():
		return nil, fmt.Errorf("the stage takes %v, and the command is a %s", c.Type, from.Type)
	case c.own() != (from.Data != nil):
		return nil, fmt.Errorf("the command, a %s, was encoded by another codec", from.Type)
	}
	err = crash.Guard(from.Stage, func() (err error) {
		if c.own() {
			cmd, err = c.Decode(from.Data)
			return err
		}
		into := reflect.New(c.Type)
		err = json.Unmarshal(from.Command, into.Interface())
		cmd = into.Elem().Interface()
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("the command, a %s, was not decoded: %w", from.Type, err)
	case !c.fits(reflect.TypeOf(cmd)):
		return nil, fmt.Errorf("the codec returned a %T, and the stage takes %v", cmd, c.Type)
	}
	return cmd, nil
}

// Read reads a command of a stage that an operator has written. A member that
// the type does not have is an error: it would be lost in silence.
func (c Codec) Read(stageName string, text []byte) (cmd any, err error) {
	from := &line{Stage: stageName, Type: c.Type.String()}
	if c.own() {
		from.Data = text
		return c.read(from)
	}
	err = crash.Guard(stageName, func() error {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		into := reflect.New(c.Type)
		if err := d.Decode(into.Interface()); err != nil {
			return err
		}
		cmd = into.Elem().Interface()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("stage %q takes %v: the command was not decoded: %w", stageName, c.Type, err)
	}
	return cmd, nil
}

// errStuck is why a letter in a file has no command.
var errStuck = errors.New("the command was not encoded: its handler had not returned, and might change it")

// inUse reports whether the handler of a letter's command may still run, so
// that the command must not be read.
func inUse(d *stage.DeadLetter) bool {
	if d.Reason == reason.Error || !errors.Is(d.Err, stage.ErrStuck) { // the methods of a handler's error are user code
		return false
	}
	h, known := hangOf(d)
	return !known || !h.Returned()
}

// inUse reports whether the command must not be read.
func (e *Entry) inUse() bool {
	return e.use != nil && !e.use.Returned() || inUse(&e.DeadLetter)
}
