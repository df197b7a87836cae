package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/golda-dev/golda/coordination/coroutine"
)

// Error is an error that came from another node. Its text is the text of the
// error there. [errors.Is] and [errors.As] find in it the errors that it was or
// wrapped there, as far as both nodes have registered them: see [RegisterError]
// and [RegisterErrorType].
type Error struct {
	// Text is the result of the error's Error method.
	Text string

	known []error
}

// Error returns the text of the error at its node.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the registered errors that the error is, or wraps.
func (e *Error) Unwrap() []error { return e.known }

// registered has the registrations of the program's packages. Which errors
// exist is a fact of the program, like its types.
var registered struct {
	mu        sync.RWMutex // guards all below
	sentinels map[string]error
	names     []string // of the sentinels, sorted
	types     map[string]errorType
	typeNames []string // sorted
}

// errorType encodes and decodes errors of one type.
type errorType struct {
	encode func(err error) ([]byte, bool)
	decode func(data []byte) (error, error)
}

// RegisterError gives a sentinel error a name, by which it crosses from node to
// node: if [errors.Is] finds it in an error here, it does so there. Each node
// registers the same names, usually in the declaration of a variable or an init
// function. The name begins with the name of the package. RegisterError panics
// if the name is taken, or a value is missing.
func RegisterError(name string, sentinel error) {
	if name == "" || sentinel == nil {
		panic("transport: RegisterError needs a name and an error")
	}
	registered.mu.Lock()
	defer registered.mu.Unlock()
	if _, taken := registered.sentinels[name]; taken {
		panic("transport: RegisterError: the name " + name + " is taken")
	}
	if registered.sentinels == nil {
		registered.sentinels = map[string]error{}
	}
	registered.sentinels[name] = sentinel
	registered.names = append(registered.names, name)
	slices.Sort(registered.names)
}

// RegisterErrorType gives a type of errors a name, as [RegisterError] does for
// one error: an error of type E crosses with its exported fields, encoded by
// encoding/json, and [errors.As] finds it.
func RegisterErrorType[E error](name string) {
	if name == "" {
		panic("transport: RegisterErrorType needs a name")
	}
	register(name, errorType{
		encode: func(err error) ([]byte, bool) {
			e, ok := errors.AsType[E](err)
			if !ok {
				return nil, false
			}
			data, err := json.Marshal(e)
			return data, err == nil && string(data) != "null" // a nil pointer
		},
		decode: func(data []byte) (error, error) {
			var e E
			err := json.Unmarshal(data, &e)
			return e, err
		},
	})
}

func register(name string, t errorType) {
	registered.mu.Lock()
	defer registered.mu.Unlock()
	if _, taken := registered.types[name]; taken {
		panic("transport: RegisterErrorType: the name " + name + " is taken")
	}
	if registered.types == nil {
		registered.types = map[string]errorType{}
	}
	registered.types[name] = t
	registered.typeNames = append(registered.typeNames, name)
	slices.Sort(registered.typeNames)
}

// fault is the encoded form of an error.
type fault struct {
	Text string                     `json:"text"`
	Is   []string                   `json:"is,omitempty"`
	As   map[string]json.RawMessage `json:"as,omitempty"`
}

// encodeError encodes an error. Methods of the error that panic cost its
// details, not more.
func encodeError(err error) []byte {
	f := fault{Text: textOf(err)}
	func() {
		defer func() { _ = recover() }()
		f.Is, f.As = detailsOf(err)
	}()
	data, failed := json.Marshal(f)
	if failed != nil {
		data, _ = json.Marshal(fault{Text: f.Text}) //nolint:errchkjson // a text can always be encoded
	}
	return data
}

func textOf(err error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("%T, whose text cannot be had: panic: %v", err, v)
		}
	}()
	return strings.ToValidUTF8(err.Error(), "�")
}

func detailsOf(err error) (is []string, as map[string]json.RawMessage) {
	registered.mu.RLock()
	defer registered.mu.RUnlock()
	for _, name := range registered.names {
		if errors.Is(err, registered.sentinels[name]) {
			is = append(is, name)
		}
	}
	for _, name := range registered.typeNames {
		if data, ok := registered.types[name].encode(err); ok {
			if as == nil {
				as = map[string]json.RawMessage{}
			}
			as[name] = data
		}
	}
	return is, as
}

// decodeError decodes an error. Errors that this node has not registered are
// left out.
func decodeError(data []byte) error {
	var f fault
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("transport: an error came that cannot be decoded: %w", err)
	}
	e := &Error{Text: f.Text}
	registered.mu.RLock()
	defer registered.mu.RUnlock()
	for _, name := range f.Is {
		if known, ok := registered.sentinels[name]; ok {
			e.known = append(e.known, known)
		}
	}
	for _, name := range registered.typeNames {
		data, ok := f.As[name]
		if !ok || string(data) == "null" {
			continue
		}
		if known, err := registered.types[name].decode(data); err == nil {
			e.known = append(e.known, known)
		}
	}
	return e
}

// panicked is how a *coroutine.PanicError crosses, whose value may be anything.
type panicked struct {
	Value string `json:"value"`
	Stack []byte `json:"stack"`
}

func init() {
	RegisterError("context.Canceled", context.Canceled)
	RegisterError("context.DeadlineExceeded", context.DeadlineExceeded)
	RegisterError("coroutine.ErrGoexit", coroutine.ErrGoexit)
	RegisterError("transport.ErrUnreachable", ErrUnreachable)
	RegisterError("transport.ErrTooLarge", ErrTooLarge)
	RegisterError("transport.ErrEncoding", ErrEncoding)
	register("coroutine.PanicError", errorType{
		encode: func(err error) ([]byte, bool) {
			e, ok := errors.AsType[*coroutine.PanicError](err)
			if !ok {
				return nil, false
			}
			data, err := json.Marshal(panicked{fmt.Sprint(e.Value), e.Stack})
			return data, err == nil
		},
		decode: func(data []byte) (error, error) {
			var p panicked
			err := json.Unmarshal(data, &p)
			return &coroutine.PanicError{Value: p.Value, Stack: p.Stack}, err
		},
	})
}
