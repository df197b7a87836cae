package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
)

// states is what a site knows of the states of its instances. The site's lock
// guards all.
type states struct {
	all        []*lineage
	ofKey      map[uint64]*lineage // the last one of a key
	alive, top int                 // instances: now, and the most at once
}

// lineage is a state, in one instance after the other.
type lineage struct {
	key     uint64
	log     []command // whose handlers have returned, in order, without what a crash has undone
	saved   bool      // there was a snapshot
	crashed bool      // the last instance has crashed
	live    *stateful // the instance that has it, or had it last; nil after a crash
}

// stateful is the instance of a node with States. Its state is the commands
// that it has handled. It changes before the handler's fault happens, so a
// crash leaves the change half done.
type stateful struct {
	behaviour.Behaviour[command]

	site *site
	key  uint64
	of   *lineage // nil before the first command
	seen []command
}

// snapshot is the state of a lineage at an instant.
type snapshot struct {
	of   *lineage
	seen []command
}

func (s *site) stateful(key uint64, b behaviour.Behaviour[command]) *stateful {
	return &stateful{Behaviour: b, site: s, key: key}
}

// Start starts the behaviour.
func (s *stateful) Start(ctx context.Context) error {
	s.site.mu.Lock()
	of := &s.site.states
	of.alive++
	of.top = max(of.top, of.alive)
	s.site.mu.Unlock()
	return s.Behaviour.(behaviour.Starter).Start(ctx)
}

// Stop stops the behaviour: its state is left to the next instance.
func (s *stateful) Stop() {
	s.site.mu.Lock()
	s.site.states.alive--
	s.site.mu.Unlock()
	s.Behaviour.(behaviour.Stopper).Stop()
}

// HandleCommand changes the state, and handles the command.
func (s *stateful) HandleCommand(ctx context.Context, cmd command) behaviour.Outcome {
	return s.handle(cmd, func() behaviour.Outcome { return s.Behaviour.HandleCommand(ctx, cmd) })
}

// statefulSuspender is a stateful whose handler suspends.
type statefulSuspender struct {
	*stateful
	rest behaviour.Suspending[command]
}

// statefulSuspenderForKey makes the instance of a key whose handler suspends.
func (s *site) statefulSuspenderForKey(key uint64) *statefulSuspender {
	b := s.suspenderForKey(key)
	return &statefulSuspender{s.stateful(key, b), b}
}

// HandleSuspending does what HandleCommand does.
func (s *statefulSuspender) HandleSuspending(c behaviour.Suspender, cmd command) behaviour.Outcome {
	return s.handle(cmd, func() behaviour.Outcome { return s.rest.HandleSuspending(c, cmd) })
}

func (s *stateful) handle(cmd command, rest func() behaviour.Outcome) behaviour.Outcome {
	s.begin()
	s.seen = append(s.seen, cmd)
	returned := false
	defer func() {
		s.site.mu.Lock()
		defer s.site.mu.Unlock()
		if returned {
			s.of.log = append(s.of.log, cmd)
		} else {
			s.of.crashed, s.of.live = true, nil
		}
	}()
	o := rest()
	returned = true
	return o
}

// begin begins a state if the instance was given none.
func (s *stateful) begin() {
	where := s.site
	where.mu.Lock()
	defer where.mu.Unlock()
	if s.of != nil {
		if s.of.live != s {
			where.run.breachf(States, "stage %s: an instance is used although it has crashed, or another one has its state",
				name(where.index))
		}
		return
	}
	if err := where.mayBeFresh(where.states.ofKey[s.key]); err != nil && where.Keyed {
		where.run.breachf(States, "stage %s: the instance of key %d begins without a state: %v", name(where.index), s.key, err)
	}
	s.of = &lineage{key: s.key, live: s}
	where.states.add(s.of)
}

func (of *states) add(l *lineage) {
	if of.ofKey == nil {
		of.ofKey = map[uint64]*lineage{}
	}
	of.all = append(of.all, l)
	of.ofKey[l.key] = l
}

// mayBeFresh returns why a state must not begin in the place of the one before,
// or nil.
func (s *site) mayBeFresh(before *lineage) error {
	switch {
	case before == nil || len(before.log) == 0 || s.run.plan.breaks() || s.surrounded():
		return nil
	case s.Passivates && s.KeepStates < keys:
		return nil
	case before.crashed && len(before.log) < max(s.SnapshotEvery, 1):
		return nil
	default:
		return fmt.Errorf("that of %d commands is lost", len(before.log))
	}
}

// breaks reports whether stages of the plan may be restarted, which drops their
// states.
func (p Plan) breaks() bool { return p.Fragile || p.kills() }

func (p Plan) kills() bool {
	return slices.ContainsFunc(p.Disturbances, func(d Disturbance) bool { return d.Action <= KillFeed && d.Action != Swap })
}

func (p Plan) does(a Action) bool {
	return slices.ContainsFunc(p.Disturbances, func(d Disturbance) bool { return d.Action == a })
}

// Snapshot returns a copy of the state, which must be the state of an instance
// between two commands.
func (s *stateful) Snapshot() any {
	s.begin()
	where := s.site
	where.mu.Lock()
	defer where.mu.Unlock()
	if n := len(s.of.log); len(s.seen) != n && s.of.live == s {
		where.run.breachf(States, "stage %s: a snapshot of an instance that has changed its state for %d commands, and %d have ended",
			name(where.index), len(s.seen), n)
	}
	s.of.saved = true
	if s.spoiled() {
		return snapshot{s.of, slices.Clone(s.seen[1:])}
	}
	return snapshot{s.of, slices.Clone(s.seen)}
}

func (s *stateful) spoiled() bool { return s.site.spoil == "stale" && len(s.seen) > 1 }

// Restore continues with a state.
func (s *stateful) Restore(state any) error {
	where := s.site
	where.mu.Lock()
	defer where.mu.Unlock()
	saved, ok := state.(snapshot)
	if !ok {
		where.run.breachf(States, "stage %s: it was given a state of another: %v", name(where.index), state)
		return errors.New("not a state")
	}
	of := saved.of
	if err := where.mayRestore(of, saved.seen); err != nil || of.key != s.key {
		where.run.breachf(States, "stage %s: the state of key %d, for key %d: %v", name(where.index), of.key, s.key, err)
	}
	of.log, of.crashed, of.live = slices.Clone(saved.seen), false, s
	s.of, s.seen = of, saved.seen
	return nil
}

// mayRestore returns why an instance may not be given a state, or nil.
func (s *site) mayRestore(of *lineage, seen []command) error {
	n := min(len(seen), len(of.log))
	if !slices.Equal(of.log[:n], seen[:n]) || n < len(seen) {
		return fmt.Errorf("it has other commands than those that have ended: %+v, not %+v", seen, of.log)
	}
	most := 0
	if of.crashed || s.run.plan.kills() || s.surrounded() {
		most = max(s.SnapshotEvery, 1) - 1
	}
	if s.surrounded() {
		most += 4 // a crash in middleware, after the handler has returned: once, or as often as it was called again
	}
	if lost := len(of.log) - n; lost > most {
		return fmt.Errorf("%d commands are missing in it, and %d may be", lost, most)
	}
	return nil
}

// judgeStates checks that the site's instances have left no more states than
// there were instances.
func (s *site) judgeStates() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.States || s.Keyed || s.run.plan.breaks() || s.surrounded() {
		return nil
	}
	n := 0
	for _, l := range s.states.all {
		if l.saved {
			n++
		}
	}
	if n > s.states.top {
		return fmt.Errorf("stage %s: there are %d states, and were at most %d instances at once", name(s.index), n, s.states.top)
	}
	return nil
}
