package nats

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// answerTime is how long the server may take to answer for a message of a batch.
const answerTime = 10 * time.Second

// publishAll publishes commands in their order, without waiting for the server between them, and returns when it has answered for
// each, or ctx has ended. The errors are those of Publish, one for each command; nil means that the server has all of them. The IDs may be
// nil. Of a batch of which some messages are refused, the others are there.
func (i *Inlet[C]) publishAll(ctx context.Context, ids []string, cmds []C) (errs []error) {
	sent := make([]jetstream.PubAckFuture, len(cmds))
	refuse := func(k int, err error) {
		if errs == nil {
			errs = make([]error, len(cmds))
		}
		i.refused.Add(1)
		errs[k] = fmt.Errorf("nats: inlet %q: %w", i.name, err)
	}
	for k, cmd := range cmds {
		id := ""
		if ids != nil {
			id = ids[k]
		}
		var err error
		if sent[k], err = i.send(ctx, id, cmd); err != nil {
			refuse(k, err)
		}
	}
	for k, answer := range sent {
		if answer == nil {
			continue
		}
		if err := i.answered(ctx, answer); err != nil {
			refuse(k, err)
		}
	}
	return errs
}

// send sends a command to the server, and does not wait for the answer.
func (i *Inlet[C]) send(ctx context.Context, id string, cmd C) (jetstream.PubAckFuture, error) {
	if ctx.Err() != nil {
		return nil, i.taken(ctx, nil, ctx.Err())
	}
	m, err := i.message(id, cmd)
	if err != nil {
		return nil, err
	}
	answer, err := i.async.PublishMsgAsync(m, jetstream.WithStallWait(answerTime))
	if err != nil {
		return nil, i.taken(ctx, nil, err)
	}
	return answer, nil
}

// answered waits for the server's answer.
func (i *Inlet[C]) answered(ctx context.Context, answer jetstream.PubAckFuture) error {
	select {
	case done := <-answer.Ok():
		return i.taken(ctx, done, nil)
	case err := <-answer.Err():
		return i.taken(ctx, nil, err)
	case <-ctx.Done():
		return i.taken(ctx, nil, ctx.Err())
	}
}
