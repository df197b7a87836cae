package transaction

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/golda-dev/golda/coordination/guard"
)

// Event is a pattern of requests: the requests of a method of a process for
// which If is true or nil.
type Event struct {
	Process, Method string
	If              func(guard.Request) bool
}

// atomicRule makes events happen together or not at all. It locks the processes
// in order, without waiting: if one refuses, it gives back the locks that it
// has.
type atomicRule struct {
	name   string
	events []Event     // by process, in order
	offers [][]Message // by event, the matching offers, oldest first
	trying bool
	tried  bool // processes may have a booking of it
	lock   ID   // the attempt
	locked int
	age    ID // since when it could happen, by the logical clocks of its processes; zero if it cannot
}

// Together adds an atomic rule: requests that match the events run together, or
// wait. It fails if there are fewer than two events, or two of one process. The
// methods of the events must have no constraints, and triggers at acceptance
// only of this synchronizer: see [Process.Conflicts].
func (s *Synchronizer) Together(events ...Event) error {
	if len(events) < 2 {
		return fmt.Errorf("synchronizer %q: an atomic rule of %d events: it needs two", s.self, len(events))
	}
	seen := set{}
	for _, e := range events {
		if _, ok := seen[e.Process]; ok {
			return fmt.Errorf("synchronizer %q: an atomic rule has two events of process %q", s.self, e.Process)
		}
		seen[e.Process] = struct{}{}
	}
	a := &atomicRule{name: fmt.Sprintf("%s/%d", s.self, len(s.atomic)), events: slices.Clone(events)}
	slices.SortFunc(a.events, func(x, y Event) int { return cmp.Compare(x.Process, y.Process) })
	a.offers = make([][]Message, len(events))
	for _, e := range events {
		s.rule(e.Process, e.Method).atomic = true
	}
	s.atomic = append(s.atomic, a)
	return nil
}

// offered handles a request that waits.
func (s *Synchronizer) offered(m Message) {
	mine := false
	for _, a := range s.atomic {
		for i, e := range a.events {
			if e.Process == m.From && e.Method == m.Request.Method && (e.If == nil || e.If(m.Request)) {
				mine = true
				a.offers[i] = append(a.offers[i], m)
			}
		}
	}
	if !mine {
		s.send(Message{Kind: NotMine, To: m.From, ID: m.ID, Number: m.Number})
		return
	}
	s.attemptAll()
}

func (s *Synchronizer) attemptAll() {
	for _, a := range s.atomic {
		s.attempt(a)
	}
}

// attempt begins to lock the processes of a rule, if each has a request for it.
func (s *Synchronizer) attempt(a *atomicRule) {
	if a.trying || len(s.fetching) > 0 || slices.ContainsFunc(a.offers, func(o []Message) bool { return len(o) == 0 }) {
		return
	}
	s.locks++
	a.trying, a.tried, a.locked = true, true, 0
	a.lock = ID{Counter: s.locks, Process: s.self, Incarnation: s.epoch}
	if a.age == (ID{}) {
		a.age.Process = a.name
		for _, offers := range a.offers {
			a.age.Counter = max(a.age.Counter, offers[0].Age.Counter)
		}
	}
	s.lockNext(a)
}

func (s *Synchronizer) lockNext(a *atomicRule) {
	o := a.offers[a.locked][0]
	s.send(Message{Kind: Lock, To: o.From, ID: o.ID, Number: o.Number, Rule: a.name, Grant: a.lock, Age: a.age})
}

// granted locks the next process, or lets all requests run.
func (s *Synchronizer) granted(m Message) {
	a := s.trying(m)
	if a == nil {
		return
	}
	a.offers[a.locked][0].Counters = m.Counters
	if a.locked++; a.locked < len(a.events) {
		s.lockNext(a)
		return
	}
	a.trying, a.tried, a.age = false, false, ID{}
	s.done = remember(s.done, a.lock)
	var happened []Message
	for i, offers := range a.offers {
		happened = append(happened, offers[0])
		a.offers[i] = offers[1:]
	}
	for _, o := range happened {
		s.send(Message{Kind: Do, To: o.From, ID: o.ID, Number: o.Number, Rule: a.name, Grant: a.lock})
	}
	for _, o := range happened {
		s.withdraw(o.From, o.Number)
	}
	s.change(func() {
		for _, o := range happened {
			p := s.processes[o.From]
			p.learn(o.Counters)
			p.told(o.Request.Method)
		}
		for _, o := range happened {
			for _, trigger := range s.rules[method{o.From, o.Request.Method}].accepted {
				trigger(o.Request)
			}
		}
	})
	s.attempt(a)
}

// refusedLock gives back the locks that a rule has. The process that refused
// says when it is worth another attempt.
func (s *Synchronizer) refusedLock(m Message) {
	if a := s.trying(m); a != nil {
		s.giveUp(a, true)
	}
}

// giveUp ends an attempt.
func (s *Synchronizer) giveUp(a *atomicRule, again bool) {
	for i, e := range a.events {
		if (!again || i < a.locked) && !s.processes[e.Process].down {
			s.unlock(a, e.Process, again)
		}
	}
	a.trying, a.tried = false, again
	if !again {
		a.age = ID{}
	}
}

func (s *Synchronizer) unlock(a *atomicRule, process string, keep bool) {
	id := ID{Process: process, Incarnation: s.processes[process].incarnation}
	s.send(Message{Kind: Unlock, To: process, ID: id, Rule: a.name, Grant: a.lock, Keep: keep})
}

func (s *Synchronizer) ready(m Message) {
	for _, a := range s.atomic {
		if a.name == m.Rule {
			s.attempt(a)
		}
	}
}

// trying returns the rule whose present attempt a message is about, or nil.
func (s *Synchronizer) trying(m Message) *atomicRule {
	for _, a := range s.atomic {
		if a.trying && a.lock == m.Grant && a.events[a.locked].Process == m.From {
			return a
		}
	}
	return nil
}

// withdraw drops a request from all rules. A rule that it was the next request
// of starts again.
func (s *Synchronizer) withdraw(process string, number uint64) {
	s.dropOffers(func(o Message) bool { return o.From == process && o.Number == number })
}

// forgetOffers drops all requests of a process.
func (s *Synchronizer) forgetOffers(process string) {
	s.dropOffers(func(o Message) bool { return o.From == process })
}

func (s *Synchronizer) dropOffers(of func(Message) bool) {
	for _, a := range s.atomic {
		next := false
		for i, offers := range a.offers {
			next = next || len(offers) > 0 && of(offers[0])
			a.offers[i] = slices.DeleteFunc(offers, of)
		}
		if next && a.tried {
			s.giveUp(a, false)
			s.attempt(a)
		}
	}
}

// resolve handles the lock that a process had granted when it last heard of
// this synchronizer, or of a previous one. If the rule has run at other
// processes, it runs here too; if it has run nowhere, the lock is released.
func (s *Synchronizer) resolve(m Message) {
	s.doneOf[m.From] = m.Done
	delete(s.grants, m.From) // of an incarnation before this one
	if m.Grant != (ID{}) && !s.text.forgetsGrants {
		s.grants[m.From] = left{m.Grant, m.Request.Method}
	}
	s.resolveAll()
}

func (s *Synchronizer) resolveAll() {
	if len(s.fetching) > 0 {
		return
	}
	for _, process := range slices.Sorted(maps.Keys(s.grants)) {
		l, p := s.grants[process], s.processes[process]
		delete(s.grants, process)
		if p.down {
			continue
		}
		kind := Unlock
		did := func(done []ID) bool { return slices.Contains(done, l.grant) }
		if did(s.done) || slices.ContainsFunc(slices.Collect(maps.Values(s.doneOf)), did) {
			kind = Do
			s.changes = append(s.changes, func() { p.told(l.method) })
		}
		id := ID{Process: process, Incarnation: p.incarnation}
		s.send(Message{Kind: kind, To: process, ID: id, Grant: l.grant})
	}
	s.attemptAll()
}
