package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/act"
)

// order is what somebody wants of a supervisor.
type order uint8

const (
	add order = iota
	terminate
	restart
	remove
	look
)

// request asks a supervisor to do something, and for its answer.
type request struct {
	do     order
	child  Child  // to add
	id     string // of the others
	answer chan answer
	info   Info
}

type answer struct {
	id  string
	err error
}

// cancel tells that nobody waits for a request any more.
type cancel struct {
	r     *request
	cause error
}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (*request) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (cancel) IgnoreDeadLetterLogging() {}

// reply answers a request once, if there is one.
func (k *keeper) reply(r **request, id string, err error) {
	if *r == nil {
		return
	}
	if err != nil {
		id = ""
		err = fmt.Errorf("%s: %w", k.spec.Name, err)
	}
	(*r).answer <- answer{id, err}
	*r = nil
}

// asked hears a request. What changes the children waits until nobody is being
// started or stopped.
func (k *keeper) asked(ctx act.Context, r *request) {
	switch {
	case r.do == look:
		r.info = k.info()
		r.answer <- answer{}
	case k.ending || k.gaveUp:
		k.reply(&r, "", ErrStopped)
	default:
		k.queue = append(k.queue, r)
		k.step(ctx)
	}
}

// refuse answers all requests that will not be followed.
func (k *keeper) refuse(err error) {
	for _, r := range k.queue {
		k.reply(&r, "", err)
	}
	k.queue = nil
	for _, c := range k.kids {
		k.reply(&c.waits, c.id, err)
		if c.pid == nil || !c.going {
			k.reply(&c.parts, c.id, err)
		}
	}
}

// cancelled forgets a request, whatever has become of it.
func (k *keeper) cancelled(ctx act.Context, m cancel) {
	if i := slices.Index(k.queue, m.r); i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
		k.reply(&m.r, "", m.cause)
		return
	}
	i := slices.IndexFunc(k.kids, func(c *kid) bool { return c.waits == m.r })
	if i < 0 {
		return // it has been answered, or is being seen to and cannot be taken back
	}
	if c := k.kids[i]; c == k.starting {
		k.answered(c, m.cause)
	} else { // it is held up by others
		k.cannot(c, m.cause)
	}
	k.step(ctx)
}

// serve follows the next request and reports whether there was one.
func (k *keeper) serve() bool {
	if len(k.queue) == 0 {
		return false
	}
	r := k.queue[0]
	k.queue = slices.Delete(k.queue, 0, 1)
	if err := k.follow(r); err != nil {
		k.reply(&r, "", err)
	}
	return true
}

// follow begins to do what is asked for.
func (k *keeper) follow(r *request) error {
	if r.do == add {
		return k.add(r)
	}
	simple := k.spec.Strategy == SimpleOneForOne
	if simple && r.do != terminate {
		return fmt.Errorf("%q: %w", r.id, ErrSimple)
	}
	i := slices.IndexFunc(k.kids, func(c *kid) bool { return c.id == r.id })
	if i < 0 {
		return fmt.Errorf("%q: %w", r.id, ErrNotFound)
	}
	c := k.kids[i]
	if r.do == terminate {
		c.parts = r
		k.leave(c)
		return nil
	}
	switch {
	case c.pid != nil:
		return fmt.Errorf("%q: %w", r.id, ErrRunning)
	case c.due:
		return fmt.Errorf("%q: %w", r.id, ErrRestarting)
	case r.do == restart:
		c.due, c.waits, c.since = true, r, time.Now()
	default:
		c.drop, c.parts = true, r
		k.parted(c)
	}
	return nil
}

// add takes a child in.
func (k *keeper) add(r *request) error {
	if err := k.spec.checkChild(&r.child, "the child to add"); err != nil {
		return err
	}
	child := r.child
	c := &kid{child: &child, id: child.Name, due: true, waits: r, since: time.Now()}
	if k.spec.Strategy == SimpleOneForOne {
		k.hired++
		c.id = fmt.Sprintf("%s-%d", c.child.Name, k.hired)
	} else if i := slices.IndexFunc(k.kids, func(o *kid) bool { return o.id == c.id }); i >= 0 {
		if k.kids[i].pid != nil {
			return fmt.Errorf("%q: %w", c.id, ErrAlreadyStarted)
		}
		return fmt.Errorf("%q: %w", c.id, ErrAlreadyPresent)
	}
	if k.spec.Most > 0 && len(k.kids) >= k.spec.Most {
		return fmt.Errorf("%q: %w", c.id, ErrFull)
	}
	k.kids = append(k.kids, c)
	return nil
}
