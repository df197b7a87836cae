package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/stage"
)

// answerTime is how long the server may take to answer for a message of a
// batch.
const answerTime = 10 * time.Second

// mostUnanswered is how many messages of batches the server may have to answer
// at once, for all inlets of a connection.
const mostUnanswered = 1 << 16

// errBehind refuses a message because the one before it was refused.
var errBehind = errors.New("the message before it was not taken")

// wrongLast is the code of the server's error that says the same.
const wrongLast jetstream.ErrorCode = 10070

// behind reports whether a message was refused only because of its place in the
// order: the message before it was refused, or a message of another sender
// arrived between the two. It is certain that the server does not have it.
func behind(err error) bool {
	if errors.Is(err, errBehind) {
		return true
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == wrongLast
}

// publishAll publishes commands in their order, without waiting for the server
// between them, and returns when it has answered for each, or ctx has ended.
// The errors are the errors of Publish, one for each command; nil means that
// the server has all of them. The IDs may be nil, and so may the contexts. Of a batch of which some
// messages are refused, the others are there; but if it is chained, each needs
// an ID, and the server takes none that comes after one that it could not take.
func (i *Inlet[C]) publishAll(ctx context.Context, ids []string, cmds []C, of []context.Context, chained bool) (errs []error) {
	sent := make([]jetstream.PubAckFuture, len(cmds))
	refuse := func(k int, err error) {
		if errs == nil {
			errs = make([]error, len(cmds))
		}
		i.refused.Add(1)
		errs[k] = fmt.Errorf("nats: inlet %q: %w", i.name, err)
	}
	after, broken, began := "", false, time.Now()
	for k, cmd := range cmds {
		if broken {
			refuse(k, errBehind)
			continue
		}
		id := ""
		if ids != nil {
			id = ids[k]
		}
		var own context.Context
		if of != nil {
			own = of[k]
		}
		var err error
		if sent[k], err = i.send(ctx, outgoing[C]{cmd: cmd, id: id, of: own}, after); err != nil {
			_, passes := stage.Overloaded(err)
			broken = chained && passes
			refuse(k, err)
		} else if chained {
			after = headerOf(id)
		}
	}
	for k, answer := range sent {
		if answer == nil {
			continue
		}
		if err := i.answered(ctx, answer, began); err != nil {
			refuse(k, err)
		}
	}
	return errs
}

// send sends a command to the server, and does not wait for the answer. Unless
// after is empty, the server takes it only if the message with that ID is the
// last one that it took.
func (i *Inlet[C]) send(ctx context.Context, o outgoing[C], after string) (jetstream.PubAckFuture, error) {
	if ctx.Err() != nil {
		return nil, i.taken(ctx, nil, ctx.Err())
	}
	m, err := i.message(o.of, o.id, o.cmd)
	if err != nil {
		return nil, err
	}
	if after != "" {
		m.Header.Set(jetstream.ExpectedLastMsgIDHeader, after)
	}
	answer, err := i.conn.async.PublishMsgAsync(m, jetstream.WithStallWait(answerTime))
	if err != nil {
		return nil, i.taken(ctx, nil, err)
	}
	return answer, nil
}

// answered waits for the server's answer to a message that was sent after a
// time, or until the server has denied its subject.
func (i *Inlet[C]) answered(ctx context.Context, answer jetstream.PubAckFuture, after time.Time) error {
	select {
	case done := <-answer.Ok():
		return i.taken(ctx, done, nil)
	default:
	}
	var done *jetstream.PubAck
	err := i.conn.denials.unlessDenied(ctx, answer.Msg().Subject, after, func(ctx context.Context) (err error) {
		select {
		case done = <-answer.Ok():
			return nil
		case err = <-answer.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return i.taken(ctx, done, err)
}
