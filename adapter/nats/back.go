package nats

import (
	"context"
	"errors"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The server counts each delivery of a message, also a delivery that a process
// gave back because it stopped, or because a service that the handler needs
// refused the command. Such deliveries are noted in a stream that all processes
// share, so that a message does not become a dead letter because processes stop
// often, or because a service is down for long.

// noteTime is how long the server may take to note that a message is given
// back. Then it is given back all the same.
const noteTime = 2 * time.Second

// noteBack notes that a message is given back, before it is: the next process
// that gets the message finds the note.
func (t *tracker) noteBack(d *delivery) {
	if !t.conn.IsConnected() || d.isLost() {
		return
	}
	ctx, cancel := context.WithTimeout(t.stopped, noteTime)
	defer cancel()
	if _, err := t.js.PublishMsg(ctx, natsgo.NewMsg(t.backOf(d))); err != nil {
		t.log.Warn("a message is given back, and the server has not noted it; the delivery counts", "sequence", d.seq, "reason", err)
	}
}

// attempts returns how often a message was delivered and not given back. Below
// the bound of the policy it does not ask the server, and counts all
// deliveries. It waits for a server that is away; if ctx ends then it returns
// 1.
func (t *tracker) attempts(ctx context.Context, d *delivery) int {
	n := d.deliveries()
	if n < t.retry.Attempts {
		return n
	}
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		back, err := t.backs(ctx, d)
		if err == nil {
			return max(n-back, 1)
		}
		if ctx.Err() == nil && !errors.Is(err, ErrAway) {
			t.log.Warn("the server does not say how often a message was given back; all its deliveries count",
				"sequence", d.seq, "reason", err)
			return n
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 1
		}
	}
}

// backs asks the server how often a message was given back.
func (t *tracker) backs(ctx context.Context, d *delivery) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, longestRetry)
	defer cancel()
	stream, err := t.js.Stream(ctx, t.names.back)
	if err != nil {
		return 0, explain(err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(t.backOf(d)))
	if err != nil {
		return 0, explain(err)
	}
	return int(info.State.Subjects[t.backOf(d)]), nil
}

func (t *tracker) backOf(d *delivery) string {
	return t.names.backSubject + "." + d.key()
}
