package chaos

import (
	"context"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage/stagetest"
)

// keys is how many keys the commands have at a keyed node.
const keys = 7

// keyOf returns a command's key at keyed nodes. All that comes of a command has
// its key.
func keyOf(c command) uint64 { return c.ID % keys }

// weightOf returns the weight of a key at fair nodes.
func weightOf(key uint64) int { return 1 + int(key)%3 }

// laneOf is the key function of a keyed node. It crashes for some commands if
// the node's faults have a Poison.
func (s *site) laneOf(c command) uint64 {
	s.run.intact(name(s.index)+", its key", c)
	s.poison(c.key() + 13)
	if s.stray {
		return c.key()
	}
	return keyOf(c)
}

// forKey makes the instance of a key.
func (s *site) forKey(key uint64) behaviour.Behaviour[command] {
	b := stagetest.Wrap[command](s.injector, &nodeOfKey{nodeBehaviour{site: s}, key})
	if s.States {
		return s.stateful(key, b)
	}
	return b
}

// nodeOfKey is a nodeBehaviour for one key.
type nodeOfKey struct {
	nodeBehaviour
	key uint64
}

// suspenderForKey makes the instance of a key whose handler suspends.
func (s *site) suspenderForKey(key uint64) *suspenderOfKey {
	return &suspenderOfKey{nodeOfKey{nodeBehaviour{site: s}, key}, newSuspender(s).rest}
}

// suspenderOfKey is a nodeOfKey whose handler suspends as the handler of a
// nodeSuspender does.
type suspenderOfKey struct {
	nodeOfKey
	rest behaviour.Suspending[command]
}

// HandleSuspending does what nodeOfKey and nodeSuspender do.
func (s *suspenderOfKey) HandleSuspending(c behaviour.Suspender, cmd command) behaviour.Outcome {
	defer s.begin(cmd)()
	defer s.enter()()
	if err := s.site.suspend(c, cmd); err != nil {
		return behaviour.Error(err)
	}
	return s.rest.HandleSuspending(c, cmd)
}

// Start records that the instance is its key's, and checks that the key has no
// other.
func (s *nodeOfKey) Start(ctx context.Context) error {
	where := s.site
	where.mu.Lock()
	if where.live[s.key] != nil && where.Timeout == 0 { // a handler that was given up keeps its instance
		where.run.breachf(Instances, "stage %s: key %d has two instances", name(where.index), s.key)
	}
	where.live[s.key] = &s.nodeBehaviour
	where.mu.Unlock()
	return s.nodeBehaviour.Start(ctx)
}

// Stop records that the key has no instance.
func (s *nodeOfKey) Stop() {
	s.nodeBehaviour.Stop()
	where := s.site
	where.mu.Lock()
	defer where.mu.Unlock()
	if where.live[s.key] == &s.nodeBehaviour {
		delete(where.live, s.key)
	}
}

// HandleCommand handles a command of the key.
func (s *nodeOfKey) HandleCommand(ctx context.Context, cmd command) behaviour.Outcome {
	defer s.begin(cmd)()
	return s.nodeBehaviour.HandleCommand(ctx, cmd)
}

// begin checks that the command is of the instance's key, and that no other of
// the key is being handled.
func (s *nodeOfKey) begin(cmd command) (end func()) {
	where, key := s.site, keyOf(cmd)
	if s.key != where.laneOf(cmd) {
		where.run.breachf(Instances, "stage %s: the instance of key %d got a command of key %d", name(where.index), s.key, key)
	}
	where.mu.Lock()
	if where.working[key]++; where.working[key] > 1 && where.Timeout == 0 {
		where.run.breachf(Order, "stage %s: two commands of key %d were handled at once", name(where.index), key)
	}
	where.mu.Unlock()
	return func() {
		where.mu.Lock()
		defer where.mu.Unlock()
		where.working[key]--
	}
}

// order is the order in which commands come to a node, as far as it is known.
type order uint8

const (
	unknown order = iota
	byKey         // the commands of each key are in order
	total         // all are
)

// findOrders finds out in what order commands are to be handled at each node.
func (r *run) findOrders() {
	if !r.plan.Ordered {
		r.findOrdersOfEntries()
		return
	}
	known := total
	for _, s := range r.sites { // the graph is a line
		if s.order = known; s.Keyed {
			s.order = min(known, byKey)
			known = min(known, s.leaving())
		}
		if s.Window.Kind != "" && s.Window.Kind != windowAll {
			s.order = min(known, byKey)
			known = s.order
		}
		if s.Ordered { // results leave it in the order of their commands, which are handled in any order
			s.order = unknown
		}
	}
}

// leaving is the order in which the commands of a keyed node leave it. After a
// crash, some that were done before may leave late.
func (s *site) leaving() order {
	kills := slices.ContainsFunc(s.run.plan.Disturbances, func(d Disturbance) bool { return d.Action <= KillFeed })
	if kills || s.Faults.Panic > 0 || s.Faults.Goexit > 0 || s.Middleware.Panic > 0 || s.run.plan.Middleware.Panic > 0 {
		return unknown
	}
	return byKey
}

// findOrdersOfEntries finds the keyed nodes to which nothing comes but what one
// submitter submits, one after the other.
func (r *run) findOrdersOfEntries() {
	others := func(d Disturbance) bool {
		return d.Action == AddStage || d.Action == RemoveStage || d.Action == RetryLetters
	}
	calls := func(n Node) bool { return n.Calls }
	p := r.plan
	if p.Submitters != 1 || len(p.Feeds) > 0 || slices.ContainsFunc(p.Disturbances, others) || slices.ContainsFunc(p.Graph.Nodes, calls) {
		return
	}
	for i, s := range r.sites {
		behind := func(n Node) bool { return slices.Contains(n.Next, i) }
		if s.Keyed && s.Timeout == 0 && !slices.ContainsFunc(p.Graph.Nodes, behind) {
			s.order = byKey
		}
	}
}
