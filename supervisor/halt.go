package supervisor

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/actor"
)

// moment is how long a child still has to stop when the common time limit has
// passed.
const moment = 100 * time.Millisecond

// sendStop asks a child to stop and starts its time limit.
func (s *supervisor) sendStop(ctx actor.Context, c *childState) {
	s.stopsPending++
	c.stopSent = true
	c.since = time.Now()
	patience := s.patience(c)
	if c.tree != nil && !c.dead {
		m := stop{parent: true, by: s.by}
		if patience != Infinity {
			m.by = time.Now().Add(max(patience, 0))
			patience += 10 * moment // by then it abandons its own children
		}
		ctx.Send(c.pid, m)
	} else {
		actor.Stop(ctx.ActorSystem(), c.pid)
	}
	switch {
	case c.child.Patience == BrutalKill:
		actor.Abandon(ctx.ActorSystem(), ctx.Self(), c.pid)
	case patience != Infinity:
		b, self, root := c.incarnation, ctx.Self(), ctx.ActorSystem().Root
		c.limit = time.AfterFunc(patience, func() { root.Send(self, limitPassed{b}) })
	}
}

// patience returns how long a child may take to stop.
func (s *supervisor) patience(c *childState) time.Duration {
	d := c.child.patience()
	if s.by.IsZero() {
		return d
	}
	return min(d, max(time.Until(s.by), moment))
}

// handleLimit stops waiting for a child whose time limit has passed.
func (s *supervisor) handleLimit(ctx actor.Context, b *incarnation) {
	c := b.childState
	switch {
	case c.incarnation != b:
	case c == s.starting && b.startReport.Load() == nil:
		s.noteStart(c, ErrSlow)
		s.step(ctx)
	case c.stopSent && c.pid != nil:
		b.abandoned.Store(true)
		actor.Abandon(ctx.ActorSystem(), ctx.Self(), c.pid)
	}
}

// handleTerminated handles the end of a child's actor.
func (s *supervisor) handleTerminated(ctx actor.Context, pid *actor.PID) {
	c := s.byPID[pid.Id]
	if c == nil {
		return
	}
	delete(s.byPID, pid.Id)
	c.pid = nil
	s.noteStopped(c)
	if !c.toStop {
		s.failed(c, ErrKilled)
		s.step(ctx)
		return
	}
	c.stopLimit()
	c.toStop = false
	c.since = time.Now()
	if c.stopSent {
		c.stopSent = false
		s.stopsPending--
	}
	if !c.toStart || c.toForget {
		s.forgetOrKeep(c)
	}
	s.step(ctx)
}

// noteStopped records how a child ended.
func (s *supervisor) noteStopped(c *childState) {
	if c.incarnation.abandoned.Load() {
		c.tree = nil // an abandoned supervisor does not answer
		s.addLeft(c.id)
		if c.stopRequest != nil && c.stopErr == nil {
			c.stopErr = &LeftError{Supervisor: s.spec.Name, Left: []string{c.id}}
		}
		s.log.Warn("a child did not stop in time and was abandoned", "supervisor", s.spec.Name, "child", c.id)
		return
	}
	if c.tree != nil && isClosed(c.tree.stopped) {
		for _, name := range c.tree.left {
			s.addLeft(c.id + "/" + name)
		}
	}
	if p := c.incarnation.stopReport.Load(); p != nil && !endedWell(p.err, false) {
		c.last = p.err
		s.log.Warn("a child crashed when it stopped", "supervisor", s.spec.Name, "child", c.id, "reason", p.err)
	}
}

// addLeft records the name of a child that did not stop.
func (s *supervisor) addLeft(name string) {
	if !slices.Contains(s.tree.left, name) {
		s.tree.left = append(s.tree.left, name)
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

// handleStop ends the supervisor, or shortens the time for its end.
func (s *supervisor) handleStop(ctx actor.Context, m stop) {
	s.stopFromAbove = s.stopFromAbove || m.parent
	if sooner := !m.by.IsZero() && (s.by.IsZero() || m.by.Before(s.by)); sooner {
		s.by = m.by
		for _, c := range s.children {
			s.hasten(ctx, c)
		}
	}
	s.finish()
	s.step(ctx)
}

// hasten shortens the time limit of a child that was asked to stop before.
func (s *supervisor) hasten(ctx actor.Context, c *childState) {
	if !c.stopSent || c.child.Patience == BrutalKill {
		return
	}
	b, self, root := c.incarnation, ctx.Self(), ctx.ActorSystem().Root
	patience := s.patience(c)
	if c.tree != nil && !c.dead {
		ctx.Send(c.pid, stop{parent: true, by: s.by})
		patience += 10 * moment
	}
	c.stopLimit()
	c.limit = time.AfterFunc(patience, func() { root.Send(self, limitPassed{b}) })
}

// finish has all children stopped, and then the supervisor.
func (s *supervisor) finish() {
	if s.ending {
		return
	}
	s.ending = true
	if c := s.starting; c != nil { // stop it without waiting for its report
		c.stopLimit()
		s.starting = nil
	}
	for _, c := range s.children {
		c.toStart = false
		c.toStop = c.pid != nil
		c.stopPause()
	}
	s.refuseAll(ErrStopped)
}

// end ends the supervisor's actor: all children are gone.
func (s *supervisor) end(ctx actor.Context) {
	s.ended = true
	if s.nested && !s.stopFromAbove && s.broken == nil {
		actor.Fail(ctx, cmp.Or(s.result, ErrShutdown)) // the supervisor above stops it
		return
	}
	ctx.Stop(ctx.Self())
}

// handleStopping handles the stop of the supervisor's own actor. After a normal
// end there is nothing to do. If the actor is stopped from outside, all
// children are stopped at once.
func (s *supervisor) handleStopping(ctx actor.Context) {
	if s.ended {
		return
	}
	s.result = cmp.Or(s.result, ErrKilled)
	s.finish()
	s.ended = true
	system, self := ctx.ActorSystem(), ctx.Self()
	for _, c := range s.children {
		if c.pid == nil || c.incarnation.abandoned.Load() {
			continue
		}
		c.stopLimit()
		c.toStop = true
		pid, b := c.pid, c.incarnation
		switch patience := s.patience(c); patience {
		case Infinity:
		case BrutalKill:
			actor.Abandon(system, self, pid)
		default: // the actor handles no more messages except the ends of its children
			c.limit = time.AfterFunc(patience, func() {
				b.abandoned.Store(true)
				actor.Abandon(system, self, pid)
			})
		}
	}
}

// close completes the tree: it answers all waiting requests and publishes the
// result.
func (s *supervisor) close() {
	for _, c := range s.children {
		c.stopLimit()
		c.stopPause()
	}
	t := s.tree
	if !s.up {
		s.started(cmp.Or(s.broken, ErrKilled))
	}
	t.result = s.result
	if len(t.left) > 0 {
		t.result = errors.Join(t.result, &LeftError{Supervisor: s.spec.Name, Left: slices.Clone(t.left)})
	}
	s.refuseAll(ErrStopped)
	t.last = s.info()
	close(t.stopped)
}
