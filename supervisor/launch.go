package supervisor

import (
	"errors"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/actor"
)

// noteAllUp marks the supervisor as started when every child has been ready
// once.
func (s *supervisor) noteAllUp() {
	if s.up || s.broken != nil || slices.ContainsFunc(s.children, func(c *childState) bool { return !c.wasUp }) {
		return
	}
	s.up = true
	s.started(nil)
	if s.doomed {
		s.finish()
	}
}

// isReady is the report of every incarnation that is ready.
var isReady = new(report)

// launch starts a child.
func (s *supervisor) launch(ctx actor.Context, c *childState) {
	b := &incarnation{childState: c}
	c.toStart, c.dead, c.held, c.up = false, false, false, false
	c.incarnation, c.since, c.after = b, time.Now(), time.Time{}
	c.starts++
	s.starting = c
	self, root := ctx.Self(), ctx.ActorSystem().Root
	if c.child.StartLimit > 0 {
		c.limit = time.AfterFunc(c.child.StartLimit, func() { root.Send(self, limitPassed{b}) })
	}
	ready := func(err error) {
		startReport := isReady
		if err != nil {
			startReport = &report{err}
		}
		if b.startReport.CompareAndSwap(nil, startReport) {
			root.Send(self, b)
		}
	}
	name := actor.Unique(ctx.ActorSystem(), c.child.Name)
	c.tree = nil
	err := guarded(c.id, func() (err error) {
		c.pid, err = s.spawn(ctx, c, name, ready)
		return err
	})
	if err == nil && c.pid == nil {
		err = errNoPID
	}
	if c.pid != nil {
		s.byPID[c.pid.Id] = c
	}
	if err != nil {
		ready(err)
	}
}

var errNoPID = errors.New("spawn returned neither a PID nor an error")

// spawn starts the actor of a child of any kind.
func (s *supervisor) spawn(ctx actor.Context, c *childState, name string, ready func(error)) (*actor.PID, error) {
	switch {
	case c.child.Spawn != nil:
		return c.child.Spawn(ctx, name, ready)
	case c.child.Supervisor != nil:
		spec := *c.child.nested()
		spec.Name = s.spec.Name + "/" + spec.Name
		if spec.Log == nil {
			spec.Log = s.spec.Log
		}
		below := newSupervisor(ctx.ActorSystem(), spec, s.base)
		below.nested, below.started = true, ready
		pid, err := actor.Spawn(ctx, name, actor.NewMailbox(nil), func() actor.Actor { return below })
		if err == nil {
			below.tree.pid, c.tree = pid, below.tree
		}
		return pid, err
	default:
		svc := newService(c, s.base, ready)
		return actor.Spawn(ctx, name, actor.NewMailbox(nil), func() actor.Actor { return svc })
	}
}

// handleReady handles the start report of an incarnation. A report of a child
// that is no longer starting is ignored.
func (s *supervisor) handleReady(ctx actor.Context, b *incarnation) {
	if c := b.childState; s.starting == c && c.incarnation == b {
		s.noteStart(c, b.startReport.Load().err)
		s.step(ctx)
	}
}

// noteStart records the result of a start.
func (s *supervisor) noteStart(c *childState, err error) {
	s.starting = nil
	c.stopLimit()
	if err != nil {
		s.startFailed(c, err)
		return
	}
	c.up, c.wasUp, c.since = true, true, time.Now()
	s.reply(&c.startRequest, c.id, nil)
	s.noteAllUp()
}

// startFailed handles a child that could not start. The child stays down if it
// asked to be ignored or was started by a request; a tree that is starting
// fails; and else the end is judged like a crash.
func (s *supervisor) startFailed(c *childState, reason error) {
	c.last = reason
	err := &StartError{Child: c.id, Reason: reason}
	switch {
	case errors.Is(reason, ErrIgnore):
		c.wasUp = true
		w := c.startRequest
		c.startRequest = nil
		s.stayDown(c)
		s.reply(&w, c.id, nil)
	case c.startRequest != nil: // started by a request: it stays down, or is forgotten if it was added
		c.toForget = c.startRequest.do == add
		c.stopRequest, c.stopErr, c.startRequest = c.startRequest, err, nil
		s.stayDown(c)
	case !s.up && !c.wasUp:
		s.broken = err
		s.finish()
	default:
		s.judge(c, reason, true)
	}
}
