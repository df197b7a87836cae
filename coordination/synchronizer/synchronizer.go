package synchronizer

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/rules"
)

// Member is a coordinated object: a *stage.Stage, or the rpc.Address of a
// process. Members of the same name are the same.
type Member interface{ Name() string }

// Event is a pattern of requests: the requests of a method of a member for
// which If is true or nil. The method of a process is the name of its function.
// The method of a stage is the result of its command's Method() string, or the
// name of the command's type.
type Event struct {
	Of     Member
	Method string
	If     func(r guard.Request) bool
}

// Phase is a moment in the life of a request.
type Phase int

const (
	// Accepted is when all guards and synchronizers have agreed to a request.
	// It is about to run.
	Accepted Phase = iota
	// Completed is when a request has ended: with a result or an error, by a
	// panic, or because it was stopped.
	Completed
)

// Synchronizer takes the rules that init gives it. Its methods are called by
// init, and Count by the rules too. Mistakes, such as a nil function, are
// reported together by the function that starts the synchronizer, before
// anything has started. A method that adds a rule panics if it is called later.
type Synchronizer struct {
	rules  *rules.Rules
	faults []error
	sealed bool
}

// Rules runs init and returns the rules that it has made, or all their faults.
// The packages of this module that run synchronizers call it.
func Rules(name string, init func(s *Synchronizer)) (*rules.Rules, error) {
	s := &Synchronizer{rules: rules.New(name)}
	if name == "" {
		return nil, errors.New("synchronizer: it has no name")
	}
	if init == nil {
		return nil, fmt.Errorf("synchronizer %q: init is nil", name)
	}
	init(s)
	s.sealed = true
	if len(s.rules.Methods) == 0 && len(s.faults) == 0 {
		s.faultf("it has no rules")
	}
	return s.rules, errors.Join(s.faults...)
}

// Constrain holds back requests of a method while check is false for them. They
// wait as they would for a guard. check may read Count, and variables that
// triggers of this synchronizer write. It is called again when either may have
// changed; it must not change anything.
//
// A method may have several constraints, of one or several synchronizers. All
// must hold at the same time.
func (s *Synchronizer) Constrain(of Member, method string, check func(r guard.Request) bool) {
	what := "Constrain"
	if rule := s.rule(what, of, method); rule != nil && s.given(what, of, method, check != nil) {
		rule.Checks = append(rule.Checks, rules.Check{Rule: what, Holds: check})
	}
}

// Trigger calls f for each request of a method that reaches a phase. Count
// includes the request then. Variables that f writes belong to the
// synchronizer: they are lost if the synchronizer restarts, and f is not called
// for requests that were accepted before. Prefer Count where it says enough. If
// a method of a process has atomic rules, f is called at Accepted only for the
// requests that run by an atomic rule of this synchronizer.
func (s *Synchronizer) Trigger(of Member, method string, at Phase, f func(r guard.Request)) {
	what := "Trigger"
	rule := s.rule(what, of, method)
	if rule == nil || !s.given(what, of, method, f != nil) {
		return
	}
	switch at {
	case Accepted:
		rule.Accepted = append(rule.Accepted, f)
	case Completed:
		rule.Completed = append(rule.Completed, f)
	default:
		s.faultf("Trigger of %q of %q: there is no phase %d", method, of.Name(), at)
	}
}

// Atomic has requests of the events run together or not at all: one of each
// event, or they wait. The events are of different members. A request that
// could be part of several atomic rules is part of one; the rule that could
// have happened for longest is first.
func (s *Synchronizer) Atomic(events ...Event) {
	if !s.several("Atomic", events, 2) {
		return
	}
	seen := map[string]bool{}
	var all []rules.Event
	for _, e := range events {
		name := e.Of.Name()
		if seen[name] {
			s.faultf("Atomic: two events of %q: a member runs one at a time", name)
			return
		}
		seen[name] = true
		all = append(all, rules.Event{Method: rules.Method{Of: name, Name: e.Method}, If: e.If})
	}
	for _, e := range events {
		s.rules.Rule(e.Of, e.Method).Atomic = true
	}
	s.rules.Atomic = append(s.rules.Atomic, all)
}

// Count returns the counters of a method, as of its last request that was
// accepted or completed. The counters of a terminated process are zero. Some
// counters of a process have only completed requests: the counters of a method
// for which this synchronizer has neither a constraint nor a trigger for
// [Accepted] nor an atomic rule, and of requests that none of its atomic rules
// is about. They do not show running requests, so rely on Completed.
//
// init sees zeros, but its call has the method counted from the start. A
// synchronizer whose rule asks for a method that is not yet counted begins
// anew, as after a restart, and has it counted from then on; methods that have
// rules of this synchronizer are counted. A rule panics if the member is nil or
// the method has no name.
func (s *Synchronizer) Count(of Member, method string) guard.Counters {
	if !s.sealed {
		s.rule("Count", of, method)
		return guard.Counters{}
	}
	switch {
	case isNil(of):
		panic(fmt.Sprintf("synchronizer %q: Count of %q: the member is nil", s.rules.Name, method))
	case method == "":
		panic(fmt.Sprintf("synchronizer %q: Count of a method of %q: the method has no name", s.rules.Name, of.Name()))
	}
	if s.rules.Count == nil {
		return guard.Counters{}
	}
	return s.rules.Count(rules.Method{Of: of.Name(), Name: method})
}

// OnTerminated calls f when a member has terminated or restarted, so that f
// undoes the changes that requests of the member made here. The member's
// counters are zero by then.
func (s *Synchronizer) OnTerminated(f func(of Member)) {
	s.add("OnTerminated")
	if f == nil {
		s.faultf("OnTerminated: the function is nil")
		return
	}
	s.rules.Terminated = append(s.rules.Terminated, func(m rules.Member) { f(m) })
}

// AtMost lets at most n requests of the methods, taken together, be current at
// once: running or suspended. It is a constraint on counters. The events must
// have no If, since counters do not distinguish the requests of a method.
func (s *Synchronizer) AtMost(n int, events ...Event) {
	if !s.countable("AtMost", events, 1) {
		return
	}
	if n < 1 {
		s.faultf("AtMost: %d: at least one must be allowed", n)
		return
	}
	for _, e := range events {
		s.count(fmt.Sprintf("AtMost(%d)", n), e, func() bool {
			current := 0
			for _, e := range events {
				current += s.Count(e.Of, e.Method).Current
			}
			return current < n
		})
	}
}

// OncePerRound lets each of the methods run once before any of them runs twice.
// It is a constraint on counters, as AtMost is. A member that has restarted may
// run again in the same round. One that is dead or cannot be reached holds up
// the others until it is back; if the notice of its death was wrong, it keeps
// its turn. A stage that was removed from its pipeline takes part no more.
func (s *Synchronizer) OncePerRound(events ...Event) {
	if !s.countable("OncePerRound", events, 2) {
		return
	}
	r := &rounds{s: s, events: events, missed: make([]int, len(events))}
	for i, e := range events {
		s.count("OncePerRound", e, func() bool { return r.isNext(i) })
		s.Trigger(e.Of, e.Method, Accepted, func(guard.Request) { r.happened(i) })
	}
}

// count adds a constraint that looks at counters only.
func (s *Synchronizer) count(what string, e Event, check func() bool) {
	rule := s.rules.Rule(e.Of, e.Method)
	rule.Checks = append(rule.Checks, rules.Check{Rule: what, Holds: func(guard.Request) bool { return check() }, Counts: true})
}

// Args returns the Args of a request as a T. The Args of a request of another
// node are encoded, unless they have a basic type, and Args decodes them;
// otherwise r.Args.(T) is the same. Like that expression Args panics if r.Args
// is not a T.
func Args[T any](r guard.Request) T {
	encoded, ok := r.Args.(interface{ Decode(into any) error })
	if !ok {
		if v, ok := r.Args.(T); ok {
			return v
		}
		panic(fmt.Sprintf("synchronizer: the Args of %q of %q are a %T and no %v", r.Method, r.Process, r.Args, reflect.TypeFor[T]()))
	}
	var v T
	if err := encoded.Decode(&v); err != nil {
		panic(fmt.Sprintf("synchronizer: the Args of %q of %q: %v", r.Method, r.Process, err))
	}
	return v
}

// rule returns the rule of a method, or nil if the member or the method is
// missing.
func (s *Synchronizer) rule(what string, of Member, method string) *rules.Rule {
	s.add(what)
	switch {
	case isNil(of):
		s.faultf("%s of %q: the member is nil", what, method)
		return nil
	case method == "":
		s.faultf("%s of a method of %q: the method has no name", what, of.Name())
		return nil
	}
	return s.rules.Rule(of, method)
}

func (s *Synchronizer) given(what string, of Member, method string, ok bool) bool {
	if !ok {
		s.faultf("%s of %q of %q: the function is nil", what, method, of.Name())
	}
	return ok
}

// several reports whether there are enough events, and all have a member and a
// method.
func (s *Synchronizer) several(what string, events []Event, least int) bool {
	s.add(what)
	if len(events) < least {
		s.faultf("%s: it has %d events and needs %d", what, len(events), least)
		return false
	}
	for i, e := range events {
		switch {
		case isNil(e.Of):
			s.faultf("%s: event %d, of %q: the member is nil", what, i, e.Method)
			return false
		case e.Method == "":
			s.faultf("%s: event %d, of %q: the method has no name", what, i, e.Of.Name())
			return false
		}
	}
	return true
}

// countable reports whether the events are methods that differ, without
// patterns.
func (s *Synchronizer) countable(what string, events []Event, least int) bool {
	if !s.several(what, events, least) {
		return false
	}
	seen := map[rules.Method]bool{}
	for _, e := range events {
		m := rules.Method{Of: e.Of.Name(), Name: e.Method}
		switch {
		case e.If != nil:
			s.faultf("%s: %q of %q has an If: counters are of all requests of a method", what, m.Name, m.Of)
			return false
		case seen[m]:
			s.faultf("%s: %q of %q is listed twice", what, m.Name, m.Of)
			return false
		}
		seen[m] = true
	}
	return true
}

// add panics if init has returned.
func (s *Synchronizer) add(what string) {
	if s.sealed {
		panic(fmt.Sprintf("synchronizer %q: %s is called after init has returned", s.rules.Name, what))
	}
}

func (s *Synchronizer) faultf(format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf("synchronizer %q: "+format, append([]any{s.rules.Name}, args...)...))
}

// isNil reports whether there is no member: neither an interface nor a pointer
// in it.
func isNil(of Member) bool {
	if of == nil {
		return true
	}
	v := reflect.ValueOf(of)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
