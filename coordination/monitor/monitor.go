package monitor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/link"
)

var (
	// ErrLost is the error of a function of a monitor that has lost the lock
	// while it was inside: the lock's process has ended or cannot be reached,
	// or has given the lock to another function, because the node of this one
	// seemed to have ended.
	ErrLost = errors.New("monitor: lock lost")

	// ErrNested is the error of a function of a monitor that is called by a
	// function of the same monitor: it would wait for itself.
	ErrNested = errors.New("monitor: a function of a monitor calls another one of the same monitor")
)

func init() { //nolint:gochecknoinits // as gob.Register is used
	transport.RegisterError("monitor.ErrLost", ErrLost)
	transport.RegisterError("monitor.ErrNested", ErrNested)
}

// DoWhenFree returns f as a function of the monitor of a lock: of all functions
// that are made with the same lock at most one is inside at a time. They enter
// in the order in which their requests reach the lock's process. The result can
// be given to [rpc.Func], or called by any code that has a [coroutine.Context].
//
// The lock is released when f has returned, panicked, called runtime.Goexit or
// was stopped, and when its node has ended. If the lock was lost while f was
// inside, the error joins [ErrLost] with the error of f. Entering a second time
// fails with [ErrNested], if f calls the other function itself, with its c. A
// second entry through another process is not detected: it waits until c ends.
// A caller that ends while it waits to enter has not entered.
//
// f gets a context to use in the place of the caller's.
func DoWhenFree[Req, Resp any](
	l Lock, f func(c coroutine.Context, m *Monitor, req Req) (Resp, error),
) func(c coroutine.Context, req Req) (Resp, error) {
	if f == nil {
		panic("monitor: DoWhenFree without a function")
	}
	return func(c coroutine.Context, req Req) (resp Resp, err error) {
		link.CheckContext(c, "monitor: a function of a monitor")
		inside, m, err := l.enter(c)
		if err != nil {
			return resp, err
		}
		defer func() {
			switch lost := m.leave(inside); {
			case lost == nil, errors.Is(err, ErrLost):
			case err == nil:
				err = lost
			default:
				err = errors.Join(err, lost)
			}
		}()
		return f(inside, m, req)
	}
}

// Monitor is a monitor as a function sees it that is inside. Only that function
// uses it, on its own goroutine, until it returns.
type Monitor struct {
	lock  Lock
	id    uint64
	token uint64
	lost  error
}

// outsider is the context of a function that is inside and not a coroutine. It
// says which entry is its own.
type outsider struct{ coroutine.Context }

// enter enters a monitor.
func (l Lock) enter(c coroutine.Context) (inside coroutine.Context, m *Monitor, err error) {
	switch coro.Origin(c).(type) {
	case *coro.Task, *outsider:
	default:
		c = &outsider{c}
	}
	m = &Monitor{lock: l, id: rand.Uint64()}
	in := entering{ID: m.id, Node: l.Address.Via(), Owner: uint64(reflect.ValueOf(coro.Origin(c)).Pointer())}
	m.token, err = rpc.At[entering, uint64](l.Address, fnEnter).Call(c, in)
	if err != nil {
		m.forget() // the request may have been sent
		return nil, nil, err
	}
	return c, m, nil
}

// leave leaves the monitor, and returns whether the lock was lost before.
func (m *Monitor) leave(c coroutine.Context) error {
	if m.lost != nil {
		return m.lost
	}
	_, err := rpc.At[uint64, struct{}](m.lock.Address, fnRelease).Call(c, m.token)
	switch {
	case err == nil, errors.Is(err, ErrLost):
		return err
	case errors.Is(err, rpc.ErrUnreachable):
		m.forget()
		return fmt.Errorf("%w: %w", ErrLost, err)
	default: // the caller has been stopped, so it cannot wait to know
		m.forget()
		return nil
	}
}

// forget has the lock's process remove the entry, without waiting.
func (m *Monitor) forget() { _ = rpc.At[uint64, struct{}](m.lock.Address, fnLeave).Send(m.id) }

// Token returns a number that grows with each entry of the monitor, by
// whichever function. A resource that remembers the largest number that it has
// seen, and refuses requests with smaller ones, is safe from a function that
// has lost the lock and does not know it yet. [Monitor.Wait] is a new entry.
func (m *Monitor) Token() uint64 { return m.token }

// Wait leaves the monitor, waits for a signal of the condition, and enters
// again, behind the functions that already wait to enter. The condition may be
// false again by then: call Wait in a loop.
//
// If Wait returns an error the function is not inside any more, and should
// return. The error is [ErrLost], or the error of c, which was stopped or has
// ended.
func (m *Monitor) Wait(c coroutine.Context, condition string) error {
	link.CheckContext(c, "monitor: Wait")
	if m.lost != nil {
		return m.lost
	}
	token, err := rpc.At[waiting, uint64](m.lock.Address, fnWait).Call(c, waiting{m.token, condition})
	if err == nil {
		m.token = token
		return nil
	}
	m.forget()
	if !errors.Is(err, ErrLost) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	m.lost = err
	return err
}

// Signal lets the function enter again that has waited longest for the
// condition, after the functions that already wait to enter. The caller stays
// inside. If no function waits, or the lock was lost, nothing happens.
func (m *Monitor) Signal(condition string) { m.signal(condition, false) }

// SignalAll is [Monitor.Signal] for all functions that wait for the condition,
// in the order in which they came.
func (m *Monitor) SignalAll(condition string) { m.signal(condition, true) }

func (m *Monitor) signal(condition string, all bool) {
	// A lost lock is noticed when it is released.
	_ = rpc.At[signalling, struct{}](m.lock.Address, fnSignal).Send(signalling{m.token, condition, all})
}
