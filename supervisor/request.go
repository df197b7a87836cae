package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/actor"
)

// order is the kind of a request.
type order uint8

const (
	add order = iota
	terminate
	restart
	remove
	inspect
)

// request asks a supervisor to do something, and for its answer.
type request struct {
	do     order
	child  Child  // the child to add
	id     string // the child of all other orders
	answer chan answer
	info   Info
}

type answer struct {
	id  string
	err error
}

// cancel notifies the supervisor that the caller no longer waits for a request.
type cancel struct {
	r     *request
	cause error
}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (*request) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (cancel) IgnoreDeadLetterLogging() {}

// reply answers a request once, if there is one.
func (s *supervisor) reply(r **request, id string, err error) {
	if *r == nil {
		return
	}
	if err != nil {
		id = ""
		err = fmt.Errorf("%s: %w", s.spec.Name, err)
	}
	(*r).answer <- answer{id, err}
	*r = nil
}

// handleRequest handles a request. Requests that change the children are queued
// until no child is being started or stopped.
func (s *supervisor) handleRequest(ctx actor.Context, r *request) {
	switch {
	case r.do == inspect:
		r.info = s.info()
		r.answer <- answer{}
	case s.ending || s.gaveUp:
		s.reply(&r, "", ErrStopped)
	default:
		s.queue = append(s.queue, r)
		s.step(ctx)
	}
}

// refuseAll answers all waiting requests with an error.
func (s *supervisor) refuseAll(err error) {
	for _, r := range s.queue {
		s.reply(&r, "", err)
	}
	s.queue = nil
	for _, c := range s.children {
		s.reply(&c.startRequest, c.id, err)
		if c.pid == nil || !c.toStop {
			s.reply(&c.stopRequest, c.id, err)
		}
	}
}

// handleCancel takes a request back if it has not been completed.
func (s *supervisor) handleCancel(ctx actor.Context, m cancel) {
	if i := slices.Index(s.queue, m.r); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		s.reply(&m.r, "", m.cause)
		return
	}
	i := slices.IndexFunc(s.children, func(c *childState) bool { return c.startRequest == m.r })
	if i < 0 {
		return // it has been answered, or is being performed and cannot be taken back
	}
	if c := s.children[i]; c == s.starting {
		s.noteStart(c, m.cause)
	} else { // its start waits for other children
		s.startFailed(c, m.cause)
	}
	s.step(ctx)
}

// performNext performs the next request and reports whether there was one.
func (s *supervisor) performNext() bool {
	if len(s.queue) == 0 {
		return false
	}
	r := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	if err := s.perform(r); err != nil {
		s.reply(&r, "", err)
	}
	return true
}

// perform starts the work that a request asks for.
func (s *supervisor) perform(r *request) error {
	if r.do == add {
		return s.add(r)
	}
	simple := s.spec.Strategy == SimpleOneForOne
	if simple && r.do != terminate {
		return fmt.Errorf("%q: %w", r.id, errSimple)
	}
	i := slices.IndexFunc(s.children, func(c *childState) bool { return c.id == r.id })
	if i < 0 {
		return fmt.Errorf("%q: %w", r.id, ErrNotFound)
	}
	c := s.children[i]
	if r.do == terminate {
		c.stopRequest = r
		s.stayDown(c)
		return nil
	}
	switch {
	case c.pid != nil:
		return fmt.Errorf("%q: %w", r.id, ErrRunning)
	case c.toStart:
		return fmt.Errorf("%q: %w", r.id, ErrRestarting)
	case r.do == restart:
		c.toStart, c.startRequest, c.since = true, r, time.Now()
	default:
		c.toForget, c.stopRequest = true, r
		s.forgetOrKeep(c)
	}
	return nil
}

// add adds a child.
func (s *supervisor) add(r *request) error {
	if err := s.spec.checkChild(&r.child, "the child to add"); err != nil {
		return err
	}
	child := r.child
	c := &childState{child: &child, id: child.Name, toStart: true, startRequest: r, since: time.Now()}
	if s.spec.Strategy == SimpleOneForOne {
		s.numbered++
		c.id = fmt.Sprintf("%s-%d", c.child.Name, s.numbered)
	} else if i := slices.IndexFunc(s.children, func(o *childState) bool { return o.id == c.id }); i >= 0 {
		if s.children[i].pid != nil {
			return fmt.Errorf("%q: %w", c.id, ErrAlreadyStarted)
		}
		return fmt.Errorf("%q: %w", c.id, ErrAlreadyPresent)
	}
	if s.spec.Most > 0 && len(s.children) >= s.spec.Most {
		return fmt.Errorf("%q: %w", c.id, ErrFull)
	}
	s.children = append(s.children, c)
	return nil
}
