package supervisor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// leave lets a child be down.
func (k *keeper) leave(c *kid) {
	c.due = false
	c.drop = c.drop || c.child.Restart == Temporary || k.spec.Strategy == SimpleOneForOne
	c.stopPause()
	if c.pid != nil {
		c.going = true
		return
	}
	k.parted(c)
}

// parted settles what waited for a child to be gone.
func (k *keeper) parted(c *kid) {
	c.since = time.Now()
	err := c.partErr
	c.partErr = nil
	k.reply(&c.parts, c.id, err)
	if k.ending {
		return
	}
	k.reply(&c.waits, c.id, ErrShutdown) // it went before it was up
	if c.drop {
		k.kids = slices.DeleteFunc(k.kids, func(o *kid) bool { return o == c })
	}
}

// failed hears that a child has ended or failed by itself.
func (k *keeper) failed(c *kid, reason error) {
	if c.going || k.ending { // it is stopped anyway
		c.going = c.pid != nil
		if !endedWell(reason, c.tree != nil) {
			c.last = reason
			k.log.Warn("a child failed while it was to stop", "supervisor", k.spec.Name, "child", c.id, "reason", reason)
		}
		return
	}
	if k.gaveUp {
		c.dead, c.last = true, reason
		return
	}
	if k.starting == c {
		if said := c.birth.said.Load(); said != nil { // its word is on its way
			k.answered(c, said.err)
			if said.err != nil || c.going || k.ending {
				return
			}
		} else {
			k.answered(c, reason)
			return
		}
	}
	k.judge(c, reason, false)
}

// judge decides what follows from a child's end.
func (k *keeper) judge(c *kid, reason error, starting bool) {
	well := !starting && endedWell(reason, c.tree != nil)
	f := Failure{Child: c.id, At: time.Now(), Starting: starting, Reason: reason}
	if !starting {
		f.Up = time.Since(c.since)
	}
	c.last, c.since, c.up = reason, time.Now(), false
	directive := AsDeclared
	if !well || c.child.Restart == Permanent {
		k.log.Error("a child ended", "supervisor", k.spec.Name, "child", c.id, "restart", c.child.Restart, "reason", reason)
	}
	if !endedWell(reason, false) {
		var err error
		if directive, err = k.decide(c, reason); err != nil {
			reason = errors.Join(reason, err)
			f.Reason = reason
		}
	}
	again := c.child.Restart == Permanent || starting || c.child.Restart == Transient && !well
	switch {
	case directive == DoEscalate:
		f.Tried = "the decider escalated"
		k.restarts = k.spec.Intensity.recent(k.restarts, f.At)
		k.giveUp(c, f, len(k.restarts))
	case directive == DoStop, directive == AsDeclared && !again:
		k.leave(c)
		k.autoShutdown(c, reason)
	default:
		k.restart(c, f)
	}
}

// decide asks the decider.
func (k *keeper) decide(c *kid, reason error) (d Directive, err error) {
	if k.spec.Decide == nil {
		return AsDeclared, nil
	}
	err = guarded("decider", func() error {
		d = k.spec.Decide(c.id, reason)
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

// restart starts a child afresh, with those that the strategy says, or gives up.
func (k *keeper) restart(c *kid, f Failure) {
	now := time.Now()
	var many bool
	if k.restarts, many = k.spec.Intensity.add(k.restarts, now); many {
		f.Tried = "one restart too many"
		k.giveUp(c, f, len(k.restarts)-1)
		return
	}
	if f.Up >= k.spec.Backoff.calm() {
		c.streak = 0
	}
	c.streak++
	pause := k.spec.Backoff.pause(int(c.streak), rand.Float64())
	f.Tried = "restarted at once"
	if pause > 0 {
		f.Tried = fmt.Sprintf("restarted after %v", pause)
	}
	k.story = remember(k.story, f)
	k.notify(func() {
		if k.spec.Restarted != nil {
			k.spec.Restarted(c.id, f.Reason)
		}
	})
	k.affect(c)
	if pause > 0 {
		c.after = now.Add(pause)
		self, root := k.self, k.tree.system.Root
		c.pause = time.AfterFunc(pause, func() { root.Send(self, wake{}) })
	}
}

// affect marks those who are stopped and started with a child. Temporary ones are
// not started again, nor is one that is being terminated: that it is down was asked for.
func (k *keeper) affect(c *kid) {
	from, to := k.spec.Strategy.affected(slices.Index(k.kids, c), len(k.kids))
	for _, o := range slices.Clone(k.kids[from:to]) {
		if k.starting == o { // whatever it says now
			k.starting = nil
			o.stopLimit()
			o.held = true
		}
		if o != c && o.child.Restart == Temporary {
			k.leave(o)
			continue
		}
		o.going = o.pid != nil
		o.due = o.parts == nil
	}
}

// giveUp ends the supervisor because of a child, or has the user do so. So many restarts
// were made within the period before.
func (k *keeper) giveUp(c *kid, f Failure, made int) {
	k.story = remember(k.story, f)
	e := &EscalationError{
		Supervisor: k.spec.Name, Child: c.id, Restarts: made, Within: k.spec.Intensity.Within,
		Reason: f.Reason, Strategy: k.spec.Strategy, Failures: k.story,
	}
	if !k.up {
		k.broken = e
		k.result = e
		k.finish()
		return
	}
	k.log.Error("a supervisor gave up", "supervisor", k.spec.Name, "child", c.id, "reason", e)
	k.result = e
	k.gaveUp = true
	c.dead = true
	k.notify(func() {
		if k.spec.GaveUp != nil {
			k.spec.GaveUp(e)
		}
	})
	if k.spec.GaveUp == nil || k.nested {
		k.finish()
		return
	}
	for _, o := range k.kids {
		o.due = false
		o.stopPause()
	}
	k.refuse(ErrStopped)
}

// notify tells a hook, whose crash is no affair of the children's.
func (k *keeper) notify(hook func()) {
	err := guarded("hook", func() error {
		hook()
		return nil
	})
	if err != nil {
		k.log.Error("a hook crashed", "supervisor", k.spec.Name, "reason", err)
	}
}

// autoShutdown ends the supervisor if the last significant child has ended.
func (k *keeper) autoShutdown(c *kid, reason error) {
	if !c.child.Significant || k.spec.AutoShutdown == Never {
		return
	}
	if k.spec.AutoShutdown == AllSignificant && slices.ContainsFunc(k.kids, func(o *kid) bool {
		return o != c && o.child.Significant && (o.due || o.pid != nil && !o.going)
	}) {
		return
	}
	if k.nested || !endedWell(reason, c.tree != nil) {
		k.result = &ShutdownError{Supervisor: k.spec.Name, Child: c.id, Reason: reason}
	}
	if k.up {
		k.finish()
	} else {
		k.doomed = true // once all have been started
	}
}
