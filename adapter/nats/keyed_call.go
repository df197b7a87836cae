package nats

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/coordination/transport"
)

// A call of a keyed stage is a message in the stream of its partition, like any other command of its key. Its header says a subject of core
// NATS that is the caller's: there the process that gets the message asks whether the caller still waits, and how long, and there it
// sends the answer before it acknowledges the message. So the caller alone knows whether a call is to be handled.

// The headers of calls and of their answers.
const (
	headerCall   = "Golda-Call"   // of a call: the subject of its caller
	headerResult = "Golda-Result" // of an answer: the name of the result's type; empty if there is no result
	headerFailed = "Golda-Failed" // of an answer that is an error
)

// How often a caller looks whether the stream still has its call, and how long the answer may come after the call has gone from the stream.
// They are variables for tests.
var (
	callLook  = 5 * time.Second
	callGrace = time.Second
)

// errAnswerLost ends a call of which the stream has nothing any more. It may have been handled.
var errAnswerLost = fmt.Errorf("%w: the stream does not have the call any more, and no answer has come", transport.ErrUnreachable)

// keyedCall is a call that this process waits for.
type keyedCall struct {
	l       *carriedLine
	ctx     context.Context // of the caller
	subject string
	answers chan *natsgo.Msg // has a place for one

	published chan struct{} // is closed when the server has taken or refused the message
	seq       uint64        // of the message; set then
	err       error         // likewise, why it was refused

	mu      sync.Mutex // guards the rest
	over    bool       // the caller does not wait any more
	handler string     // to which subject the process that has asked last wants to be notified of that; empty if none has asked
}

// callKeyed publishes a call. It waits until the server has taken the call before it of the same partition, and not for this one.
func (l *carriedLine) callKeyed(ctx context.Context, cmd any, want reflect.Type) func() (any, error) {
	k, err := l.publishCall(ctx, cmd, want)
	if err != nil {
		return func() (any, error) { return nil, away(err) }
	}
	return func() (any, error) {
		m, err := k.wait()
		if err != nil {
			return nil, away(err)
		}
		return l.answerOf(m, want)
	}
}

func (l *carriedLine) publishCall(ctx context.Context, cmd any, want reflect.Type) (*keyedCall, error) {
	if err := l.of.results.check(want); err != nil {
		return nil, err
	}
	m, err := l.inlet.message("", cmd)
	if err != nil {
		return nil, tooLarge(err)
	}
	if !l.conn.nc.IsConnected() {
		return nil, errAway
	}
	if err := l.present(ctx); err != nil {
		return nil, err
	}
	part := m.Header.Get(headerPartition)
	if err := l.calling[part].settled(ctx); err != nil {
		return nil, err
	}
	k := &keyedCall{l: l, ctx: ctx, answers: make(chan *natsgo.Msg, 1), published: make(chan struct{})}
	if k.subject, err = l.of.mail.open(k.hear); err != nil {
		return nil, fmt.Errorf("%w: %w", errAway, err)
	}
	m.Header.Set(headerCall, k.subject)
	taken, err := l.conn.async.PublishMsgAsync(m, jetstream.WithStallWait(answerTime))
	if err != nil {
		l.of.mail.close(k.subject)
		return nil, tooLarge(l.inlet.taken(ctx, nil, err))
	}
	l.calling[part] = k
	go k.publish(taken)
	return k, nil
}

// present returns an error if no process runs the stage. One that has said so within the last heartbeat does, and one that does not answer in
// time may, or stops just now: then the call is published, and waits.
func (l *carriedLine) present(ctx context.Context) error {
	heartbeat := l.of.calls.cfg.Heartbeat
	if time.Since(l.heard) < heartbeat {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	_, err := l.conn.nc.RequestWithContext(limited, callsSubject(l.name)+askedSuffix, nil)
	switch {
	case err == nil:
		l.heard = time.Now()
	case errors.Is(err, natsgo.ErrNoResponders):
		return errNone
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// tooLarge returns an error as calls have it if it is that of a message that is too large.
func tooLarge(err error) error {
	if errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("%w: %w", transport.ErrTooLarge, err)
	}
	return err
}

// publish waits until the server has taken the message.
func (k *keyedCall) publish(taken jetstream.PubAckFuture) {
	defer close(k.published)
	select {
	case done := <-taken.Ok():
		k.seq = done.Sequence
		k.err = k.l.inlet.taken(k.ctx, done, nil)
	case err := <-taken.Err():
		k.l.inlet.refused.Add(1)
		k.err = k.l.conn.explain(err)
	}
}

// settled waits until the server has taken or refused a call; nil is none.
func (k *keyedCall) settled(ctx context.Context) error {
	if k == nil {
		return nil
	}
	select {
	case <-k.published:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settleCalls waits until the server has taken or refused all calls that were published, so that none comes after what is sent now.
func (l *carriedLine) settleCalls(ctx context.Context) {
	for part, k := range l.calling {
		if k.settled(ctx) == nil {
			delete(l.calling, part)
		}
	}
}

// hear handles a message to the subject of the call: a question, or an answer.
func (k *keyedCall) hear(m *natsgo.Msg) {
	if m.Reply != "" {
		_ = m.Respond(k.say(string(m.Data)))
		return
	}
	select {
	case k.answers <- m:
	default: // another process has handled the call, too
	}
}

// say returns whether the caller still waits, and for how long in nanoseconds; without a deadline it is 0.
func (k *keyedCall) say(handler string) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.ctx.Err() != nil {
		return []byte{saysLeaves}
	}
	k.handler = handler
	within := int64(0)
	if deadline, ok := k.ctx.Deadline(); ok {
		within = max(int64(time.Until(deadline)), 1)
	}
	return strconv.AppendInt([]byte{saysThere}, within, 10)
}

// wait waits for the answer.
func (k *keyedCall) wait() (m *natsgo.Msg, err error) {
	defer func() { k.leave(m != nil) }()
	look := time.NewTimer(callLook)
	defer look.Stop()
	published, gone := k.published, false
	for {
		select {
		case m := <-k.answers:
			return m, nil
		case <-published:
			if k.err != nil {
				return nil, k.err
			}
			published = nil
		case <-k.ctx.Done():
			return nil, context.Cause(k.ctx)
		case <-look.C:
			switch was := gone; {
			case published != nil || !k.isGone():
				gone = false
				look.Reset(callLook)
			case was:
				return nil, errAnswerLost
			default:
				gone = true
				look.Reset(callGrace)
			}
		}
	}
}

// isGone reports whether the stream does not have the call any more.
func (k *keyedCall) isGone() bool {
	if !k.l.conn.nc.IsConnected() {
		return false
	}
	ctx, cancel := context.WithTimeout(k.ctx, callGrace)
	defer cancel()
	m, err := k.l.inlet.stream.GetMsg(ctx, k.seq)
	if err != nil {
		return errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
	}
	return m.Header.Get(headerCall) != k.subject
}

// leave notes that the caller does not wait any more. The process that handles the call is notified, unless it has answered.
func (k *keyedCall) leave(answered bool) {
	k.l.of.mail.close(k.subject)
	k.mu.Lock()
	handler := k.handler
	k.over = true
	k.mu.Unlock()
	if !answered && handler != "" {
		_ = k.l.conn.nc.Publish(handler, nil) // without a connection it asks again
	}
}

// answerOf returns the result or the error of an answer.
func (l *carriedLine) answerOf(m *natsgo.Msg, want reflect.Type) (any, error) {
	if m.Header.Get(headerFailed) != "" {
		failed, err := transport.Decode(m.Data)
		if err != nil {
			return nil, err
		}
		return nil, failed.Err
	}
	version, _ := strconv.Atoi(m.Header.Get(headerVersion))
	p := Payload{Type: m.Header.Get(headerType), Version: version, Data: m.Data}
	return l.of.results.decode(l.stage, reply{p, m.Header.Get(headerResult)}, want)
}
