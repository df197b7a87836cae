package rpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/golda-dev/golda/internal/kept"
	"github.com/golda-dev/golda/internal/transaction"
)

// envelope is a message between a process and a synchronizer on its way.
type envelope struct {
	transaction.Message

	Incarnation uint64 // of the sender
	Problem     string // why the arguments of the request did not come
}

// wire is an envelope as JSON. The arguments are beside the request, with the
// name of their type if that is a basic one: a synchronizer does not know the
// types of the functions that it coordinates.
type wire struct {
	transaction.Message

	Incarnation uint64
	Problem     string          `json:",omitempty"`
	Args        json.RawMessage `json:",omitempty"`
	Type        string          `json:",omitempty"`
}

// MarshalJSON encodes the envelope.
func (e envelope) MarshalJSON() ([]byte, error) {
	w := wire{Message: e.Message, Incarnation: e.Incarnation, Problem: e.Problem}
	w.Request.Args = nil
	if args := e.Request.Args; args != nil {
		data, err := kept.Marshal(args)
		if err != nil {
			return nil, err
		}
		w.Args = data
		if t := reflect.TypeOf(args); basic[t.Name()] == t {
			w.Type = t.Name()
		}
	}
	return json.Marshal(w)
}

// UnmarshalJSON decodes the envelope. Arguments that are of no basic type stay
// encoded until a rule looks at them.
func (e *envelope) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*e = envelope{Message: w.Message, Incarnation: w.Incarnation, Problem: w.Problem}
	t := basic[w.Type]
	switch {
	case w.Problem != "":
		e.Request.Args = &arguments{problem: w.Problem}
	case t != nil:
		v := reflect.New(t)
		if err := json.Unmarshal(w.Args, v.Interface()); err != nil {
			return err
		}
		e.Request.Args = v.Elem().Interface()
	case w.Args != nil:
		e.Request.Args = &arguments{data: w.Args}
	}
	return nil
}

// basic has the types whose values come as they were sent, by name.
var basic = func() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, v := range []any{
		false, "", 0, int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0), uint32(0), uint64(0), float32(0), float64(0),
	} {
		t := reflect.TypeOf(v)
		types[t.Name()] = t
	}
	return types
}()

// arguments are the arguments of a request of another node. See
// synchronizer.Args.
type arguments struct {
	data    []byte
	problem string
	node    *Node // through which the addresses in them lead
}

// Decode decodes the arguments.
func (a *arguments) Decode(into any) error {
	if a.problem != "" {
		return errors.New("they did not come from the other node: " + a.problem)
	}
	if err := json.Unmarshal(a.data, into); err != nil {
		return fmt.Errorf("%w: %T: %w", ErrType, into, err)
	}
	a.node.bind(into)
	return nil
}
