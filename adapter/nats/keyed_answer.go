package nats

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/outbound"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// callerAsked is how often a caller that does not answer is asked again.
const callerAsked = 50 * time.Millisecond

// errCallerGone ends the context of a handler whose caller does not wait any more.
var errCallerGone = fmt.Errorf("the caller does not wait any more: %w", context.Canceled)

// answerKeyed has calls that are delivered from now on handled by a function, and says to callers that the stage runs here, until ctx ends.
func (l *carriedLine) answerKeyed(ctx context.Context, handle func(ctx context.Context, cmd any, want reflect.Type) (any, error)) error {
	l.once.Do(func() {
		l.handle = handle
		close(l.answers)
	})
	sub, err := l.conn.nc.Subscribe(callsSubject(l.name)+askedSuffix, func(m *natsgo.Msg) { _ = m.Respond([]byte{saysThere}) })
	if err != nil {
		return err
	}
	<-ctx.Done()
	_ = sub.Unsubscribe()
	return nil
}

// handledCall is a call that this process handles: a message of the stream.
type handledCall struct {
	l      *carriedLine
	d      *delivery
	caller string // the subject at which the caller is asked and answered
	mine   string // to which the caller sends when it does not wait any more
	cancel context.CancelCauseFunc
}

// takeCall handles the call of a message, and reports whether it is one. It does not wait. The feed ends with ctx.
func (l *carriedLine) takeCall(ctx context.Context, d *delivery) bool {
	caller := d.message().Header.Get(headerCall)
	if caller == "" {
		return false
	}
	k := &handledCall{l: l, d: d, caller: caller}
	go k.serve(ctx)
	return true
}

// serve handles the call and ends its message: it is acknowledged when the call has ended and was answered, or when its caller does not
// wait any more; and given back if the process stops before.
func (k *handledCall) serve(ctx context.Context) {
	t := k.l.inlet.tracker
	run, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	k.cancel = cancel
	mine, err := k.l.of.mail.open(func(*natsgo.Msg) { cancel(errCallerGone) })
	if err != nil { // the connection is closed
		t.giveBack(k.d)
		return
	}
	defer k.l.of.mail.close(mine)
	k.mine = mine
	within, waits, err := k.ask(ctx)
	switch {
	case err != nil:
		t.giveBack(k.d)
		return
	case !waits || run.Err() != nil:
		t.lapse(k.d)
		return
	}
	limited := context.Context(run)
	if within > 0 {
		var release context.CancelFunc
		limited, release = context.WithTimeout(run, within)
		defer release()
	}
	defer k.watch(run)()
	r, err := handled(func() (reply, error) { return k.run(ctx, limited) })
	if limited.Err() == nil {
		if back := givenBack(ctx, err); back != nil {
			t.ended(k.d, back)
			return
		}
	}
	if run.Err() == nil {
		k.answer(r, err)
	}
	t.ended(k.d, nil)
}

// run handles the command of the call. The feed ends with ctx, and the handler with limited.
func (k *handledCall) run(ctx, limited context.Context) (reply, error) {
	l := k.l
	if k.d.deliveries() > 1 {
		if n, most := l.inlet.tracker.attempts(ctx, k.d), l.inlet.o.Retry.Attempts; n > most {
			return reply{}, fmt.Errorf("stage %q: %w: the call was delivered %d times, and at most %d are allowed",
				l.stage, transport.ErrUnreachable, n, most)
		}
	}
	cmd, err := decode(l.o.Codec, k.d.message())
	if err != nil {
		return reply{}, fmt.Errorf("stage %q: decode: %w", l.stage, err)
	}
	for {
		result, err := l.handle(limited, cmd, passedOn)
		switch {
		case err == nil:
			return l.of.results.encode(result)
		case !errors.Is(err, pipeline.ErrNotBegun):
			return reply{}, err
		}
		select { // the stage is drained, or the process stops: then the feed ends, now or soon
		case <-ctx.Done():
			return reply{}, fmt.Errorf("%w: %w", stage.ErrStopped, err)
		case <-limited.Done():
			return reply{}, context.Cause(limited)
		case <-time.After(callerAsked):
		}
	}
}

// givenBack returns the error with which the message of a call is given back, so that another process handles it: if this one stops. It
// returns nil if the caller is to have the error.
func givenBack(feed context.Context, err error) error {
	if _, there := errors.AsType[*transport.Error](err); err == nil || there { // of another process
		return nil
	}
	if err = stopped(feed, err); errors.Is(err, stage.ErrStopped) {
		return err
	}
	return nil
}

// ask asks whether the caller still waits, and for how long; 0 is no limit. A caller that does not answer for some time is gone. The error
// is why ctx has ended.
func (k *handledCall) ask(ctx context.Context) (within time.Duration, waits bool, err error) {
	nc, absent := k.l.conn.nc, &k.l.of.absent
	for {
		limited, cancel := context.WithTimeout(ctx, absent.patience(k.caller))
		m, err := nc.RequestWithContext(limited, k.caller, []byte(k.mine))
		cancel()
		switch {
		case err == nil:
			absent.heard(k.caller)
			within, waits := parseWaits(m.Data)
			return within, waits, nil
		case ctx.Err() != nil:
			return 0, false, context.Cause(ctx)
		case nc.IsConnected() && absent.isGone(k.caller, time.Now(), k.l.callees.silence):
			return 0, false, nil
		}
		select {
		case <-time.After(callerAsked):
		case <-ctx.Done():
			return 0, false, context.Cause(ctx)
		}
	}
}

// parseWaits parses what [keyedCall.say] returns.
func parseWaits(said []byte) (within time.Duration, waits bool) {
	text, waits := strings.CutPrefix(string(said), string(saysThere))
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(n), waits
}

// watch asks the caller again while the handler runs, once a heartbeat: what it sends when it does not wait any more may be lost.
func (k *handledCall) watch(run context.Context) (stop func()) {
	pause := k.l.of.calls.cfg.Heartbeat
	timer := time.AfterFunc(pause, func() {
		for {
			switch _, waits, err := k.ask(run); {
			case err != nil:
				return
			case !waits:
				k.cancel(errCallerGone)
				return
			}
			select {
			case <-time.After(pause):
			case <-run.Done():
				return
			}
		}
	})
	return func() { timer.Stop() }
}

// answer sends the result or the error to the caller.
func (k *handledCall) answer(r reply, err error) {
	nc := k.l.conn.nc
	m := k.answerOf(r, err)
	if int64(m.Size()) > nc.MaxPayload() {
		m = k.answerOf(reply{}, fmt.Errorf("stage %q: the answer has %d bytes: %w", k.l.stage, m.Size(), transport.ErrTooLarge))
	}
	if err := nc.PublishMsg(m); err != nil {
		k.l.inlet.o.Logger.Warn("a call was not answered", "inlet", k.l.name, "sequence", k.d.seq, "reason", err)
	}
}

// answerOf returns the message of an answer.
func (k *handledCall) answerOf(r reply, err error) *natsgo.Msg {
	m := natsgo.NewMsg(k.caller)
	if err == nil {
		m.Data = r.Data
		m.Header = natsgo.Header{headerType: {r.Type}, headerVersion: {strconv.Itoa(r.Version)}, headerResult: {r.Go}}
		return m
	}
	m.Header.Set(headerFailed, "1")
	m.Data, _ = transport.Encode(&transport.Message{Err: outbound.Error(err)}) // only values may fail to be encoded
	return m
}

// absent has the callers that have not answered when they were asked.
type absent struct {
	mu sync.Mutex // guards of
	of map[string]*absence
}

// absence is since when a caller does not answer, and when it was asked last.
type absence struct{ since, last time.Time }

// processOf returns what the subjects of one caller's calls have in common.
func processOf(caller string) string { return caller[:strings.LastIndexByte(caller, '.')+1] }

// patience returns how long to wait for the answer of a caller. A caller that has not answered last time is not waited for as long.
func (a *absent) patience(caller string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[processOf(caller)] != nil {
		return 2 * callerAsked
	}
	return time.Second
}

// heard notes that a caller has answered.
func (a *absent) heard(caller string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, processOf(caller))
}

// isGone notes that a caller has not answered, and reports whether that has lasted so long that it is gone.
func (a *absent) isGone(caller string, now time.Time, lost time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[string]*absence{}
	}
	for name, of := range a.of {
		if now.Sub(of.last) > 20*lost {
			delete(a.of, name)
		}
	}
	of := a.of[processOf(caller)]
	if of == nil {
		of = &absence{since: now}
		a.of[processOf(caller)] = of
	}
	of.last = now
	return now.Sub(of.since) >= lost
}
