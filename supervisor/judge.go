package supervisor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// stayDown stops a child, or leaves it down, and does not start it again.
func (s *supervisor) stayDown(c *childState) {
	c.toStart = false
	c.toForget = c.toForget || c.child.Restart == Temporary || s.spec.Strategy == SimpleOneForOne
	c.stopPause()
	if c.pid != nil {
		c.toStop = true
		return
	}
	s.forgetOrKeep(c)
}

// forgetOrKeep answers the requests that waited for a child's end, and forgets
// the child if it is not to be kept.
func (s *supervisor) forgetOrKeep(c *childState) {
	c.since = time.Now()
	err := c.stopErr
	c.stopErr = nil
	s.reply(&c.stopRequest, c.id, err)
	if s.ending {
		return
	}
	s.reply(&c.startRequest, c.id, ErrShutdown) // it ended before it was ready
	if c.toForget {
		s.children = slices.DeleteFunc(s.children, func(o *childState) bool { return o == c })
	}
}

// failed handles a child that has ended or failed by itself.
func (s *supervisor) failed(c *childState, reason error) {
	if c.toStop || s.ending { // it will be stopped anyway
		c.toStop = c.pid != nil
		if !endedWell(reason, c.tree != nil) {
			c.last = reason
			s.log.Warn("a child failed before it was stopped", "supervisor", s.spec.Name, "child", c.id, "reason", reason)
		}
		return
	}
	if s.gaveUp {
		c.dead, c.last = true, reason
		return
	}
	if s.starting == c {
		if r := c.incarnation.startReport.Load(); r != nil { // it has reported, but the message is not yet handled
			s.noteStart(c, r.err)
			if r.err != nil || c.toStop || s.ending {
				return
			}
		} else {
			s.noteStart(c, reason)
			return
		}
	}
	s.judge(c, reason, false)
}

// judge decides whether a child that has ended is restarted.
func (s *supervisor) judge(c *childState, reason error, starting bool) {
	well := !starting && endedWell(reason, c.tree != nil)
	f := Failure{Child: c.id, At: time.Now(), Starting: starting, Reason: reason}
	if !starting {
		f.Up = time.Since(c.since)
	}
	c.last, c.since, c.up = reason, time.Now(), false
	directive := AsDeclared
	if !well || c.child.Restart == Permanent {
		s.log.Error("a child ended", "supervisor", s.spec.Name, "child", c.id, "restart", c.child.Restart, "reason", reason)
	}
	if !endedWell(reason, false) {
		var err error
		if directive, err = s.decide(c, reason); err != nil {
			reason = errors.Join(reason, err)
			f.Reason = reason
		}
	}
	again := c.child.Restart == Permanent || starting || c.child.Restart == Transient && !well
	switch {
	case directive == DoEscalate:
		f.Tried = "the decider escalated"
		s.restarts = s.spec.Intensity.recent(s.restarts, f.At)
		s.giveUp(c, f, len(s.restarts))
	case directive == DoStop, directive == AsDeclared && !again:
		s.stayDown(c)
		s.autoShutdown(c, reason)
	default:
		s.restartChild(c, f)
	}
}

// decide calls the decider.
func (s *supervisor) decide(c *childState, reason error) (d Directive, err error) {
	if s.spec.Decide == nil {
		return AsDeclared, nil
	}
	err = guarded("decider", func() error {
		d = s.spec.Decide(c.id, reason)
		return nil
	})
	if err == nil && d > DoEscalate {
		err = fmt.Errorf("decider: no such directive: %v", d)
	}
	if err != nil {
		return DoEscalate, err
	}
	return d, nil
}

// restartChild restarts a child, with the children that the strategy names, or
// gives up.
func (s *supervisor) restartChild(c *childState, f Failure) {
	now := time.Now()
	var many bool
	if s.restarts, many = s.spec.Intensity.add(s.restarts, now); many {
		f.Tried = "one restart too many"
		s.giveUp(c, f, len(s.restarts)-1)
		return
	}
	if f.Up >= s.spec.Backoff.calm() {
		c.streak = 0
	}
	c.streak++
	pause := s.spec.Backoff.pause(int(c.streak), rand.Float64())
	f.Tried = "restarted at once"
	if pause > 0 {
		f.Tried = fmt.Sprintf("restarted after %v", pause)
	}
	s.story = remember(s.story, f)
	s.notify(func() {
		if s.spec.Restarted != nil {
			s.spec.Restarted(c.id, f.Reason)
		}
	})
	s.markAffected(c)
	if pause > 0 {
		c.after = now.Add(pause)
		self, root := s.self, s.tree.system.Root
		c.pause = time.AfterFunc(pause, func() { root.Send(self, wake{}) })
	}
}

// markAffected marks the children that are stopped and started together with c.
// Temporary children are not started again. Neither is a child that is being
// terminated, because a caller asked for it to be down.
func (s *supervisor) markAffected(c *childState) {
	from, to := s.spec.Strategy.affected(slices.Index(s.children, c), len(s.children))
	for _, o := range slices.Clone(s.children[from:to]) {
		if s.starting == o { // its answer no longer matters
			s.starting = nil
			o.stopLimit()
			o.held = true
		}
		if o != c && o.child.Restart == Temporary {
			s.stayDown(o)
			continue
		}
		o.toStop = o.pid != nil
		o.toStart = o.stopRequest == nil
	}
}

// giveUp ends the supervisor because of a child's failure, or leaves that to
// the user if there is a GaveUp hook. The supervisor made that many restarts
// within the period before.
func (s *supervisor) giveUp(c *childState, f Failure, made int) {
	s.story = remember(s.story, f)
	e := &EscalationError{
		Supervisor: s.spec.Name, Child: c.id, Restarts: made, Within: s.spec.Intensity.Within,
		Reason: f.Reason, Strategy: s.spec.Strategy, Failures: s.story,
	}
	if !s.up {
		s.broken = e
		s.result = e
		s.finish()
		return
	}
	s.log.Error("a supervisor gave up", "supervisor", s.spec.Name, "child", c.id, "reason", e)
	s.result = e
	s.gaveUp = true
	c.dead = true
	s.notify(func() {
		if s.spec.GaveUp != nil {
			s.spec.GaveUp(e)
		}
	})
	if s.spec.GaveUp == nil || s.nested {
		s.finish()
		return
	}
	for _, o := range s.children {
		o.toStart = false
		o.stopPause()
	}
	s.refuseAll(ErrStopped)
}

// notify calls a hook. A crash of the hook does not affect the children.
func (s *supervisor) notify(hook func()) {
	err := guarded("hook", func() error {
		hook()
		return nil
	})
	if err != nil {
		s.log.Error("a hook crashed", "supervisor", s.spec.Name, "reason", err)
	}
}

// autoShutdown ends the supervisor if c is significant and the AutoShutdown
// says so.
func (s *supervisor) autoShutdown(c *childState, reason error) {
	if !c.child.Significant || s.spec.AutoShutdown == 0 {
		return
	}
	if s.spec.AutoShutdown == AllSignificant && slices.ContainsFunc(s.children, func(o *childState) bool {
		return o != c && o.child.Significant && (o.toStart || o.pid != nil && !o.toStop)
	}) {
		return
	}
	if s.nested || !endedWell(reason, c.tree != nil) {
		s.result = &ShutdownError{Supervisor: s.spec.Name, Child: c.id, Reason: reason}
	}
	if s.up {
		s.finish()
	} else {
		s.doomed = true // once all have been started
	}
}
