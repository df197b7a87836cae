package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

var (
	// ErrLocked is wrapped by the error of [Embed] if another process, or
	// another Conn of this one, has the store.
	ErrLocked = errors.New("another server has it open")
	// ErrCorrupt is wrapped by the error of [Embed] if the store has data that
	// the server cannot read. Nothing was changed.
	ErrCorrupt = errors.New("it is corrupt")
	// ErrFull refuses a message: the stream, the server's store or its disk is
	// full. It is overload, see [stage.Overloaded].
	ErrFull = errors.New("full")
	// ErrTooLarge refuses a message that is larger than the server takes.
	ErrTooLarge = errors.New("message too large")
	// ErrAway is wrapped by the error of a request that the server did not
	// answer. Whether it was carried out is not known: a message with an ID may
	// be published again. It is overload, see [stage.Overloaded].
	ErrAway = errors.New("the server does not answer")
	// ErrUnknownType is wrapped by the error of a [Codec] for a message of a
	// type or version that it does not know.
	ErrUnknownType = errors.New("unknown type")
	// ErrTaken refuses a node whose name another program has.
	ErrTaken = errors.New("the name is taken")
	// ErrFed is the error of a source whose inlet feeds another stage.
	ErrFed = errors.New("the inlet feeds a stage already")
)

// The reasons of the overload that [stage.Overloaded] reports for [ErrFull] and
// [ErrAway].
const (
	InletFull  reason.Reason = "inlet_full"
	BrokerAway reason.Reason = "broker_away"
)

// refusal is an error of the server that is overload: nothing is wrong with the
// message.
type refusal struct {
	kind error // ErrFull or ErrAway
	err  error // of the server
}

func (e *refusal) Error() string   { return fmt.Sprintf("%v: %v", e.kind, e.err) }
func (e *refusal) Unwrap() []error { return []error{e.kind, e.err} }

// Overload is for [stage.Overloaded]. A stream may be full of what the
// publisher is a part of, as in a loop, so it counts as a try.
func (e *refusal) Overload() (stage.Overload, bool) {
	why := InletFull
	if errors.Is(e.kind, ErrAway) {
		why = BrokerAway
	}
	return stage.Overload{Reason: why, RetryAfter: time.Second, Tried: true}, true
}

// The codes of the server's errors that mean that there is no room.
var fullCodes = []jetstream.ErrorCode{
	10023, // insufficient resources
	10028, // insufficient memory
	10047, // insufficient storage
	10049, // no store could be made for a stream, because the disk is full or else
	10077, // a store failed, because it is full or else
}

// The codes of the server's errors that mean that a part of its cluster does
// not answer.
var awayCodes = []jetstream.ErrorCode{
	10008, // no leader
	10118, // a stream is offline
	10119, // a consumer is offline
	10158, // a message of this ID is under way
}

// explain returns an error of the server as one of this package, if it has a
// meaning for users.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		if slices.Contains(fullCodes, api.ErrorCode) || strings.Contains(api.Description, syscall.ENOSPC.Error()) {
			return &refusal{ErrFull, err}
		}
		if slices.Contains(awayCodes, api.ErrorCode) {
			return &refusal{ErrAway, err}
		}
		return err
	}
	for _, away := range []error{
		natsgo.ErrNoResponders, natsgo.ErrTimeout, natsgo.ErrDisconnected, natsgo.ErrReconnectBufExceeded, natsgo.ErrConnectionClosed,
		natsgo.ErrNoServers, natsgo.ErrConnectionReconnecting, jetstream.ErrNoStreamResponse, jetstream.ErrConnectionClosed,
		jetstream.ErrJetStreamNotEnabled, jetstream.ErrAsyncPublishTimeout, jetstream.ErrTooManyStalledMsgs, context.DeadlineExceeded,
	} {
		if errors.Is(err, away) {
			return &refusal{ErrAway, err}
		}
	}
	return err
}
