package event

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
)

// HandleCommand calls HandleSuspending. The context of every handler of the
// stage can suspend.
func (k *keeper[K, A]) HandleCommand(ctx context.Context, p *pane[K, A]) behaviour.Outcome {
	return behaviour.Coroutine[*pane[K, A]](k.HandleSuspending).HandleCommand(ctx, p)
}

// HandleSuspending waits until a pane is passed on, and sends its result.
func (k *keeper[K, A]) HandleSuspending(c behaviour.Suspender, p *pane[K, A]) behaviour.Outcome {
	if p == nil {
		return behaviour.Error(errors.New("event: the command has no window"))
	}
	switch k.wait(c, p) {
	case joined, parked:
		return behaviour.OK(nil)
	default:
		return k.carry(c, p)
	}
}

// wait waits until a pane is passed on. A hard stop passes it on at once.
func (k *keeper[K, A]) wait(c behaviour.Suspender, p *pane[K, A]) state {
	k.mu.Lock()
	p.from = cmp.Or(p.from, originOf(c))
	if p.arrived = true; p.state != waits {
		defer k.mu.Unlock()
		return p.state
	}
	k.waiting++
	k.mu.Unlock()
	err := c.Suspend(func(wake func()) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if p.state == waits {
			p.wake = wake
		} else {
			wake()
		}
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.wake = nil; err != nil && p.state == waits {
		k.fireLocked(p.of, true)
		k.forgetLocked(p.of)
	}
	return p.state
}

// carry sends the result of a pane. All its commands end with that.
func (k *keeper[K, A]) carry(c behaviour.Suspender, p *pane[K, A]) (o behaviour.Outcome) {
	err := errCrashed // stays if a function of the flow's Route crashes
	deferred := false
	defer func() {
		k.gone(p)
		if !deferred {
			k.settle(p, err)
		}
	}()
	k.waitTurn(c, p)
	if run, ok := c.Value(link.EmitterKey{}).(interface{ PassOn(of *command.Group) }); ok {

		run.PassOn(&p.group)
	}
	o = k.send(c, p.result)
	if err = o.Err(); err != nil {
		return o
	}
	if worker, ok := c.Value(link.EmitterKey{}).(link.Deferrer); ok {
		if deferred = worker.Defer(k, p); !deferred { // the result does not leave
			if err = errCrashed; context.Cause(c) != nil {
				err = plain.Wrap("event: the worker that passed on the window was given up", context.Cause(c))
			}
		}
	}
	return o
}

// waitTurn waits until the earlier result of the same key is passed on, unless
// the handler is stopped.
func (k *keeper[K, A]) waitTurn(c behaviour.Suspender, p *pane[K, A]) {
	k.mu.Lock()
	before := p.before
	p.before = nil
	turn := before == nil || before.state == gone
	k.mu.Unlock()
	if turn {
		return
	}
	_ = c.Suspend(func(wake func()) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if before.state == gone {
			wake()
		} else {
			before.next = wake
		}
	})
}

// gone has the next result of the same key go on.
func (k *keeper[K, A]) gone(p *pane[K, A]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.goneLocked(p)
}

func (k *keeper[K, A]) goneLocked(p *pane[K, A]) {
	p.state = gone
	if key := p.result.Key; k.leaving[key] == p {
		delete(k.leaving, key)
	}
	if p.next != nil {
		p.next()
		p.next = nil
	}
}

// settle says how a result was passed on: if it has left, it has the group.
func (k *keeper[K, A]) settle(p *pane[K, A], err error) {
	group := p.group
	p.group = command.Group{}
	if err != nil {
		group.End(err)
	}
}

// Deferred returns true: the worker says whether the result of a pane leaves.
func (k *keeper[K, A]) Deferred(any) bool { return true }

// Settled is called when that is decided.
func (k *keeper[K, A]) Settled(use any, ended bool, err error) {
	if !ended {
		err = errCrashed
	}
	k.settle(use.(*pane[K, A]), err)
}

// ended is called when the command of a pane has ended. If that was not with
// its result, because the command did not come to the stage, the window is lost.
func (k *keeper[K, A]) ended(p *pane[K, A], err error) {
	k.mu.Lock()
	if p.arrived || p.state != waits && p.state != fired {
		k.mu.Unlock()
		return
	}
	if p.state == waits {
		p.result = p.of.result(true)
		k.forgetLocked(p.of)
	}
	k.goneLocked(p)
	group := p.group
	p.group = command.Group{}
	k.mu.Unlock()
	group.End(cmp.Or(err, errLost))
}

// HeldCommands returns how many commands wait for their panes.
func (k *keeper[K, A]) HeldCommands() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.waiting
}

// ReleaseHeld passes on all windows: no further command comes.
func (k *keeper[K, A]) ReleaseHeld() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.releaseLocked()
}

// ReleaseTimeless passes all windows on, and keeps them open. It returns how
// many there were.
func (k *keeper[K, A]) ReleaseTimeless() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.orderedLocked() {
		if k.fireLocked(w, !w.over) {
			n++
		}
	}
	return n
}

// orderedLocked returns all windows in the order of their ends.
func (k *keeper[K, A]) orderedLocked() []*window[K, A] {
	return slices.SortedFunc(slices.Values(k.queue), func(a, b *window[K, A]) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.seq, b.seq))
	})
}

// NeedsCommands returns 0: how many commands have a window passed on is not
// known.
func (k *keeper[K, A]) NeedsCommands() int { return 0 }

// Stop stops the timer.
func (k *keeper[K, A]) Stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
}

// armLocked sets the timer of the next tick, if sources or keys may be idle.
func (k *keeper[K, A]) armLocked() {
	if k.idle > 0 && k.timer == nil {
		k.timer, k.ticks = time.AfterFunc(k.idle, k.tick), time.Now().Add(k.idle)
	}
}

// tick finds sources and keys that had no command since the last tick.
func (k *keeper[K, A]) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer == nil {
		return // it was stopped
	}
	k.timer = nil
	switch {
	case k.adding: // a function of the user is called just now, and may hang
	case k.byKey:
		k.tickKeysLocked()
	case k.sourced:
		k.tickSourcesLocked()
	case !k.clock.active:
		k.releaseLocked()
	}
	k.clock.active = false
	if len(k.queue)+len(k.sources) > 0 || k.byKey && len(k.keys) > 0 {
		k.armLocked()
	}
}

// tickKeysLocked passes on the windows of idle keys, in the order of their
// ends, and forgets the keys.
func (k *keeper[K, A]) tickKeysLocked() {
	for _, w := range k.orderedLocked() {
		if !w.of.active {
			k.closeLocked(w, w.of.mark)
		}
	}
	for key, e := range k.keys {
		if !e.active {
			delete(k.keys, key)
		}
		e.active = false
	}
}

// tickSourcesLocked forgets idle sources, so that they do not hold the
// watermark up.
func (k *keeper[K, A]) tickSourcesLocked() {
	for name, c := range k.sources {
		if !c.active {
			delete(k.sources, name)
		}
		c.active = false
	}
	k.compareLocked()
	if len(k.sources) == 0 {
		k.releaseLocked()
		return
	}
	for w := k.firstLocked(); w != nil && w.due <= k.clock.mark; w = k.firstLocked() {
		k.reachLocked(w, k.clock.mark)
	}
}

// originOf returns the origin of the command that is handled with the context of
// a handler that suspends; nil if it has none.
func originOf(ctx context.Context) *command.Origin {
	origin, _ := ctx.Value(command.OriginKey{}).(*command.Origin)
	return origin
}
