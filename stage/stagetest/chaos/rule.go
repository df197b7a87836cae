package chaos

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Rule is a synchronizer over several nodes. It is of one of three kinds. Such a node can have a Guard, and
// is neither Spread nor Calls: a handler that waits for a node which its own rule holds back would wait for ever.
type Rule struct {
	AtMost int // at most so many of their handlers may run at once, together
	// OncePerRound has each of them run once before any of them runs twice, and Atomic has them run together or not at all. The nodes
	// have a TTL: what can never run ends as expired. A node of an Atomic rule has rules of that kind only.
	OncePerRound bool
	Atomic       bool
	Nodes        []int
	broken       bool // it is not applied, which breaks its promise
}

// The kinds of rules in words.
const (
	ruleAtMost       = "at most"
	ruleOncePerRound = "once per round"
	ruleAtomic       = "atomic"
)

func (r Rule) kind() string {
	switch {
	case r.OncePerRound:
		return ruleOncePerRound
	case r.Atomic:
		return ruleAtomic
	default:
		return ruleAtMost
	}
}

// waits reports whether a command may have to wait for one of another node that never comes.
func (r Rule) waits() bool { return r.OncePerRound || r.Atomic }

func (r Rule) String() string {
	if r.waits() {
		return fmt.Sprintf("%s in %v", r.kind(), r.Nodes)
	}
	return fmt.Sprintf("%s %d in %v", r.kind(), r.AtMost, r.Nodes)
}

// canHaveRules reports whether a node can be under a rule, but for its Discipline, Linger and TTL. One with a Timeout cannot: a handler
// that was given up still runs.
func (n Node) canHaveRules() bool {
	return n.Flow == "" && n.Window == (Window{}) && !n.Keyed && !n.Ordered && !n.Spread && !n.Calls && n.Timeout == 0
}

// hasRule reports whether a node is under a rule for which is holds.
func (g Graph) hasRule(node int, is func(Rule) bool) bool {
	return slices.ContainsFunc(g.Rules, func(r Rule) bool { return is(r) && slices.Contains(r.Nodes, node) })
}

func (p Plan) checkRules(f *faulty) {
	for i, rule := range p.Graph.Rules {
		kinds := 0
		for _, is := range []bool{rule.AtMost > 0, rule.OncePerRound, rule.Atomic} {
			if is {
				kinds++
			}
		}
		f.unlessf(kinds == 1, "rule %d: it must be one of AtMost, OncePerRound and Atomic: at most %d", i, rule.AtMost)
		f.unlessf(len(rule.Nodes) > 0, "rule %d: it has no nodes", i)
		f.unlessf(len(rule.Nodes) > 1 || !rule.waits(), "rule %d: it needs two nodes", i)
		for _, n := range rule.Nodes {
			if n < 0 || n >= len(p.Graph.Nodes) {
				f.unlessf(false, "rule %d: node %d: there are %d", i, n, len(p.Graph.Nodes))
				continue
			}
			of := p.Graph.Nodes[n]
			f.unlessf(of.canHaveRules() && of.Discipline == "" && of.Linger == 0,
				"rule %d: node %s is a flow, Keyed, Ordered, Spread or Calls, or has windows, a Discipline, a Linger or a Timeout",
				i, name(n))
			f.unlessf(of.TTL > 0 || !rule.waits(), "rule %d: node %s has no TTL, and may wait for ever", i, name(n))
		}
	}
}

// ruled is what a run knows of a rule.
type ruled struct{ inside atomic.Int64 }

// synchronize makes synchronizers of the rules.
func (r *run) synchronize() (parts []pipeline.Part) {
	for i, rule := range r.plan.Graph.Rules {
		if rule.broken {
			continue
		}
		parts = append(parts, pipeline.Synchronize(fmt.Sprintf("rule%d", i), func(s *synchronizer.Synchronizer) {
			events := make([]synchronizer.Event, 0, len(rule.Nodes))
			for _, n := range rule.Nodes {
				events = append(events, synchronizer.Event{Of: r.sites[n].stage, Method: "command"})
			}
			switch {
			case rule.OncePerRound:
				s.OncePerRound(events...)
			case rule.Atomic:
				s.Atomic(events...)
			default:
				s.AtMost(rule.AtMost, events...)
			}
		}))
	}
	if slices.ContainsFunc(r.plan.Graph.Rules, Rule.waits) {
		parts = append(parts, pipeline.Synchronize("watch", r.watch))
	}
	return parts
}

// watch counts the commands that are accepted where rules wait for others, and checks that the rules allow each.
func (r *run) watch(s *synchronizer.Synchronizer) {
	for i, at := range r.sites {
		if !r.plan.Graph.hasRule(i, Rule.waits) {
			continue
		}
		s.Trigger(at.stage, "command", synchronizer.Accepted, func(guard.Request) {
			at.accepted.Add(1)
			r.checkRound(i, func(n int) int { return s.Count(r.sites[n].stage, "command").Accepted })
			if err := r.checkTogether(i, 1); err != nil { // the triggers of the others may be next
				r.breachf(OneEnd, "%v", err)
			}
		})
	}
}

// checkRound checks that no other node of a rule has had fewer rounds than the one that has just begun one. What was accepted, and
// then ended without being handled, does not count: count leaves it out.
func (r *run) checkRound(node int, count func(node int) int) {
	for i, rule := range r.plan.Graph.Rules {
		if !rule.OncePerRound || !slices.Contains(rule.Nodes, node) {
			continue
		}
		for _, other := range rule.Nodes {
			if mine, others := count(node), count(other); mine > others+1 {
				r.breachf(OneEnd, "rule %d: stage %s has run %d times, and %s %d times", i, name(node), mine, name(other), others)
			}
		}
	}
}

// checkTogether checks that the commands that were accepted at a node had others to run with. More may be by so many at this moment.
func (r *run) checkTogether(node int, more uint64) error {
	partners, under := uint64(0), false
	for _, rule := range r.plan.Graph.Rules {
		if !rule.Atomic || !slices.Contains(rule.Nodes, node) {
			continue
		}
		under = true
		fewest := uint64(math.MaxUint32)
		for _, other := range rule.Nodes {
			if other != node {
				fewest = min(fewest, r.sites[other].accepted.Load())
			}
		}
		partners += fewest
	}
	if n := r.sites[node].accepted.Load(); under && n > partners+more {
		return fmt.Errorf("stage %s: %d commands were accepted, and there were %d to run with them", name(node), n, partners)
	}
	return nil
}

// obey records that a handler of the site runs, and checks that the rules allow it.
func (s *site) obey() (leave func()) {
	var under []*ruled
	for i, rule := range s.run.plan.Graph.Rules {
		if rule.waits() || !slices.Contains(rule.Nodes, s.index) {
			continue
		}
		now := &s.run.ruled[i]
		under = append(under, now)
		if n := now.inside.Add(1); n > int64(rule.AtMost) {
			s.run.breachf(OneEnd, "stage %s: %d handlers run at once, and rule %d allows %d", name(s.index), n, i, rule.AtMost)
		}
	}
	return func() {
		for _, r := range under {
			r.inside.Add(-1)
		}
	}
}

// checkRules checks at the end that each handler that has run was accepted, with others if it had to be.
func (s *site) checkRules(st stage.Snapshot) error {
	if !s.run.plan.Graph.hasRule(s.index, Rule.waits) {
		return nil
	}
	accepted, calls, repeats := s.accepted.Load(), s.calls.Load(), s.repeats.Load()
	if calls > accepted+repeats {
		return fmt.Errorf("stage %s: its handler was called %d times, and %d commands were accepted", name(s.index), calls, accepted)
	}
	for _, m := range st.Methods {
		if uint64(m.Accepted) > accepted {
			return fmt.Errorf("stage %s: it says that it has accepted %d commands, and the rules have %d",
				name(s.index), m.Accepted, accepted)
		}
	}
	return s.run.checkTogether(s.index, 0)
}

// acceptedBy counts the commands that were accepted under rules, by their kind.
func (g Graph) acceptedBy(s pipeline.Snapshot) map[string]uint64 {
	accepted := map[string]uint64{}
	for _, st := range s.Stages {
		for _, m := range st.Methods {
			accepted[st.Name] += uint64(m.Accepted)
		}
	}
	by := map[string]uint64{}
	for _, rule := range g.Rules {
		for _, n := range rule.Nodes {
			by[rule.kind()] += accepted[name(n)]
		}
	}
	return by
}
