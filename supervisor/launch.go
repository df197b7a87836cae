package supervisor

import (
	"errors"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/act"
)

// settled notes that all children have been started once.
func (k *keeper) settled() {
	if k.up || k.broken != nil || slices.ContainsFunc(k.kids, func(c *kid) bool { return !c.seen }) {
		return
	}
	k.up = true
	k.started(nil)
	if k.doomed {
		k.finish()
	}
}

// fine is the word of all children that are ready.
var fine = new(word)

// launch starts a child.
func (k *keeper) launch(ctx act.Context, c *kid) {
	b := &birth{kid: c}
	c.due, c.dead, c.held, c.up = false, false, false, false
	c.birth, c.since, c.after = b, time.Now(), time.Time{}
	c.births++
	k.starting = c
	self, root := ctx.Self(), ctx.ActorSystem().Root
	if c.child.StartLimit > 0 {
		c.limit = time.AfterFunc(c.child.StartLimit, func() { root.Send(self, late{b}) })
	}
	ready := func(err error) {
		said := fine
		if err != nil {
			said = &word{err}
		}
		if b.said.CompareAndSwap(nil, said) {
			root.Send(self, b)
		}
	}
	name := act.Unique(ctx.ActorSystem(), c.child.Name)
	c.tree = nil
	err := guarded(c.id, func() (err error) {
		c.pid, err = k.spawn(ctx, c, name, ready)
		return err
	})
	if err == nil && c.pid == nil {
		err = errNoPID
	}
	if c.pid != nil {
		k.byPID[c.pid.Id] = c
	}
	if err != nil {
		ready(err)
	}
}

var errNoPID = errors.New("spawn returned neither a PID nor an error")

// spawn makes an actor of a child, whatever it is.
func (k *keeper) spawn(ctx act.Context, c *kid, name string, ready func(error)) (*act.PID, error) {
	switch {
	case c.child.Spawn != nil:
		return c.child.Spawn(ctx, name, ready)
	case c.child.Supervisor != nil:
		spec := *c.child.nested()
		spec.Name = k.spec.Name + "/" + spec.Name
		if spec.Log == nil {
			spec.Log = k.spec.Log
		}
		below := newKeeper(ctx.ActorSystem(), spec, k.base)
		below.nested, below.started = true, ready
		pid, err := act.Spawn(ctx, name, act.NewMailbox(nil), func() act.Actor { return below })
		if err == nil {
			below.tree.pid, c.tree = pid, below.tree
		}
		return pid, err
	default:
		s := newService(c, k.base, ready)
		return act.Spawn(ctx, name, act.NewMailbox(nil), func() act.Actor { return s })
	}
}

// heard hears whether the child that was started last is ready.
func (k *keeper) heard(ctx act.Context, b *birth) {
	if c := b.kid; k.starting == c && c.birth == b {
		k.answered(c, b.said.Load().err)
		k.step(ctx)
	}
}

// answered notes a child's answer.
func (k *keeper) answered(c *kid, err error) {
	k.starting = nil
	c.stopLimit()
	if err != nil {
		k.cannot(c, err)
		return
	}
	c.up, c.seen, c.since = true, true, time.Now()
	k.reply(&c.waits, c.id, nil)
	k.settled()
}

// cannot decides what becomes of a child that could not start.
func (k *keeper) cannot(c *kid, reason error) {
	c.last = reason
	err := &StartError{Child: c.id, Reason: reason}
	switch {
	case errors.Is(reason, ErrIgnore):
		c.seen = true
		w := c.waits
		c.waits = nil
		k.leave(c)
		k.reply(&w, c.id, nil)
	case c.waits != nil: // started by hand: it stays down, or was never there
		c.drop = c.waits.do == add
		c.parts, c.partErr, c.waits = c.waits, err, nil
		k.leave(c)
	case !k.up && !c.seen:
		k.broken = err
		k.finish()
	default:
		k.judge(c, reason, true)
	}
}
