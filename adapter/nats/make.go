package nats

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Several processes make the same streams and consumers at once when they
// start. A cluster may answer one of these requests only, or refuse the others.
// So a process first looks for the stream or the consumer. If it exists with
// the right configuration, the process sends no request. Otherwise the process
// sends one, waits for a short time, and looks again.

const (
	// how long a client of a cluster waits until the cluster can do a request,
	// if the context allows
	patience  = time.Minute
	shortWait = 500 * time.Millisecond // for an answer of a cluster
	longWait  = 8 * time.Second
	makePause = 20 * time.Millisecond
	raceTime  = 5 * time.Second // how long errors may come that mean that others make the same, and then mean something else
	sayAfter  = time.Second     // until the log says what the client waits for
)

// patiently calls f again while f fails because too few servers of a cluster
// run, the cluster has no leader, or an answer was lost. The log names what f
// makes if that takes longer than a second. With a server that belongs to no
// cluster f is called once.
func (c *Conn) patiently(ctx context.Context, log *slog.Logger, what string, f func(context.Context) error) error {
	defer sayWaits(log, what)()
	if c.nc.ConnectedClusterName() == "" {
		return f(ctx)
	}
	began := time.Now()
	for wait := shortWait; ; wait = min(2*wait, longWait) {
		try, cancel := context.WithTimeout(ctx, wait)
		err := f(try)
		cancel()
		if err == nil || !later(err, time.Since(began)) {
			return err
		}
		select {
		case <-time.After(makePause):
		case <-ctx.Done():
			return err
		}
	}
}

// later reports whether a request that failed with an error may succeed later:
// when more servers of the cluster run, or when another process has made the
// same stream or consumer.
func later(err error, since time.Duration) bool {
	if errors.Is(err, ErrAway) {
		return since < patience
	}
	said, ok := errors.AsType[jetstream.JetStreamError](err)
	switch {
	case !ok || said.APIError() == nil:
		return false
	case said.APIError().ErrorCode == noPeers:
		return since < patience
	default:
		return slices.Contains(raceCodes, said.APIError().ErrorCode) && since < raceTime
	}
}

// Codes of the server's errors: the cluster has fewer servers than the stream
// has replicas; another stream has the same subjects.
const (
	noPeers        = 10005
	subjectOverlap = 10065
)

// raceCodes are the codes of the errors that a cluster returns to one of
// several clients that make the same stream or consumer: the name or a subject
// is in use, or the stream or consumer does not exist yet.
var raceCodes = []jetstream.ErrorCode{
	jetstream.JSErrCodeStreamNameInUse, jetstream.JSErrCodeStreamNotFound, jetstream.JSErrCodeConsumerNotFound,
	jetstream.JSErrCodeConsumerNameExists, jetstream.JSErrCodeConsumerAlreadyExists, jetstream.JSErrCodeConsumerExists, subjectOverlap,
}

// sayWaits logs after a second that the server has not answered a request yet,
// and again whenever the time has doubled, until stop is called.
func sayWaits(log *slog.Logger, what string) (stop func()) {
	if log == nil {
		return func() {}
	}
	began := time.Now()
	ctx, stop := context.WithCancel(context.Background())
	var say func(after time.Duration)
	say = func(after time.Duration) {
		t := time.AfterFunc(after, func() {
			if ctx.Err() == nil {
				log.Warn("the server has not answered yet", "for", time.Since(began).Round(time.Millisecond), "asked", what)
				say(time.Since(began))
			}
		})
		context.AfterFunc(ctx, func() { t.Stop() })
	}
	say(sayAfter)
	return stop
}

// ensureStream makes a stream, or changes it to match its configuration.
func (c *Conn) ensureStream(ctx context.Context, log *slog.Logger, config jetstream.StreamConfig) (stream jetstream.Stream, err error) {
	err = c.patiently(ctx, log, "the stream "+config.Name, func(ctx context.Context) (err error) {
		stream, err = c.js.Stream(ctx, config.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			stream, err = c.js.CreateStream(ctx, config)
		case err == nil && !sameStream(stream.CachedInfo().Config, config):
			stream, err = c.js.UpdateStream(ctx, config)
		}
		return c.explain(err)
	})
	return stream, err
}

// sameStream reports whether a stream has the configuration that this package
// wants. Fields that this package never sets are not compared.
func sameStream(there, want jetstream.StreamConfig) bool {
	setDefault(&want.MaxMsgsPerSubject, -1)
	setDefault(&want.Replicas, 1)
	setDefault(&want.Duplicates, defaultDedup)
	return slices.Equal(there.Subjects, want.Subjects) && there.Description == want.Description && there.Retention == want.Retention &&
		there.Discard == want.Discard && there.DiscardNewPerSubject == want.DiscardNewPerSubject && there.Storage == want.Storage &&
		unlimited(there.MaxBytes) == unlimited(want.MaxBytes) && unlimited(there.MaxMsgs) == unlimited(want.MaxMsgs) &&
		there.MaxMsgsPerSubject == want.MaxMsgsPerSubject && there.MaxAge == want.MaxAge && there.Duplicates == want.Duplicates &&
		there.Replicas == want.Replicas && (there.AllowMsgSchedules || !want.AllowMsgSchedules)
}

// unlimited returns a limit as the server does, which returns -1 for no limit.
func unlimited(limit int64) int64 {
	setDefault(&limit, -1)
	return limit
}

// defaultDedup is the time for which the server recognises IDs if the options
// do not say it.
const defaultDedup = 2 * time.Minute

// ensureConsumer makes a consumer, or changes it to match its configuration.
func (c *Conn) ensureConsumer(ctx context.Context, log *slog.Logger, stream string, config jetstream.ConsumerConfig) error {
	return c.patiently(ctx, log, "the consumer "+config.Durable+" of "+stream, func(ctx context.Context) error {
		consumer, err := c.js.Consumer(ctx, stream, config.Durable)
		if errors.Is(err, jetstream.ErrConsumerNotFound) || err == nil && !sameConsumer(consumer.CachedInfo().Config, config) {
			_, err = c.js.CreateOrUpdateConsumer(ctx, stream, config)
		}
		return c.explain(err)
	})
}

// sameConsumer is sameStream for a consumer.
func sameConsumer(there, want jetstream.ConsumerConfig) bool {
	return there.Durable == want.Durable && there.AckPolicy == want.AckPolicy && there.AckWait == want.AckWait &&
		there.MaxDeliver == want.MaxDeliver && there.MaxAckPending == want.MaxAckPending && there.FilterSubject == want.FilterSubject
}
