package watermill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/headers"
	"github.com/golda-dev/golda/stage/reason"
)

// BrokerAway is the reason of the overload that [stage.Overloaded] reports for
// an error of a Publisher.
const BrokerAway reason.Reason = "broker_away"

// Publish returns a function that publishes each command to a topic, for
// [stage.Sink]:
//
//	stage.Sink("ship", watermill.Publish[Parcel](pub, "parcels", nil),
//		stage.Retry(stage.RetryPolicy{Attempts: 100, Backoff: time.Second, If: overloaded}))
//
// It returns nil when Publish of pub has, so the message is in the broker if
// pub waits for that. Errors of pub are overload, see [stage.Overloaded],
// because Watermill does not say which of them are temporary: a broker that is
// away, a message that is too large. Errors of encode are not.
//
// Encode makes the message of a command. Several goroutines may call it at
// once. It is called again if the stage tries again, so an UUID that it takes
// from the command lets receivers recognise a message that was published twice.
// nil means JSON with a new UUID. The message gets the context of the handler,
// and the headers of package stage/headers as metadata.
// A nil pub and an empty topic panic.
//
// [stage.Overloaded]: https://pkg.go.dev/github.com/golda-dev/golda/stage#Overloaded
// [stage.Sink]: https://pkg.go.dev/github.com/golda-dev/golda/stage#Sink
func Publish[C any](
	pub message.Publisher, topic string, encode func(cmd C) (*message.Message, error),
) func(ctx context.Context, cmd C) error {
	return newOutlet("Publish", pub, topic, encode).publish
}

// PublishBatch returns a behaviour that publishes the commands of a batch with
// one call of the Publisher, for stage.New with [stage.Batch]. All else is as
// with [Publish]. When the call fails all commands of the batch fail, although
// some may have been published.
//
// [stage.Batch]: https://pkg.go.dev/github.com/golda-dev/golda/stage#Batch
func PublishBatch[C any](pub message.Publisher, topic string, encode func(cmd C) (*message.Message, error)) behaviour.Behaviour[C] {
	return newOutlet("PublishBatch", pub, topic, encode)
}

// outlet publishes commands to a topic.
type outlet[C any] struct {
	pub    message.Publisher
	topic  string
	encode func(C) (*message.Message, error)
}

func newOutlet[C any](name string, pub message.Publisher, topic string, encode func(C) (*message.Message, error)) *outlet[C] {
	if pub == nil {
		panic("watermill: " + name + ": the Publisher is nil")
	}
	if topic == "" {
		panic("watermill: " + name + ": the topic is empty")
	}
	if encode == nil {
		encode = toJSON[C]
	}
	return &outlet[C]{pub, topic, encode}
}

// HandleCommand publishes one command.
func (o *outlet[C]) HandleCommand(ctx context.Context, cmd C) behaviour.Outcome {
	return outcome(o.publish(ctx, cmd))
}

// HandleBatch publishes all commands that can be encoded.
func (o *outlet[C]) HandleBatch(ctx context.Context, cmds []C) []behaviour.Outcome {
	errs := make([]error, len(cmds))
	var messages []*message.Message
	of := headers.Batch(ctx)
	for n, cmd := range cmds {
		own := ctx // without values of a command
		if of != nil && of[n] != nil {
			own = of[n]
		}
		m, err := o.message(ctx, own, cmd)
		if errs[n] = err; err == nil {
			messages = append(messages, m)
		}
	}
	err := o.send(ctx, messages...)
	outcomes := make([]behaviour.Outcome, len(cmds))
	for n := range cmds {
		if errs[n] == nil {
			errs[n] = err
		}
		outcomes[n] = outcome(errs[n])
	}
	return outcomes
}

func outcome(err error) behaviour.Outcome {
	if err != nil {
		return behaviour.Error(err)
	}
	return behaviour.OK(nil)
}

func (o *outlet[C]) publish(ctx context.Context, cmd C) error {
	m, err := o.message(ctx, ctx, cmd)
	if err != nil {
		return err
	}
	return o.send(ctx, m)
}

var errNoMessage = errors.New("the function has returned no message")

// message returns the message of a command, with the headers for a context.
func (o *outlet[C]) message(ctx, of context.Context, cmd C) (*message.Message, error) {
	m, err := o.encode(cmd)
	if err == nil && m == nil {
		err = errNoMessage
	}
	if err != nil {
		return nil, fmt.Errorf("watermill: topic %q: encode: %w", o.topic, err)
	}
	m.SetContext(ctx)
	if m.Metadata == nil {
		m.Metadata = message.Metadata{}
	}
	headers.Inject(of, m.Metadata.Set)
	return m, nil
}

// send publishes messages.
func (o *outlet[C]) send(ctx context.Context, messages ...*message.Message) error {
	if len(messages) == 0 {
		return nil
	}
	if err := o.pub.Publish(o.topic, messages...); err != nil {
		return &publishError{o.topic, err, ctx.Err() == nil}
	}
	return nil
}

// publishError is an error of a publisher.
type publishError struct {
	topic string
	err   error
	away  bool // it is not that the context has ended
}

func (e *publishError) Error() string {
	return fmt.Sprintf("watermill: topic %q: publish: %v", e.topic, e.err)
}
func (e *publishError) Unwrap() error { return e.err }

// Overload is for stage.Overloaded. The publisher does not say whether the
// error is of the message, so it counts as a try.
func (e *publishError) Overload() (stage.Overload, bool) {
	return stage.Overload{Reason: BrokerAway, RetryAfter: time.Second, Tried: true}, e.away
}

// publish publishes a message. A panic is an error.
func publish(pub message.Publisher, topic string, m *message.Message) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the Publisher has panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return pub.Publish(topic, m)
}

// toJSON encodes a command as the payload of a message.
func toJSON[C any](cmd C) (*message.Message, error) {
	payload, err := json.Marshal(cmd)
	if err != nil {
		return nil, err
	}
	return message.NewMessage(watermill.NewUUID(), payload), nil
}
