package transaction

import (
	"slices"

	"github.com/golda-dev/golda/internal/requests"
)

// offer is a request that waits and whose method has atomic rules.
type offer struct {
	request *requests.Request
	stamp   uint64   // the time of its arrival, by the logical clock
	free    []string // the synchronizers that have no rule for it
}

// grant is the lock of a process, in the hands of an atomic rule.
type grant struct {
	by      string // the synchronizer
	rule    string
	id      ID
	age     ID
	request *requests.Request

	withdrawn bool // its caller has given up
	again     bool // the request was offered again after it was granted
}

// booking is a reservation. It remains when a lock was refused, or was given
// back because another process has refused: younger rules have to wait.
type booking struct {
	grant

	reminded bool // the synchronizer knows that the request can run
}

// offer offers a request to the synchronizers that have atomic rules for its
// method.
func (p *Process) offer(r *requests.Request, to []string) {
	p.clock++
	o := &offer{request: r, stamp: p.clock}
	p.offered[r.Number()] = o
	for _, s := range to {
		p.sendOffer(s, o)
	}
}

func (p *Process) sendOffer(s string, o *offer) {
	if !p.synchronizers[s].down {
		r := o.request
		p.send(Message{Kind: Offer, To: s, Request: r.Request, Number: r.Number(), Age: ID{Counter: o.stamp}})
	}
}

// offerAgain offers the waiting requests to a synchronizer that has installed
// its rules, in the order of arrival.
func (p *Process) offerAgain(s string) {
	p.queue.Waiting(func(r *requests.Request) bool {
		if !slices.Contains(p.offeredTo[r.Method], s) || slices.Contains(p.due, r) {
			return true
		}
		o := p.offered[r.Number()]
		if o == nil {
			o = &offer{request: r, stamp: p.clock}
			p.offered[r.Number()] = o
		}
		o.free = slices.DeleteFunc(o.free, func(by string) bool { return by == s })
		p.sendOffer(s, o)
		if g := p.left[s]; g != nil && g.request == r {
			g.again = true
		}
		return true
	})
}

// notMine handles that a synchronizer has no rule for a request.
func (p *Process) notMine(m Message) {
	if o := p.offered[m.Number]; o != nil && !slices.Contains(o.free, m.From) {
		o.free = append(o.free, m.From)
	}
}

// isFree reports whether no synchronizer has an atomic rule for a request.
func (p *Process) isFree(r *requests.Request) bool {
	o := p.offered[r.Number()]
	return o != nil && !slices.ContainsFunc(p.offeredTo[r.Method], func(s string) bool { return !slices.Contains(o.free, s) })
}

// unoffer withdraws a request from all synchronizers but one.
func (p *Process) unoffer(r *requests.Request, but string) {
	if p.offered[r.Number()] == nil {
		return
	}
	delete(p.offered, r.Number())
	p.booked = slices.DeleteFunc(p.booked, func(b *booking) bool { return b.request == r })
	for _, s := range p.offeredTo[r.Method] {
		if s != but && !p.synchronizers[s].down {
			p.send(Message{Kind: Withdraw, To: s, Number: r.Number()})
		}
	}
}

// lock grants a rule the lock if its request can run now, and no older rule
// waits whose request of the same method can.
func (p *Process) lock(m Message) {
	p.clock = max(p.clock, m.Age.Counter)
	o := p.offered[m.Number]
	if o == nil {
		return // it was withdrawn, and the synchronizer will hear of that
	}
	g := grant{by: m.From, rule: m.Rule, id: m.Grant, age: m.Age, request: o.request}
	p.unbook(m.Rule)
	if !p.canGrant(g) {
		p.booked = append(p.booked, &booking{grant: g})
		p.answer(Refused, g)
		return
	}
	p.granted = &g
	p.answer(Granted, g)
}

// canGrant reports whether a lock can be granted now.
func (p *Process) canGrant(g grant) bool {
	m := g.request.Method
	return p.granted == nil && !p.isLeft(m) && len(p.asked[m]) == 0 && p.queue.Holds(g.request) && !p.older(g)
}

func (p *Process) older(g grant) bool {
	return !p.text.ignoresAge && slices.ContainsFunc(p.booked, func(b *booking) bool {
		return b.request.Method == g.request.Method && b.age.Before(g.age) && p.queue.Holds(b.request)
	})
}

// do has the request run that has the lock. Others of its rule may run already,
// so it is not given up any more.
func (p *Process) do(m Message) {
	g := p.end(m)
	if g == nil {
		return
	}
	l := p.synchronizers[g.by]
	l.done = remember(l.done, g.id)
	p.due = append(p.due, g.request)
	if g.again {
		p.unoffer(g.request, "")
	} else {
		p.unoffer(g.request, g.by) // it knows
	}
}

// nextDue accepts the first request that is due and whose guards hold, or
// returns nil. They held when the lock was granted, but a function that was
// suspended may have changed the state, and so may methods that a left lock
// does not hold.
func (p *Process) nextDue() *requests.Request {
	if p.granted != nil {
		return nil
	}
	for i, r := range p.due {
		if p.text.trustsGuards || p.queue.Holds(r) {
			p.due = slices.Delete(p.due, i, i+1)
			p.queue.Accept(r)
			return r
		}
	}
	return nil
}

// unlock gives up the lock, or the booking. A rule that will try again keeps
// its place.
func (p *Process) unlock(m Message) {
	p.unbook(m.Rule)
	g := p.end(m)
	switch {
	case g == nil:
	case g.withdrawn:
		p.Withdraw(g.request)
	case m.Keep:
		p.booked = append(p.booked, &booking{grant: *g, reminded: true})
	}
}

// end ends the lock that a message is about, and returns it, or nil if there is
// none.
func (p *Process) end(m Message) *grant {
	if g := p.granted; g != nil && g.id == m.Grant {
		p.granted = nil
		return g
	}
	if g := p.left[m.From]; g != nil && g.id == m.Grant {
		delete(p.left, m.From)
		return g
	}
	return nil
}

// leave handles a synchronizer that has died or begins anew: its lock stays
// until it, or its successor, knows the fate of the lock. Meanwhile the lock
// holds the methods of that synchronizer, and the process may grant another
// one.
func (p *Process) leave(synchronizer string) {
	if g := p.granted; g != nil && g.by == synchronizer && !p.text.leavesAllHeld {
		p.granted, p.left[synchronizer] = nil, g
	}
}

// isLeft reports whether a lock that was left holds a method. It holds its
// request's in any case: the synchronizer may have other rules now.
func (p *Process) isLeft(method string) bool {
	for s, g := range p.left {
		if g.request.Method == method || p.synchronizers[s].methods[method] != (Part{}) {
			return true
		}
	}
	return false
}

// grantFor returns the lock that a rule has for a request, or nil.
func (p *Process) grantFor(r *requests.Request) *grant {
	if g := p.granted; g != nil && g.request == r {
		return g
	}
	for _, g := range p.left {
		if g.request == r {
			return g
		}
	}
	return nil
}

func (p *Process) unbook(rule string) {
	p.booked = slices.DeleteFunc(p.booked, func(b *booking) bool { return b.rule == rule })
}

// remind notifies rules whose lock was refused that their requests can run now.
func (p *Process) remind() {
	for _, b := range p.booked {
		if !b.reminded && p.canGrant(b.grant) {
			b.reminded = true
			p.answer(Ready, b.grant)
		}
	}
}

func (p *Process) answer(kind Kind, g grant) {
	m := Message{Kind: kind, To: g.by, Rule: g.rule, Grant: g.id, Number: g.request.Number()}
	if kind == Granted {
		m.Counters = p.counters(g.request.Method)
	}
	p.send(m)
}

// remember adds an attempt to the last ones.
func remember(done []ID, id ID) []ID {
	if len(done) == remembered {
		done = slices.Delete(done, 0, 1)
	}
	return append(done, id)
}
