package synchronize

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/rules"
)

// Board has the synchronizers of one pipeline.
type Board struct {
	mu      sync.Mutex // guards all below, and the members
	all     []*rules.Rules
	members map[string]*Member
	refused []*refusal // first come, first served
	turn    *refusal   // its member looks next; nil: any may
	atomic  []*together
	clock   uint64
}

// Member is a stage as the synchronizers see it. Its methods are for its inbox, which holds its own lock, and has locked the Board with
// [Member.Lock] unless a method says otherwise.
type Member struct {
	// Poke has the inbox look again at what may be given out; set before the stage starts. It is called without locks.
	Poke func()

	board    *Board
	name     string
	gone     bool
	methods  map[string]*method
	counters map[string]guard.Counters
	looks    uint64
	events   []*Event
	granted  *Grant
	hasTurn  atomic.Bool
	pokes    []*Member // to be poked when the lock of this inbox is released
}

// method is a method that synchronizers name.
type method struct {
	name     string
	parts    []part
	events   []*Event
	asked    uint64 // the last look in which it was asked for
	sees     bool   // rules look at the requests
	checked  bool   // constraints do
	patterns bool   // atomic rules do
}

// part is what one synchronizer says of a method.
type part struct {
	of     *rules.Rules
	rule   *rules.Rule
	labels []string // of the checks
}

// refusal is that a synchronizer has refused a method.
type refusal struct {
	m      *Member
	method *method
	of     *rules.Rules
	seen   uint64 // the last look in which it was refused
	tried  bool   // it would be refused again: nothing has changed since
	asked  bool   // it has the turn, and its inbox is yet to be poked
}

// New returns a board with the rules of all synchronizers, which evaluates them from now on.
func New(all []*rules.Rules) *Board {
	b := &Board{all: all, members: map[string]*Member{}}
	for _, of := range all {
		of.Count = func(m rules.Method) guard.Counters { return b.countFor(of, m) }
		of.Gone = func(member string) bool { return b.members[member].gone }
		for m, rule := range of.Methods {
			at := b.member(m.Of).method(m.Name)
			at.add(of, rule)
		}
		for _, events := range of.Atomic {
			b.addAtomic(of, events)
		}
	}
	return b
}

func (b *Board) member(name string) *Member {
	m := b.members[name]
	if m == nil {
		m = &Member{Poke: func() {}, board: b, name: name, methods: map[string]*method{}, counters: map[string]guard.Counters{}}
		b.members[name] = m
	}
	return m
}

func (m *Member) method(name string) *method {
	at := m.methods[name]
	if at == nil {
		at = &method{name: name}
		m.methods[name] = at
	}
	return at
}

func (at *method) add(of *rules.Rules, rule *rules.Rule) {
	p := part{of: of, rule: rule}
	for _, c := range rule.Checks {
		p.labels = append(p.labels, label(of, c.Rule))
		at.checked = at.checked || !c.Counts
	}
	at.parts = append(at.parts, p)
	at.sees = at.sees || at.checked || len(p.rule.Accepted)+len(p.rule.Completed) > 0
}

// Member returns the member of a name; nil if no rule names it. It does not need the lock.
func (b *Board) Member(name string) *Member { return b.members[name] }

// Lock locks the board.
func (m *Member) Lock() { m.board.mu.Lock() }

// Unlock unlocks it.
func (m *Member) Unlock() { m.board.mu.Unlock() }

// Methods calls f for each method that has rules: whether constraints look at the requests, and whether any rule does. It does not need
// the lock.
func (m *Member) Methods(f func(name string, checked, sees bool)) {
	for name, at := range m.methods {
		f(name, at.checked, at.sees)
	}
}

// countFor returns the counters of a method for a rule of a synchronizer. Its rules are evaluated from then on when the counters change, as
// they are for methods that the synchronizer names. It panics if the stage is no member, since its inbox reports nothing.
func (b *Board) countFor(of *rules.Rules, m rules.Method) guard.Counters {
	member := b.members[m.Of]
	if member == nil {
		panic(fmt.Sprintf("it counts %q of %q, a stage that init does not name: call Count for it in init, too", m.Name, m.Of))
	}
	if of.Methods[m] == nil {
		at := member.method(m.Name)
		if !slices.ContainsFunc(at.parts, func(p part) bool { return p.of == of }) {
			at.add(of, &rules.Rule{})
		}
	}
	return member.counters[m.Name]
}

func (b *Board) count(m rules.Method) guard.Counters {
	if of := b.members[m.Of]; of != nil {
		return of.counters[m.Name]
	}
	return guard.Counters{}
}

// Look begins a look at what may be given out.
func (m *Member) Look() { m.looks++ }

// Looked ends the look. Waits reports whether requests of a method wait. A refusal that has the turn keeps its place until a request is
// given out: the turn may have to pass on.
func (m *Member) Looked(waits func(method string) bool) {
	m.board.refused = slices.DeleteFunc(m.board.refused, func(r *refusal) bool {
		allowed := r.method.asked == m.looks && r.seen != m.looks && r != m.board.turn
		return r.m == m && (allowed || !waits(r.method.name))
	})
}

// Closed returns the rule that holds back all requests of a method; "" if each is to be asked for.
func (m *Member) Closed(name string) (by string) {
	at := m.methods[name]
	if at == nil || m.gone {
		return ""
	}
	at.asked = m.looks
	for _, p := range at.parts {
		if len(p.rule.Checks) == 0 {
			continue
		}
		if t := m.board.turn; t != nil && t.m != m && t.of == p.of {
			m.refuse(at, p.of).tried = false
			return p.labels[0]
		}
		if by := p.closed(); by != "" {
			m.refuse(at, p.of).tried = true
			return by
		}
	}
	if !at.patterns {
		return at.together()
	}
	return ""
}

// closed returns the first rule of a part whose counters allow no request; "" if there is none.
func (p part) closed() string {
	for i, c := range p.rule.Checks {
		if c.Counts && !c.Holds(guard.Request{}) {
			return p.labels[i]
		}
	}
	return ""
}

// Refuses returns the constraint that holds back a request that Closed has not held back; "" if there is none. It calls user code, which
// may panic.
func (m *Member) Refuses(r guard.Request) (by string) {
	at := m.methods[r.Method]
	if at == nil || m.gone {
		return ""
	}
	for _, p := range at.parts {
		for i, c := range p.rule.Checks {
			if !c.Counts && !c.Holds(r) {
				m.refuse(at, p.of).tried = true
				return p.labels[i]
			}
		}
	}
	return ""
}

func label(of *rules.Rules, rule string) string { return of.Name + ": " + rule }

// refuse notes that a synchronizer has refused a method in this look.
func (m *Member) refuse(at *method, of *rules.Rules) *refusal {
	b := m.board
	i := slices.IndexFunc(b.refused, func(r *refusal) bool { return r.m == m && r.method == at && r.of == of })
	if i < 0 {
		i = len(b.refused)
		b.refused = append(b.refused, &refusal{m: m, method: at, of: of})
	}
	b.refused[i].seen = m.looks
	return b.refused[i]
}

// Accepted books that a request was given out, and runs its triggers. The counters are those of its method. The error is that a trigger
// did not return.
func (m *Member) Accepted(r guard.Request, c guard.Counters) error {
	if t := m.board.turn; t != nil && t.m == m && t.method.name == r.Method {
		m.board.refused = slices.DeleteFunc(m.board.refused, func(r *refusal) bool { return r == t })
		m.board.endTurn()
	}
	return m.book(r, c, (*rules.Rules).Accept)
}

// Completed books that a request which was given out has ended, in whatever way, or was not handled at all.
func (m *Member) Completed(r guard.Request, c guard.Counters) error {
	return m.book(r, c, (*rules.Rules).Complete)
}

func (m *Member) book(r guard.Request, c guard.Counters, run func(*rules.Rules, guard.Request)) (err error) {
	if m.gone {
		return nil
	}
	m.counters[r.Method] = c
	at := m.methods[r.Method]
	if at == nil {
		return nil
	}
	for _, p := range at.parts {
		err = errors.Join(err, protect(p.of, r, func() { run(p.of, r) }))
	}
	m.board.changed(at.parts)
	m.board.next(m)
	return err
}

// protect calls user code, and returns why it has not returned.
func protect(of *rules.Rules, r guard.Request, f func()) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("synchronizer %q: a rule about %q of %q panicked: %v", of.Name, r.Method, r.Process, why)
		}
	}()
	f()
	return nil
}

// changed notes that the state of synchronizers has changed.
func (b *Board) changed(parts []part) {
	for _, r := range b.refused {
		if slices.ContainsFunc(parts, func(p part) bool { return p.of == r.of }) {
			r.tried = false
		}
	}
}

// next gives the turn to the first that was refused and may be allowed now, unless one has it. By is the member whose inbox pokes.
func (b *Board) next(by *Member) {
	if b.turn != nil {
		return
	}
	for _, r := range b.refused {
		if r.tried || r.closed() {
			continue
		}
		r.asked, b.turn = true, r
		r.m.hasTurn.Store(true)
		by.poke(r.m)
		return
	}
}

// closed reports whether the counters allow no request.
func (r *refusal) closed() bool {
	for _, p := range r.method.parts {
		if p.of == r.of && p.closed() != "" {
			return true
		}
	}
	return false
}

func (m *Member) poke(other *Member) {
	if !slices.Contains(m.pokes, other) {
		m.pokes = append(m.pokes, other)
	}
}

func (b *Board) endTurn() {
	b.turn.m.hasTurn.Store(false)
	b.turn = nil
}

// Poked notes that the inbox was poked.
func (m *Member) Poked() {
	if t := m.board.turn; t != nil && t.m == m {
		t.asked = false
	}
}

// HasTurn reports whether the member has the turn. It does not need the lock.
func (m *Member) HasTurn() bool { return m.hasTurn.Load() }

// Settle passes the turn on, unless a worker of the inbox is on its way or the inbox is yet to be poked. OnItsWay is called only if the
// member has the turn.
func (m *Member) Settle(onItsWay func() bool) {
	b := m.board
	if b.turn == nil || b.turn.m != m || b.turn.asked || onItsWay() {
		return
	}
	b.turn.tried = true
	b.endTurn()
	b.next(m)
}

// Pokes returns the members to be poked, and forgets them. It does not need the lock of the board.
func (m *Member) Pokes() []*Member {
	pokes := m.pokes
	m.pokes = nil
	return pokes
}

// Others returns the methods of other members that are current and that synchronizers name together with a method.
func (m *Member) Others(name string) (others []string) {
	at := m.methods[name]
	if at == nil {
		return nil
	}
	for _, p := range at.parts {
		for of := range p.of.Methods {
			if of.Of == m.name || m.board.count(of).Current == 0 {
				continue
			}
			if other := of.Of + "." + of.Name; !slices.Contains(others, other) {
				others = append(others, other)
			}
		}
	}
	return others
}

// Terminate removes the stage from the board for good: it has no commands any more. It is called without locks. Further calls do nothing.
func (m *Member) Terminate() (err error) {
	b, name := m.board, m.name
	by := &Member{board: b} // the inbox of m may have its own to poke
	defer func() {          // also if a function of the user ends the goroutine
		for _, other := range by.pokes {
			other.Poke()
		}
	}()
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.gone {
		return nil
	}
	defer m.terminated(by)
	m.gone, m.counters, m.granted = true, map[string]guard.Counters{}, nil
	for _, of := range b.all {
		if of.Members[name] != nil {
			err = errors.Join(err, protect(of, guard.Request{Process: name}, func() { of.Terminate(name) }))
		}
	}
	return err
}

// terminated has those look again that had to wait for a member.
func (m *Member) terminated(by *Member) {
	b := m.board
	b.refused = slices.DeleteFunc(b.refused, func(r *refusal) bool { return r.m == m })
	if b.turn != nil && b.turn.m == m {
		b.endTurn()
	}
	for _, at := range m.methods {
		b.changed(at.parts)
	}
	m.endAtomic(by)
	b.next(by)
}
