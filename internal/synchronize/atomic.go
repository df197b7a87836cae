package synchronize

import (
	"errors"
	"slices"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/rules"
)

// together is an atomic rule.
type together struct {
	of     *rules.Rules
	label  string
	events []*Event
	since  uint64 // when each event had a request that waits; 0: not all have
	void   bool   // a member is gone
}

// Event is a pattern of an atomic rule.
type Event struct {
	rule    *together
	m       *Member
	method  *method
	pattern rules.Event
	waiting bool // a request waits, which guards may hold back
	offer   *offer
}

type offer struct {
	key     any
	request guard.Request
}

// Grant is a request that an atomic rule has allowed to be given out. It is counted already.
type Grant struct {
	Key any   // what it was offered with
	Err error // a trigger did not return
}

func (b *Board) addAtomic(of *rules.Rules, events []rules.Event) {
	rule := &together{of: of, label: label(of, "Atomic")}
	for _, e := range events {
		m := b.member(e.Of)
		at := m.method(e.Name)
		event := &Event{rule: rule, m: m, method: at, pattern: e}
		rule.events = append(rule.events, event)
		at.events, m.events = append(at.events, event), append(m.events, event)
		at.patterns, at.sees = at.patterns || e.If != nil, at.sees || e.If != nil
	}
	b.atomic = append(b.atomic, rule)
}

// Offers reports whether atomic rules have events of the member. It does not need the lock.
func (m *Member) Offers() bool { return len(m.events) > 0 }

// together returns the atomic rule that all requests of a method wait for; "" if there is none.
func (at *method) together() string {
	for _, e := range at.events {
		if !e.rule.void {
			return e.rule.label
		}
	}
	return ""
}

// Together returns the atomic rule that a request with events waits for; "" if there is none.
func Together(events []*Event) string {
	for _, e := range events {
		if !e.rule.void {
			return e.rule.label
		}
	}
	return ""
}

// Patterned reports whether requests of a method may differ in the events that they are of.
func (m *Member) Patterned(name string) bool {
	at := m.methods[name]
	return at != nil && at.patterns
}

// Events returns the events that a request is of. It calls user code; the error is that it has not returned.
func (m *Member) Events(r guard.Request) (events []*Event, err error) {
	at := m.methods[r.Method]
	if at == nil {
		return nil, nil
	}
	for _, e := range at.events {
		err = errors.Join(err, protect(e.rule.of, r, func() {
			if e.pattern.Matches(r) {
				events = append(events, e)
			}
		}))
	}
	return events, err
}

// EventMethods calls f for each method that has events.
func (m *Member) EventMethods(f func(name string)) {
	for i, e := range m.events {
		if !slices.ContainsFunc(m.events[:i], func(o *Event) bool { return o.method == e.method }) {
			f(e.method.name)
		}
	}
}

// Retract takes the offers of the member back, until it makes new ones: what its guards see has changed.
func (m *Member) Retract() {
	for _, e := range m.events {
		e.offer = nil
	}
}

// Offering begins anew with the offers of the member. Those that it does not make are those of requests that do not wait.
func (m *Member) Offering() {
	for _, e := range m.events {
		e.offer, e.waiting = nil, false
	}
}

// Wants reports whether an event needs a request that may run now, or else one that waits.
func (e *Event) Wants(allowed bool) bool {
	return !e.rule.void && e.offer == nil && (allowed || !e.waiting)
}

// Wants reports whether an event of a method does.
func (m *Member) Wants(name string, allowed bool) bool {
	return slices.ContainsFunc(m.methods[name].events, func(e *Event) bool { return e.Wants(allowed) })
}

// Wait notes that a request waits.
func (e *Event) Wait() { e.waiting = true }

// Offer offers a request that guards allow. The key is given back with the [Grant].
func (e *Event) Offer(key any, r guard.Request) { e.offer = &offer{key, r} }

// Offered has the rules happen that can, now that the member has made its offers.
func (m *Member) Offered() {
	b := m.board
	for _, rule := range b.atomic {
		rule.age(&b.clock)
	}
	for {
		var next *together
		for _, rule := range b.atomic {
			if rule.ready() && (next == nil || rule.since < next.since) && !b.olderThan(rule) {
				next = rule
			}
		}
		if next == nil {
			return
		}
		next.happen(m)
	}
}

// age notes since when a rule could happen, but for guards.
func (t *together) age(clock *uint64) {
	switch {
	case t.void || slices.ContainsFunc(t.events, func(e *Event) bool { return !e.waiting }):
		t.since = 0
	case t.since == 0:
		*clock++
		t.since = *clock
	}
}

// ready reports whether all events have an offer.
func (t *together) ready() bool {
	return !t.void && t.since > 0 && !slices.ContainsFunc(t.events, func(e *Event) bool { return e.offer == nil })
}

// olderThan reports whether an older rule could use an offer of the same method, and waits for others.
func (b *Board) olderThan(t *together) bool {
	for _, older := range b.atomic {
		if older == t || older.since == 0 || older.since >= t.since {
			continue
		}
		for _, e := range older.events {
			if e.offer != nil && slices.ContainsFunc(t.events, func(o *Event) bool { return o.method == e.method }) {
				return true
			}
		}
	}
	return false
}

// happen grants the requests of a rule. By is the member whose inbox pokes.
func (t *together) happen(by *Member) {
	t.since = 0
	offers := make([]*offer, len(t.events))
	for i, e := range t.events {
		offers[i], e.waiting = e.offer, false
		c := e.m.counters[e.method.name]
		c.Accepted++
		c.Current++
		c.Pending = max(c.Pending-1, 0)
		e.m.counters[e.method.name] = c
	}
	for i, e := range t.events {
		for _, other := range e.m.events {
			other.offer = nil
		}
		e.m.granted = &Grant{Key: offers[i].key}
		by.poke(e.m)
	}
	for i, e := range t.events {
		for _, p := range e.method.parts {
			e.m.granted.Err = errors.Join(e.m.granted.Err, protect(p.of, offers[i].request, func() { p.of.Accept(offers[i].request) }))
		}
		by.board.changed(e.method.parts)
	}
	by.board.next(by)
}

// Granted returns what was granted to the member, and forgets it; nil if nothing was.
func (m *Member) Granted() *Grant {
	g := m.granted
	m.granted = nil
	return g
}

// endAtomic ends the rules that need a member which is gone: requests of the others run by themselves.
func (m *Member) endAtomic(by *Member) {
	for _, e := range m.events {
		e.rule.void, e.rule.since = true, 0
		for _, o := range e.rule.events {
			o.offer, o.waiting = nil, false
			if o.m != m {
				by.poke(o.m)
			}
		}
	}
}
