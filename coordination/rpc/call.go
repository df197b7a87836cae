package rpc

import (
	"context"
	"sync"
	"time"
)

// call is a call under way, from the side of its caller.
type call struct {
	mu    sync.Mutex // guards the fields below
	done  bool
	value any
	err   error
	wakes []func() // called when it is done
	leave func(cause error)
}

// order is what a caller asks of a function.
type order struct {
	method   string
	body     any
	deadline time.Time // of the caller; zero if it has none
}

// finish ends the call; only the first end counts.
func (k *call) finish(value any, err error) {
	wakes, _ := k.close(value, err)
	for _, wake := range wakes {
		wake()
	}
}

// cancel ends a call that the caller does not wait for any more. What the caller does next comes after the cancellation.
func (k *call) cancel(cause error) {
	wakes, leave := k.close(nil, cause)
	if leave != nil {
		leave(cause)
	}
	for _, wake := range wakes {
		wake()
	}
}

// close marks the call as done, and returns what is to be called then, or nothing if it was done before.
func (k *call) close(value any, err error) (wakes []func(), leave func(cause error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done {
		return nil, nil
	}
	wakes, leave = k.wakes, k.leave
	k.done, k.value, k.err, k.wakes, k.leave = true, value, err, nil, nil
	return wakes, leave
}

// then has f called when the call is done: now if it is.
func (k *call) then(f func()) {
	k.mu.Lock()
	if !k.done {
		k.wakes = append(k.wakes, f)
		k.mu.Unlock()
		return
	}
	k.mu.Unlock()
	f()
}

// isDone reports whether the call has ended.
func (k *call) isDone() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.done
}

// result returns how the call has ended.
func (k *call) result() (any, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.value, k.err
}

// onCancel says how the process that is called learns that the caller has gone.
func (k *call) onCancel(leave func(cause error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.done {
		k.leave = leave
	}
}

// call starts a call.
func (a Address) call(k *call, o order) {
	if err := a.send(k, o); err != nil {
		k.finish(nil, err)
	}
}

// send sends a request. If k is nil the sender does not wait for the end.
func (a Address) send(k *call, o order) error {
	switch {
	case a.at == nil:
		return a.errNowhere()
	case a.isHere():
		return a.sendHere(k, o)
	default:
		return a.at.sendAway(k, a, o)
	}
}

// sendHere sends a request to a process of the same node: no value is encoded.
func (a Address) sendHere(k *call, o order) error {
	p, err := a.at.lookup(a.process)
	if err != nil {
		return err
	}
	r := &request{order: o, process: p}
	if k != nil {
		r.reply = k.finish
		k.onCancel(r.cancel)
	}
	return p.accept(r)
}

// left returns how much time a caller has; zero is no limit.
func (o order) left() time.Duration {
	if o.deadline.IsZero() {
		return 0
	}
	return max(time.Until(o.deadline), 1)
}

// deadlineOf returns the deadline of a context, or the zero time.
func deadlineOf(ctx context.Context) time.Time {
	t, _ := ctx.Deadline()
	return t
}
