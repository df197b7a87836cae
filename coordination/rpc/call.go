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
	wake  func()   // called when it is done
	more  []func() // likewise, after it

	// One of these notifies the called process that the caller is gone. It is
	// set before the request is sent.
	request *request
	leave   func(cause error)
}

// order is a caller's request of a function.
type order struct {
	method   string
	body     any
	deadline time.Time // of the caller; zero if it has none
	carried            // of the caller's context
}

// finish ends the call; only the first end counts.
func (k *call) finish(value any, err error) {
	if wake, more, ended := k.close(value, err); ended {
		wakeAll(wake, more)
	}
}

// cancel ends a call that the caller does not wait for any more. The caller's
// next action is ordered after the cancellation.
func (k *call) cancel(cause error) {
	wake, more, ended := k.close(nil, cause)
	if !ended {
		return
	}
	switch {
	case k.request != nil:
		k.request.cancel(cause)
	case k.leave != nil:
		k.leave(cause)
	}
	wakeAll(wake, more)
}

func wakeAll(wake func(), more []func()) {
	if wake != nil {
		wake()
	}
	for _, wake := range more {
		wake()
	}
}

// close marks the call as done. It returns the functions that the caller must
// call then, and whether the call was not done before.
func (k *call) close(value any, err error) (wake func(), more []func(), ended bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done {
		return nil, nil, false
	}
	wake, more = k.wake, k.more
	k.done, k.value, k.err, k.wake, k.more = true, value, err, nil, nil
	return wake, more, true
}

// then calls f when the call is done: now if it is.
func (k *call) then(f func()) {
	k.mu.Lock()
	if !k.done {
		k.more = append(k.more, f)
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
	r := &request{order: o, process: p, caller: k}
	if k != nil {
		k.request = r
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

// orderOf returns the request of a caller with a context.
func orderOf(ctx context.Context, method string, body any) order {
	deadline, _ := ctx.Deadline()
	return order{method, body, deadline, carriedBy(ctx)}
}
