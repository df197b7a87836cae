package line

import (
	"maps"
	"time"

	"github.com/golda-dev/golda/coordination/guard"
)

// Held returns how many commands wait whose guards hold them back, as far as is
// known.
func (q *guarded) Held() (n int) {
	q.queue.Methods(func(method string, c guard.Counters) {
		if p := q.profiles[method]; p != nil && p.held {
			n += c.Pending
		}
	})
	return n
}

// profile notes which methods are held back from now on, and which are not any
// more.
func (q *guarded) profile() {
	q.queue.Methods(func(method string, c guard.Counters) {
		held := c.Pending > 0 && q.queue.Shut(method)
		p := q.profiles[method]
		switch {
		case p == nil && !held, p != nil && p.held == held:
		case !held:
			p.add(q.now())
			p.held = false
		default:
			p = q.of(method)
			p.holds++
			p.held, p.since, p.others = true, q.now(), q.current()
		}
	})
}

// current returns the methods with commands that are current.
func (q *guarded) current() (methods []string) {
	q.queue.Methods(func(method string, c guard.Counters) {
		if c.Current > 0 {
			methods = append(methods, method)
		}
	})
	return methods
}

// add adds the time that a method has been held back.
func (p *guardProfile) add(now int64) {
	d := time.Duration(now - p.since)
	p.wait += d
	for _, method := range p.others {
		p.during[method] += d
	}
}

// Account accounts for the methods.
func (q *guarded) Account(now int64, all *Accounts) {
	all.Held = q.Held()
	q.queue.Methods(func(method string, c guard.Counters) {
		a := GuardAccounts{Method: method, Counters: c}
		if p := q.profiles[method]; p != nil {
			then := *p
			then.during = maps.Clone(p.during)
			if then.held {
				then.add(now)
			}
			a.Held, a.Holds, a.Wait = then.held, then.holds, then.wait
			a.Run = then.run + time.Duration(then.current)*time.Duration(now)
			a.During = then.during
		}
		all.Guards = append(all.Guards, a)
	})
}
