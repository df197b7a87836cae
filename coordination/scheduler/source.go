package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"time"
)

// Source produces events by itself: by callbacks, or by calls that block until
// there is an event.
type Source interface {
	// Observe is called once for each registration, on a goroutine of its own,
	// so it may block. It calls notify for every event, from any goroutine, and
	// returns when ctx is done or when there will be no more events, with an
	// error if it failed; io.EOF does not count as an error.
	//
	// notify blocks while this source has Config.Backlog open events, so a
	// handler must not call it. The order of the calls is kept. An event that
	// is notified after ctx was done, or after Observe returned, may be
	// dropped.
	Observe(ctx context.Context, notify func(event any)) error
}

// Dropper is a Source or Poller that gets back its events that will not be
// handled, because its registration was closed. Any goroutine may call Drop.
// Its panics are reported to Config.Error.
type Dropper interface {
	Drop(event any)
}

// SourceFunc is a function that is a Source.
type SourceFunc func(ctx context.Context, notify func(event any)) error

// Observe calls f.
func (f SourceFunc) Observe(ctx context.Context, notify func(event any)) error {
	return f(ctx, notify)
}

// ticker is a source that consists only of times, which the scheduler keeps
// itself.
type ticker interface {
	Source
	first() time.Duration
	// next returns when to fire after a due time has passed.
	next(due, now time.Time) (at time.Time, again bool)
}

// After is a source with one event, the time.Time at which the scheduler found
// it due: at least d after it was registered, and later if a handler holds up
// the scheduler.
func After(d time.Duration) Source { return after(d) }

type after time.Duration

func (a after) first() time.Duration                                 { return time.Duration(a) }
func (a after) next(time.Time, time.Time) (at time.Time, again bool) { return time.Time{}, false }
func (a after) String() string                                       { return fmt.Sprintf("After(%v)", time.Duration(a)) }

// Observe implements Source for use without a scheduler.
func (a after) Observe(ctx context.Context, notify func(event any)) error {
	return observeTicks(ctx, a, notify)
}

// Every is a source with an event every d since it was registered: the
// time.Time at which the scheduler found it due. d must be positive. A late
// event does not delay those after it; further events that are due by then are
// skipped.
func Every(d time.Duration) Source {
	if d <= 0 {
		panic(fmt.Sprintf("scheduler: Every(%v): not positive", d))
	}
	return every(d)
}

type every time.Duration

func (e every) first() time.Duration { return time.Duration(e) }
func (e every) String() string       { return fmt.Sprintf("Every(%v)", time.Duration(e)) }

func (e every) next(due, now time.Time) (at time.Time, again bool) {
	d := time.Duration(e)
	return due.Add(now.Sub(due).Truncate(d) + d), true
}

// Observe implements Source for use without a scheduler.
func (e every) Observe(ctx context.Context, notify func(event any)) error {
	return observeTicks(ctx, e, notify)
}

func observeTicks(ctx context.Context, t ticker, notify func(event any)) error {
	at := time.Now().Add(t.first())
	for again := true; again; {
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			return nil
		}
		now := time.Now()
		notify(now)
		at, again = t.next(at, now)
	}
	return nil
}

// Chan is a source with an event for each value received from ch. It ends when
// ch is closed. A value that was received but not handled when the registration
// is closed is lost.
func Chan[T any](ch <-chan T) Source {
	if ch == nil {
		panic("scheduler: Chan: the channel is nil, and would never have a value")
	}
	return channel[T](ch)
}

type channel[T any] <-chan T

func (ch channel[T]) Observe(ctx context.Context, notify func(event any)) error {
	for {
		select {
		case v, ok := <-ch:
			if !ok {
				return nil
			}
			notify(v)
		case <-ctx.Done():
			return nil
		}
	}
}

func (ch channel[T]) String() string { return fmt.Sprintf("Chan of %T", *new(T)) }

// Accept is a source with an event, the net.Conn, for each connection accepted
// on l. It owns l: l is closed when the registration is closed. Connections
// that will not be handled are closed, too. When the process has no file
// descriptor left for a connection, Accept tries again after a pause. It panics
// if l is nil.
func Accept(l net.Listener) Source {
	if l == nil {
		panic("scheduler: Accept without a listener")
	}
	return acceptor{l}
}

type acceptor struct{ net.Listener }

func (a acceptor) Observe(ctx context.Context, notify func(event any)) error {
	defer a.Close() //nolint:errcheck // it may have been closed already
	defer context.AfterFunc(ctx, func() { _ = a.Close() })()
	for pause := firstPause; ; {
		conn, err := a.Listener.Accept()
		switch {
		case err == nil:
			pause = firstPause
			notify(conn)
		case ctx.Err() != nil, errors.Is(err, net.ErrClosed):
			return nil
		case temporary(err):
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
			pause = min(2*pause, lastPause)
		default:
			return err
		}
	}
}

const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// temporary reports whether an error of Accept may be temporary, as net/http
// judges it.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// Drop closes a connection that will not be handled.
func (a acceptor) Drop(event any) { _ = event.(net.Conn).Close() }

func (a acceptor) String() string { return "Accept on " + a.Addr().String() }

// Signal is a source with an event, the os.Signal, for each of the given
// signals that arrives, or for any signal, as in signal.Notify. It catches them
// from this call on, so none is lost before it is registered; register it once,
// since only the end of the registration restores the default handling.
func Signal(signals ...os.Signal) Source {
	const pending = 16 // how many may arrive at once; the runtime drops more
	ch := make(chan os.Signal, pending)
	signal.Notify(ch, signals...)
	return caught(ch)
}

type caught chan os.Signal

func (ch caught) Observe(ctx context.Context, notify func(event any)) error {
	defer signal.Stop(ch)
	return channel[os.Signal]((<-chan os.Signal)(ch)).Observe(ctx, notify)
}

func (ch caught) String() string { return "Signal" }
