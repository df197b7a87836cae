package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/bigstack"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/pipeline/remote"
	"github.com/golda-dev/golda/stage"
)

// mostAnswered is how many calls of a stage a process has under way. Most of
// them wait for a slot of the stage.
const mostAnswered = 4096

var errNoAnswer = errors.New("nats: the call has ended without an answer")

// errLeaving refuses a call: the process does not take any more, or its stage
// does not. It has not handled the command.
var errLeaving = errors.New("nats: the process does not take calls any more")

// begun is the error of a command that was handled. That is not errLeaving,
// although the error of a call that its handler made may be.
type begun struct{ error }

func (e begun) Is(target error) bool { return target != errLeaving && errors.Is(e.error, target) } //nolint:errorlint // as errors.Is asks
func (e begun) As(target any) bool   { return errors.As(e.error, target) }

func init() { transport.RegisterError("nats.errLeaving", errLeaving) } //nolint:gochecknoinits // as gob.Register is used

// answerer answers the calls of a stage in this process.
type answerer struct {
	l      *carriedLine
	handle func(ctx context.Context, cmd any, want reflect.Type) (any, error)
	name   string // as callers are told

	moved chan struct{} // has an element when the node was closed

	mu      sync.Mutex // guards the rest
	node    string     // empty before the first caller has asked
	served  int        // calls under way
	leaving bool
	idle    chan struct{} // closed when it leaves and no call is under way
}

// Answer is for package pipeline.
func (l *carriedLine) Answer(ctx context.Context, handle func(ctx context.Context, cmd any, want reflect.Type) (any, error)) error {
	x := l.of.calls
	if !x.begin() {
		return errClosed
	}
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		err := l.answer(ctx, x, handle)
		if err == nil {
			return nil
		}
		l.inlet.o.Logger.Warn("calls cannot be answered; the carrier tries again", "inlet", l.name, "reason", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			x.end()
			return nil
		}
	}
}

// answer answers calls until ctx ends; the exchange is told of the end when the
// last call is answered. The error is why it could not begin.
func (l *carriedLine) answer(ctx context.Context, x *exchange, handle func(ctx context.Context, cmd any, want reflect.Type) (any, error)) error {
	a := &answerer{l: l, handle: handle, name: rand.Text(), moved: make(chan struct{}, 1), idle: make(chan struct{})}
	x.add(a)
	err := a.announce(ctx)
	x.remove(a)
	a.leave()
	if err != nil {
		<-a.idle
		return err
	}
	go func() {
		<-a.idle // calls that have begun are answered although ctx has ended
		x.end()
	}()
	return nil
}

// announce says that the process is there, from when a caller has asked for the
// stage, here or in another process, until ctx ends. Without callers there need
// be no node.
func (a *answerer) announce(ctx context.Context) error {
	nc, subject := a.l.conn.nc, callsSubject(a.l.name)
	before := nc.LastError()
	say := func(what byte) {
		if said := a.say(what); said != nil {
			_ = nc.Publish(subject, said) // without a connection nothing hears it
		}
	}
	asked, err := nc.Subscribe(subject+askedSuffix, func(m *natsgo.Msg) {
		if a.open(ctx) {
			_ = m.Respond(a.say(saysThere))
			say(saysThere)
		}
	})
	if err != nil {
		return err
	}
	defer say(saysLeaves)
	defer func() { _ = asked.Unsubscribe() }()
	others, err := nc.Subscribe(subject, func(m *natsgo.Msg) {
		if a.say(saysThere) == nil && len(m.Data) > 0 && m.Data[0] == saysThere && a.open(ctx) {
			say(saysThere)
		}
	})
	if err != nil {
		return err
	}
	defer func() { _ = others.Unsubscribe() }()
	flush, cancel := context.WithTimeout(ctx, serveTime)
	defer cancel()
	if nc.FlushWithContext(flush) == nil { // the server has reported denials by now
		if err := forbidden(nc, before); err != nil {
			return err
		}
	}
	beat := time.NewTicker(a.l.of.calls.cfg.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
		case <-a.moved:
		case <-ctx.Done():
			return nil
		}
		if a.say(saysThere) != nil && a.open(ctx) { // its node may be another one than before
			say(saysThere)
		}
	}
}

// open makes the node, if there is none, and reports whether there is one. If
// it is another one than before, callers are told that the one before is not
// there any more.
func (a *answerer) open(ctx context.Context) bool {
	node, err := a.l.of.calls.open(ctx)
	if err != nil && ctx.Err() != nil {
		return false
	}
	if err != nil {
		a.l.inlet.o.Logger.Warn("calls cannot be answered", "inlet", a.l.name, "reason", err)
		return false
	}
	if node.Name() == a.of() {
		return true
	}
	if left := a.say(saysLeaves); left != nil {
		_ = a.l.conn.nc.Publish(callsSubject(a.l.name), left)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node = node.Name()
	return true
}

// of returns the name of the node, or nothing if there was none yet.
func (a *answerer) of() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.node
}

// say returns what the process says of itself; nil if nothing has asked for it
// yet.
func (a *answerer) say(what byte) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.node == "" {
		return nil
	}
	return fmt.Appendf(nil, "%c%s.%s", what, a.node, a.name)
}

// leave ends the calls that are taken.
func (a *answerer) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaving = true
	if a.served == 0 {
		close(a.idle)
	}
}

// take counts a call, or refuses it.
func (a *answerer) take() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.leaving:
		return errLeaving
	case a.served == mostAnswered:
		return fmt.Errorf("stage %q: %w: %d calls wait for it", a.l.stage, stage.ErrFull, a.served)
	}
	a.served++
	return nil
}

// end counts a call that has ended.
func (a *answerer) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.served--
	if a.served == 0 && a.leaving {
		close(a.idle)
	}
}

// serve handles one call. The function is suspended meanwhile.
func (a *answerer) serve(c coroutine.Context, q called) (reply, error) {
	if err := a.take(); err != nil {
		return reply{}, err
	}
	defer a.end()
	ctx, cancel := context.WithCancelCause(command.Called(c))
	if deadline, ok := c.Deadline(); ok {
		limited, release := context.WithDeadline(ctx, deadline)
		defer release()
		ctx = limited
	}
	answer := struct {
		value reply
		err   error
	}{err: errNoAnswer}
	stopped := c.Suspend(func(wake func()) {
		go func() {
			bigstack.Grow()
			defer wake()
			answer.value, answer.err = handled(func() (reply, error) { return a.run(ctx, q) })
		}()
	})
	cancel(stopped)
	if stopped != nil {
		return reply{}, stopped
	}
	if answer.err == nil {
		answer.err = a.l.of.calls.ready(c, q, answer.value)
	}
	return answer.value, answer.err
}

// run handles the command of a call.
func (a *answerer) run(ctx context.Context, q called) (reply, error) {
	cmd, err := decodePayload(a.l.o.Codec, q.Payload)
	if err != nil {
		return reply{}, fmt.Errorf("stage %q: decode: %w", a.l.stage, err)
	}
	result, err := a.handle(ctx, cmd, passedOn)
	switch {
	case errors.Is(err, remote.ErrNotBegun):
		return reply{}, fmt.Errorf("%w: %w", errLeaving, err)
	case errors.Is(err, errLeaving):
		return reply{}, begun{err}
	case err != nil:
		return reply{}, err
	}
	return a.l.of.results.encode(result)
}
