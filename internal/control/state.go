package control

import (
	"maps"
	"slices"

	"github.com/golda-dev/golda/controller"
)

// Group is a group of stages that the pipeline declares.
type Group struct {
	Name         string
	Fewest, Most int // workers
	Stages       []Options
}

// State is the desired state: the setting of each knob. Policies change it, and
// then the stages and pools are made to follow it. So a policy that takes over
// can start from the pipeline's own settings, and only the difference in the
// end is applied.
type State struct {
	entry   controller.Admission
	stages  map[string]*stageState
	pools   map[string]*poolState // the shared ones
	machine bool                  // snapshots have the use of the machine
	held    held                  // by operators

	order  []string       // of pools, in the order in which they were added
	visits map[string]int // by group: after how many visits its controller's policies want to be notified; 0: never
}

// NewState returns the state as the options of stages and groups set it. Stages
// of groups may have been removed since.
func NewState(stages []Options, groups []Group) *State {
	s := &State{stages: make(map[string]*stageState, len(stages)), pools: map[string]*poolState{}, visits: map[string]int{}}
	for _, o := range stages {
		s.Add(o)
	}
	for _, g := range groups {
		s.addPool(&poolState{name: g.Name, group: true, fewest: g.Fewest, most: g.Most, workers: g.Fewest})
		for _, o := range g.Stages {
			if st := s.stages[o.Name()]; st != nil && st.options == o {
				st.pool, st.group = g.Name, g.Name
			}
		}
	}
	return s
}

// Add adds a stage, as its options set it.
func (s *State) Add(o Options) {
	fewest, _ := o.Bounds()
	s.stages[o.Name()] = &stageState{
		options: o, group: o.Name(), pool: o.Name(), workers: fewest, knobs: o.Preset(), discipline: o.Discipline().Name(),
	}
}

// Remove removes a stage.
func (s *State) Remove(name string) {
	delete(s.stages, name)
	maps.DeleteFunc(s.held, func(k heldKnob, _ controller.Change) bool { return k.of == name })
}

// SetPaused pauses a stage, or resumes it.
func (s *State) SetPaused(name string, on bool) {
	if st := s.stages[name]; st != nil {
		st.paused, st.knobs.Paused = on, on
	}
}

func (s *State) addPool(p *poolState) {
	s.pools[p.name] = p
	s.order = append(s.order, p.name)
}

// hasGroup reports whether a controller may govern a group: one that the
// pipeline declares, or a stage that is in none.
func (s *State) hasGroup(group string) bool {
	if p := s.pools[group]; p != nil && p.group {
		return true
	}
	st := s.stages[group]
	return st != nil && st.group == group
}

// inGroup returns functions that report whether a stage, and whether a pool,
// belongs to a group.
func (s *State) inGroup(group string) (stage, pool func(name string) bool) {
	stage = func(name string) bool { st := s.stages[name]; return st != nil && st.group == group }
	pool = func(name string) bool {
		p := s.pools[name]
		return p != nil && p.group && name == group || p == nil && stage(name)
	}
	return stage, pool
}

// reset returns the state with some stages and pools as their options set them.
// It keeps some later changes: paused stages stay paused, running pools stay,
// numbers of workers are kept where the pool stays, and so are the bounds and
// knobs that operators have set. The state
// is derived from the options again, because a pipeline that kept it would keep
// two states of every stage.
//
// The parts for which covers and coversPool report false stay as they are. The
// entry is reset only if entry is true. But a stage that is bound to a pool
// that is reset is reset, too.
func (s *State) reset(groups []Group, entry bool, covers, coversPool, runs func(name string) bool) *State {
	stages := make([]Options, 0, len(s.stages))
	for _, st := range s.stages {
		stages = append(stages, st.options)
	}
	fresh := NewState(stages, groups)
	fresh.visits = s.visits
	if !entry {
		fresh.entry = s.entry
	}
	for name, st := range fresh.stages {
		now := s.stages[name]
		if !covers(name) && !coversPool(now.pool) {
			fresh.stages[name] = now
			continue
		}
		st.paused, st.knobs.Paused = now.paused, now.paused
		if st.own() && now.own() {
			st.workers = now.workers
		}
	}
	for _, name := range s.order {
		fresh.resetPool(s.pools[name], coversPool(name), runs(name))
	}
	fresh.held = s.held
	for _, ch := range s.held {
		fresh.apply(ch)
	}
	return fresh
}

// resetPool takes a pool over into the state that reset makes.
func (s *State) resetPool(now *poolState, covered, runs bool) {
	p := s.pools[now.name]
	switch {
	case !covered:
		if p == nil {
			s.order = append(s.order, now.name)
		}
		s.pools[now.name] = now
	case p != nil:
		p.workers, p.fewest, p.most = now.workers, now.fewest, now.most
	case runs:
		s.addPool(&poolState{name: now.name, fewest: 1, most: now.most, workers: 1})
	}
}

// apply applies a change that was settled. The change has the stage numbers of
// the whole pipeline.
func (s *State) apply(ch controller.Change) {
	if ch.Stage == controller.Entry {
		admit(&s.entry, ch)
		return
	}
	if ch.Stage == controller.NoStage {
		s.applyPool(ch)
		return
	}
	st := s.stages[ch.StageName]
	if st == nil {
		return // a stage that has just been added; the policies are asked again when the state has it
	}
	st.apply(ch)
}

// applyPool applies a change of a shared pool, and adds the pool if it is new.
func (s *State) applyPool(ch controller.Change) {
	p := s.pools[ch.StageName]
	if p == nil {
		p = &poolState{name: ch.StageName, fewest: 1, most: controller.MostWorkers, workers: 1}
		s.addPool(p)
	}
	p.apply(ch)
}

// usage says which pools have stages, and which stages' own pools have other
// stages, too.
type usage struct{ used, hosts map[string]bool }

func (s *State) usage() usage {
	u := usage{map[string]bool{}, map[string]bool{}}
	for name, st := range s.stages {
		u.used[st.pool] = true
		if st.pool != name {
			u.hosts[st.pool] = true
		}
	}
	return u
}

// dropUnused removes the shared pools that no stage is bound to, except the
// pools of groups, and returns their names.
func (s *State) dropUnused(u usage) (dropped []string) {
	s.order = slices.DeleteFunc(s.order, func(name string) bool {
		if s.pools[name].group || u.used[name] {
			return false
		}
		delete(s.pools, name)
		dropped = append(dropped, name)
		return true
	})
	return dropped
}

// reports returns the number of visits after which a shared pool must report, 0
// for never: as the policies of its group's own controller want, or else the
// policies of the pipeline's controller.
func (s *State) reports(pool string) int {
	visits, own := s.visits[pool]
	if !own || !s.pools[pool].group {
		visits = s.visits[""]
	}
	return visits
}

func (s *State) governor(stage string, governs func(group string) bool) string {
	if st := s.stages[stage]; st != nil && governs(st.group) {
		return st.group
	}
	return ""
}

func (s *State) poolGovernor(pool string, governs func(group string) bool) string {
	if p := s.pools[pool]; p != nil {
		if p.group && governs(pool) {
			return pool
		}
		return ""
	}
	return s.governor(pool, governs)
}

// held is a knob that an operator holds, and its value.
type held map[heldKnob]controller.Change

type heldKnob struct {
	knob controller.Knob
	of   string
}

func (s *State) holds(ch controller.Change) bool {
	_, ok := s.held[heldKnob{ch.What, ch.StageName}]
	return ok
}
