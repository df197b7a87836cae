// Package rules has the rules of a synchronizer as data, for the protocol
// between processes, which evaluates them. Users write them with package
// coordination/synchronizer.
package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/golda-dev/golda/coordination/guard"
)

// Member is a process. Users know it as synchronizer.Member.
type Member interface{ Name() string }

// Method is a method of a member, by names.
type Method struct{ Of, Name string }

// Event is a pattern of requests: the requests of a method for which If is true
// or nil.
type Event struct {
	Method

	If func(guard.Request) bool
}

// Matches reports whether a request is of the pattern.
func (e Event) Matches(r guard.Request) bool {
	return e.Of == r.Process && e.Name == r.Method && (e.If == nil || e.If(r))
}

// Check is a constraint of a method.
type Check struct {
	Rule   string // the name of its rule, as users know it
	Holds  func(guard.Request) bool
	Counts bool // it looks at counters only, so it is the same for all requests of the method, and does not panic
}

// Rule has the rules of a synchronizer for one method. It is empty if the
// method is only counted.
type Rule struct {
	Checks    []Check
	Accepted  []func(guard.Request)
	Completed []func(guard.Request)
	Atomic    bool // an atomic rule has an event of it
}

// String lists the parts of the rule, as users know them.
func (r *Rule) String() string {
	var all []string
	for _, c := range r.Checks {
		if !slices.Contains(all, c.Rule) {
			all = append(all, c.Rule)
		}
	}
	switch {
	case r.Atomic:
		all = append(all, "Atomic")
	case len(all) == 0 && len(r.Accepted)+len(r.Completed) > 0:
		all = append(all, "Trigger")
	case len(all) == 0:
		all = append(all, "Count")
	}
	return strings.Join(all, ", ")
}

// Rules are the rules of one synchronizer. They do not change once they are
// made, but the functions of the user share state: they are called one at a
// time.
type Rules struct {
	Name       string
	Members    map[string]Member // by name
	Methods    map[Method]*Rule
	Atomic     [][]Event
	Terminated []func(Member)

	// Count returns the counters of a method. The evaluator of the rules sets
	// it before; until then all are zero.
	Count func(m Method) guard.Counters
}

// New returns rules that are empty.
func New(name string) *Rules {
	return &Rules{Name: name, Members: map[string]Member{}, Methods: map[Method]*Rule{}}
}

// Rule returns the rule of a method, which it makes if there is none.
func (r *Rules) Rule(of Member, method string) *Rule {
	m := Method{of.Name(), method}
	if r.Members[m.Of] == nil {
		r.Members[m.Of] = of
	}
	if r.Methods[m] == nil {
		r.Methods[m] = &Rule{}
	}
	return r.Methods[m]
}

// Holds reports whether all constraints of a request's method hold for it.
func (r *Rules) Holds(q guard.Request) bool {
	if rule := r.Methods[Method{q.Process, q.Method}]; rule != nil {
		for _, check := range rule.Checks {
			if !check.Holds(q) {
				return false
			}
		}
	}
	return true
}

// Accept runs the triggers of a request that has been accepted.
func (r *Rules) Accept(q guard.Request) {
	if rule := r.Methods[Method{q.Process, q.Method}]; rule != nil {
		for _, trigger := range rule.Accepted {
			trigger(q)
		}
	}
}

// Complete runs the triggers of a request that has ended.
func (r *Rules) Complete(q guard.Request) {
	if rule := r.Methods[Method{q.Process, q.Method}]; rule != nil {
		for _, trigger := range rule.Completed {
			trigger(q)
		}
	}
}

// Terminate runs the repair functions for a member that has terminated. Its
// counters are zero by then.
func (r *Rules) Terminate(member string) {
	for _, repair := range r.Terminated {
		repair(r.Members[member])
	}
}

// Mixed returns the methods, sorted, that have constraints and atomic rules.
func (r *Rules) Mixed() (mixed []Method) {
	for m, rule := range r.Methods {
		if rule.Atomic && len(rule.Checks) > 0 {
			mixed = append(mixed, m)
		}
	}
	slices.SortFunc(mixed, func(a, b Method) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Name, b.Name)) })
	return mixed
}
