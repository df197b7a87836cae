package supervisor

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/act"
)

// moment is how long a child has to stop when the time for all is used up.
const moment = 100 * time.Millisecond

// tell tells a child to stop.
func (k *keeper) tell(ctx act.Context, c *kid) {
	k.telling++
	c.told = true
	c.since = time.Now()
	patience := k.patience(c)
	if c.tree != nil && !c.dead {
		m := stop{parent: true, by: k.by}
		if patience != Infinity {
			m.by = time.Now().Add(max(patience, 0))
			patience += 10 * moment // it gives up its own children by then
		}
		ctx.Send(c.pid, m)
	} else {
		act.Stop(ctx.ActorSystem(), c.pid)
	}
	switch {
	case c.child.Patience == BrutalKill:
		act.Abandon(ctx.ActorSystem(), ctx.Self(), c.pid)
	case patience != Infinity:
		b, self, root := c.birth, ctx.Self(), ctx.ActorSystem().Root
		c.limit = time.AfterFunc(patience, func() { root.Send(self, late{b}) })
	}
}

// patience is how long a child may take to stop.
func (k *keeper) patience(c *kid) time.Duration {
	d := c.child.patience()
	if k.by.IsZero() {
		return d
	}
	return min(d, max(time.Until(k.by), moment))
}

// late gives up waiting for a child.
func (k *keeper) late(ctx act.Context, b *birth) {
	c := b.kid
	switch {
	case c.birth != b:
	case c == k.starting && b.said.Load() == nil:
		k.answered(c, ErrSlow)
		k.step(ctx)
	case c.told && c.pid != nil:
		b.lost.Store(true)
		act.Abandon(ctx.ActorSystem(), ctx.Self(), c.pid)
	}
}

// gone hears that a child's actor has ended.
func (k *keeper) gone(ctx act.Context, who *act.PID) {
	c := k.byPID[who.Id]
	if c == nil {
		return
	}
	delete(k.byPID, who.Id)
	c.pid = nil
	k.settle(c)
	if !c.going {
		k.failed(c, ErrKilled)
		k.step(ctx)
		return
	}
	c.stopLimit()
	c.going = false
	c.since = time.Now()
	if c.told {
		c.told = false
		k.telling--
	}
	if !c.due || c.drop {
		k.parted(c)
	}
	k.step(ctx)
}

// settle notes how a child ended that was told to.
func (k *keeper) settle(c *kid) {
	if c.birth.lost.Load() {
		c.tree = nil // nobody answers there
		k.leaves(c.id)
		if c.parts != nil && c.partErr == nil {
			c.partErr = &LeftError{Supervisor: k.spec.Name, Left: []string{c.id}}
		}
		k.log.Warn("a child did not stop in time and was abandoned", "supervisor", k.spec.Name, "child", c.id)
		return
	}
	if c.tree != nil && isClosed(c.tree.stopped) {
		for _, name := range c.tree.left {
			k.leaves(c.id + "/" + name)
		}
	}
	if p := c.birth.parting.Load(); p != nil && !endedWell(p.err, false) {
		c.last = p.err
		k.log.Warn("a child crashed when it stopped", "supervisor", k.spec.Name, "child", c.id, "reason", p.err)
	}
}

// leaves notes who did not stop.
func (k *keeper) leaves(name string) {
	if !slices.Contains(k.tree.left, name) {
		k.tree.left = append(k.tree.left, name)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stop ends the supervisor, or hastens its end.
func (k *keeper) stop(ctx act.Context, m stop) {
	k.ordered = k.ordered || m.parent
	if sooner := !m.by.IsZero() && (k.by.IsZero() || m.by.Before(k.by)); sooner {
		k.by = m.by
		for _, c := range k.kids {
			k.hasten(ctx, c)
		}
	}
	k.finish()
	k.step(ctx)
}

// hasten shortens the patience with a child that was told to stop before.
func (k *keeper) hasten(ctx act.Context, c *kid) {
	if !c.told || c.child.Patience == BrutalKill {
		return
	}
	b, self, root := c.birth, ctx.Self(), ctx.ActorSystem().Root
	patience := k.patience(c)
	if c.tree != nil && !c.dead {
		ctx.Send(c.pid, stop{parent: true, by: k.by})
		patience += 10 * moment
	}
	c.stopLimit()
	c.limit = time.AfterFunc(patience, func() { root.Send(self, late{b}) })
}

// finish has all children stopped, and then the supervisor.
func (k *keeper) finish() {
	if k.ending {
		return
	}
	k.ending = true
	if c := k.starting; c != nil { // it is stopped without an answer
		c.stopLimit()
		k.starting = nil
	}
	for _, c := range k.kids {
		c.due = false
		c.going = c.pid != nil
		c.stopPause()
	}
	k.refuse(ErrStopped)
}

// end ends the supervisor's actor: all children are gone.
func (k *keeper) end(ctx act.Context) {
	k.ended = true
	if k.nested && !k.ordered && k.broken == nil {
		act.Fail(ctx, cmp.Or(k.result, ErrShutdown)) // the supervisor above lets us go
		return
	}
	ctx.Stop(ctx.Self())
}

// stopping hears that the actor is stopped: by itself when all is done; or from
// outside, and then all its children are, too, all at once.
func (k *keeper) stopping(ctx act.Context) {
	if k.ended {
		return
	}
	k.result = cmp.Or(k.result, ErrKilled)
	k.finish()
	k.ended = true
	system, self := ctx.ActorSystem(), ctx.Self()
	for _, c := range k.kids {
		if c.pid == nil || c.birth.lost.Load() {
			continue
		}
		c.stopLimit()
		c.going = true
		pid, b := c.pid, c.birth
		switch patience := k.patience(c); patience {
		case Infinity:
		case BrutalKill:
			act.Abandon(system, self, pid)
		default: // messages are read no more, but ends of children are
			c.limit = time.AfterFunc(patience, func() {
				b.lost.Store(true)
				act.Abandon(system, self, pid)
			})
		}
	}
}

// close tells all who wait that it is over.
func (k *keeper) close() {
	for _, c := range k.kids {
		c.stopLimit()
		c.stopPause()
	}
	t := k.tree
	if !k.up {
		k.started(cmp.Or(k.broken, ErrKilled))
	}
	t.result = k.result
	if len(t.left) > 0 {
		t.result = errors.Join(t.result, &LeftError{Supervisor: k.spec.Name, Left: slices.Clone(t.left)})
	}
	k.refuse(ErrStopped)
	t.last = k.info()
	close(t.stopped)
}
