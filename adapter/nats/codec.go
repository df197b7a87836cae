package nats

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/golda-dev/golda/internal/kept"
	"github.com/golda-dev/golda/internal/plain"
)

// Payload is a command in a message: its type, the version of the type, and its
// bytes. Type and version travel in headers.
type Payload struct {
	Type    string
	Version int
	Data    []byte
}

// Codec turns commands into payloads and back. Any number of goroutines call it
// at once. A panic counts as an error.
//
// The error of Decode for a type or version that it does not know wraps
// [ErrUnknownType]. A message that cannot be decoded becomes a dead letter.
type Codec[C any] interface {
	Encode(cmd C) (Payload, error)
	Decode(p Payload) (C, error)
}

// JSON is the codec of package encoding/json. The zero JSON is useful, and the
// default of an inlet.
//
// A process that is newer than another sets a new Version, and reads messages
// of older versions with Older. A process that is older finds the version
// unknown. Fields that a command does not have are ignored. What JSON does not
// keep of C, such as unexported fields, is lost: an inlet without a Codec
// refuses such a C, and with this one it does not.
type JSON[C any] struct {
	// Type is the name of the commands in messages. Empty means the name of the
	// Go type, such as "shop.Order": set it if that may change.
	Type string
	// Version is the version of the commands; 0 means 1.
	Version int
	// Older has, for each older version that can still be read, a function that
	// does.
	Older map[int]func(data []byte) (C, error)
}

// Encode writes a command as JSON. A string that is not UTF-8 is an error,
// since JSON would change it.
func (j JSON[C]) Encode(cmd C) (Payload, error) {
	data, err := kept.Marshal(cmd)
	return Payload{Type: j.name(), Version: max(j.Version, 1), Data: data}, err
}

// Decode reads a command.
func (j JSON[C]) Decode(p Payload) (cmd C, err error) {
	if p.Type != j.name() {
		return cmd, fmt.Errorf("%w %q; known is %q", ErrUnknownType, plain.Name(p.Type), j.name())
	}
	if p.Version == max(j.Version, 1) {
		err = json.Unmarshal(p.Data, &cmd)
		return cmd, err
	}
	older := j.Older[p.Version]
	if older == nil {
		known := append(slices.Sorted(maps.Keys(j.Older)), max(j.Version, 1))
		return cmd, fmt.Errorf("%w: version %d of %q; known are %v", ErrUnknownType, p.Version, plain.Name(p.Type), known)
	}
	return older(p.Data)
}

func (j JSON[C]) name() string {
	if j.Type != "" {
		return j.Type
	}
	return reflect.TypeFor[C]().String()
}

// Proto is the codec of protocol buffers. C is the type that protoc-gen-go has
// generated, a pointer: Proto[*shop.Order]. The type is the full name of the
// message, such as "shop.v1.Order", and the version is always 1: a protobuf
// message evolves by its fields, or by another name.
type Proto[C proto.Message] struct{}

// Encode writes a command in the wire format.
func (Proto[C]) Encode(cmd C) (Payload, error) {
	data, err := proto.Marshal(cmd)
	return Payload{Type: protoName[C](), Version: 1, Data: data}, err
}

// Decode reads a command.
func (Proto[C]) Decode(p Payload) (cmd C, err error) {
	if name := protoName[C](); p.Type != name || p.Version != 1 {
		return cmd, fmt.Errorf("%w: version %d of %q; known is version 1 of %q", ErrUnknownType, p.Version, plain.Name(p.Type), name)
	}
	cmd = cmd.ProtoReflect().Type().New().Interface().(C) //nolint:forcetypeassert // it is of the type of cmd
	return cmd, proto.Unmarshal(p.Data, cmd)
}

func protoName[C proto.Message]() string {
	var none C
	return string(none.ProtoReflect().Descriptor().FullName())
}
