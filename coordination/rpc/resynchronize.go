package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/rules"
	"github.com/golda-dev/golda/supervisor"
)

// Resynchronize gives a synchronizer of [Node.Synchronize] other rules while it
// runs: the rules that init names, from now on and after each restart. Rules
// that init names no more are removed. Like Synchronize it returns when all
// members follow the new rules, except members that do not exist or cannot be
// reached. Requests that were waiting are decided by the new rules; running
// requests continue, and stay in the counters.
//
// The rules change at once: no request is decided by some of the old and some
// of the new ones. As after a restart the counters of the members continue, and
// variables of init and rounds of OncePerRound begin anew.
//
// If something is wrong with the new rules, or init panics, the old ones stay,
// and the error lists all faults. The old rules also stay if ctx ends before
// init has been called. If ctx ends later, or the node of a member refuses the
// rules, the new ones stay at the members that have them, and the others get
// them when they can. A second call waits for the first. The error is
// supervisor.ErrNotFound if there is no such synchronizer.
//
// To let other processes change rules, call it in a function of a process, by
// coroutine.Await.
func (n *Node) Resynchronize(ctx context.Context, name string, init func(s *synchronizer.Synchronizer)) error {
	link.CheckContext(ctx, "rpc: Resynchronize")
	n.mu.Lock()
	b := n.rulebooks[name]
	n.mu.Unlock()
	if b == nil {
		return fmt.Errorf("rpc: synchronizer %q: %w", name, supervisor.ErrNotFound)
	}
	select {
	case b.changing <- struct{}{}:
		defer func() { <-b.changing }()
	case <-ctx.Done():
		return b.wrap(fmt.Errorf("another change is under way: %w", context.Cause(ctx)))
	case <-b.done:
		return b.wrap(supervisor.ErrStopped)
	}
	return b.change(ctx, &amendment{init: init, settled: make(chan struct{})})
}

// amendment is a call of Resynchronize. Its fields are guarded by the lock of
// the rulebook.
type amendment struct {
	init    func(s *synchronizer.Synchronizer)
	begun   bool // init has been called
	over    bool
	err     error         // once it is over
	settled chan struct{} // is closed when it is over
}

// change has the present incarnation, or the next one, change its rules, and
// waits until it has.
func (b *rulebook) change(ctx context.Context, a *amendment) error {
	b.mu.Lock()
	b.amendment = a
	p := b.speaker
	b.mu.Unlock()
	if p != nil {
		p.post(entry{do: func() {
			if p.coordination == nil { // its init has failed
				return
			}
			p.coordination.amend()
			p.coordination.flush()
		}})
	}
	select {
	case <-a.settled:
	case <-ctx.Done():
		b.conclude(fmt.Errorf("%s: %w", b.lacks(), context.Cause(ctx)))
	case <-b.done:
		b.conclude(supervisor.ErrStopped)
	}
	if a.err != nil {
		return b.wrap(a.err)
	}
	return nil
}

// conclude ends the change of rules that is under way, and reports whether
// there was one.
func (b *rulebook) conclude(err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.amendment
	if a == nil {
		return false
	}
	a.err, b.amendment = err, nil
	close(a.settled)
	return true
}

// installed ends a change of rules that all members have.
func (b *rulebook) installed() {
	b.mu.Lock()
	begun := b.amendment != nil && b.amendment.begun
	b.mu.Unlock()
	if begun {
		b.conclude(nil)
	}
}

// failed reports that rules were installed that a member cannot have: as the
// error of Synchronize or Resynchronize if one waits.
func (b *rulebook) failed(err error) (reported bool) {
	return b.settle(err) || b.conclude(err)
}

// next returns the change of rules that must begin, if there is one.
func (b *rulebook) next() *amendment {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.amendment == nil || b.amendment.begun {
		return nil
	}
	b.amendment.begun = true
	return b.amendment
}

// amend changes the rules of a synchronizer, if a change is wanted.
func (c *coordination) amend() {
	with, ok := c.party.(*coordinator)
	if !ok || c.closed {
		return
	}
	a := with.book.next()
	if a == nil {
		return
	}
	c.call(func() {
		r, err := with.book.prepare(a.init)
		if err != nil {
			with.book.conclude(faults{err})
			return
		}
		before := with.book.adopt(a.init)
		if err := with.renew(r); err != nil {
			with.book.adopt(before)
			with.book.conclude(err)
			panic(err) // it has begun anew, so the process does
		}
	})
}

// prepare runs an init that is new, and returns its rules. A panic is an error:
// the present rules stay.
func (b *rulebook) prepare(init func(s *synchronizer.Synchronizer)) (r *rules.Rules, err error) {
	finished := false
	defer func() {
		v := recover()
		switch {
		case v != nil:
			err = fmt.Errorf("synchronizer %q: %w", b.slot.name, &coroutine.PanicError{Value: v, Stack: debug.Stack()})
		case !finished:
			b.conclude(coroutine.ErrGoexit)
		}
	}()
	r, err = synchronizer.Rules(b.slot.name, init)
	finished = true
	err = errors.Join(err, check(r))
	if self := b.node.Address(b.slot.name).String(); r != nil && r.Members[self] != nil {
		err = errors.Join(err, noMember(b.slot.name, self))
	}
	return r, err
}

// adopt makes init the init of this incarnation and of later ones. Methods that
// only the previous rules have asked for are not counted any more. It returns
// the previous init.
func (b *rulebook) adopt(init func(s *synchronizer.Synchronizer)) (before func(s *synchronizer.Synchronizer)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, b.init = b.init, init
	clear(b.counted)
	return before
}

// present returns the init of the rules.
func (b *rulebook) present() func(s *synchronizer.Synchronizer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.init
}

// renew begins anew, in a new epoch, with rules.
func (c *coordinator) renew(r *rules.Rules) error {
	c.missing, c.unfit = nil, map[string]struct{}{}
	c.process.renew()
	return c.install(r)
}
