package watermill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/golda-dev/golda/internal/verdict"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// Undecodable is the reason of a dead letter for which [Options.Decode]
// returned an error.
const Undecodable reason.Reason = verdict.Undecodable

// Options says how a [Source] deals with messages. The zero Options is useful.
type Options[C any] struct {
	// Decode makes the command of a message. It must neither acknowledge,
	// change nor keep the message; a command that has its payload must not
	// change that. Several goroutines may call it at once. A panic counts as an
	// error. nil means that the payload is JSON.
	Decode func(m *message.Message) (C, error)

	// Subscriptions is how often the topic is subscribed to at once. 0 means 1,
	// and up to 1,024 are allowed. More than one are faster if the broker gives
	// each message to one of them, as RabbitMQ and the consumer groups of Redis
	// and Kafka do, and do not keep the order. GoChannel gives each message to
	// each of them.
	Subscriptions int
	// MaxInFlight is how many messages are in the source and the pipeline at
	// once, those included that wait for the pause before a nack. 0 means
	// 1,024. Each subscription may hold one more, which waits until there is a
	// place for it. With windows behind a subscriber that hands on one message
	// after the other, set the number of subscriptions; see Windows in the
	// package's doc.
	MaxInFlight int

	// Retry says when a message whose command failed is nacked, to be delivered
	// again. Attempts is how often it may fail; 0 means 10. A command that was
	// refused and not tried has not failed; see [stage.RetryPolicy]. The source
	// counts in memory, by UUID and payload: a new process counts from zero,
	// and of more than 4,096 failing messages some are forgotten. Backoff is
	// the pause before the first nack, and doubles up to Max; 0 means a second,
	// and ten seconds. The message is in flight meanwhile, so Max should be
	// shorter than the time after which the broker takes it away. If chooses
	// the errors that are worth another delivery; nil means all but crashes and
	// stage.ErrExpired. An error that is overload waits at least as long as its
	// hint, up to Max. A Budget is not allowed.
	Retry stage.RetryPolicy

	// Dead publishes dead letters. A message is acknowledged when Publish has
	// returned nil for its letter, so Publish should return only when the
	// broker has stored the letter: RabbitMQ's publisher does with
	// ConfirmDelivery. A letter that cannot be published is tried again until
	// it is. A process that is killed between publishing and acknowledging may
	// publish the letter twice.
	//
	// A letter has the UUID, the payload and the metadata of its message, and
	// the metadata that Watermill's own poison queue sets: "reason_poisoned" is
	// the error, "topic_poisoned" the topic. "golda_reason" is the reason:
	// reason.Error, reason.Crash, reason.Expired or [Undecodable].
	Dead message.Publisher
	// DeadTopic is the topic of dead letters. Empty means the topic of the
	// source with ".dead" behind it.
	DeadTopic string

	// Ping asks the broker for a sign of life, such as PingContext of a
	// database. It is called each second, and its context ends after five. As
	// long as it returns an error, or does not return, the feed is "away" in
	// the snapshot; nothing else depends on it. nil means that only a
	// subscription that fails or ends says so.
	Ping func(ctx context.Context) error

	// Logger gets the source's warnings and notes: that the broker is away and
	// is back, and each dead letter. nil means nothing is logged.
	Logger *slog.Logger
}

// The defaults of Options, and their bounds.
const (
	defaultInFlight   = 1024
	mostInFlight      = 1 << 20
	mostSubscriptions = 1024
	longestPause      = 10 * time.Second
)

// check returns all that is wrong.
func (o Options[C]) check(sub message.Subscriber, topic string) error {
	var errs []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(isNil(sub), "the Subscriber is nil")
	fault(topic == "", "the topic is empty")
	fault(o.Subscriptions < 0 || o.Subscriptions > mostSubscriptions,
		"Subscriptions is %d, and must be from 1 to %d", o.Subscriptions, mostSubscriptions)
	fault(o.MaxInFlight < 0 || o.MaxInFlight > mostInFlight, "MaxInFlight is %d, and must be from 1 to %d", o.MaxInFlight, mostInFlight)
	verdict.Check(o.Retry, fault)
	fault(o.Dead == nil && o.DeadTopic != "", "DeadTopic is %q, and Dead is nil", o.DeadTopic)
	fault(o.Dead != nil && o.DeadTopic == topic && topic != "", "DeadTopic is the topic itself, %q", topic)
	return errors.Join(errs...)
}

// filled returns the options with their defaults.
func (o Options[C]) filled(topic string) Options[C] {
	if o.Decode == nil {
		o.Decode = fromJSON[C]
	}
	o.Subscriptions = max(o.Subscriptions, 1)
	if o.MaxInFlight == 0 {
		o.MaxInFlight = defaultInFlight
	}
	o.Retry = verdict.Filled(o.Retry, longestPause)
	if o.DeadTopic == "" {
		o.DeadTopic = topic + ".dead"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// fromJSON decodes the payload of a message.
func fromJSON[C any](m *message.Message) (cmd C, err error) {
	err = json.Unmarshal(m.Payload, &cmd)
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is { // its Value may be a number of the message
		kind, _, _ := strings.Cut(wrong.Value, " ")
		cut := *wrong
		cut.Value = kind
		return cmd, &cut
	}
	return cmd, err
}

// isNil reports whether a subscriber is nil, or a nil pointer.
func isNil(sub message.Subscriber) bool {
	v := reflect.ValueOf(sub)
	return sub == nil || v.Kind() == reflect.Pointer && v.IsNil()
}
