package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/supervisor"
)

// plan is the parts of a pipeline, sorted, before they are checked.
type plan struct {
	name    string
	set     settings
	present []*engine.Core // the stages of a pipeline that runs, to which the parts are added
	stages  []*engine.Core
	given   map[*engine.Core]bool // true for stages that were given as parts of their own, to find doubles
	wires   []wire
	groups  []grouping
	entry   []*engine.Core
	maps    []mapping
	places  []placement
	away    map[*engine.Core]relayed // the stages that run in other processes; nil without RunsHere
	lines   []line
	feeds   []*fed
	fed     []string // the names of the feeds of a pipeline that runs
	faults  []error
	index   index
}

// index makes lookups in a sorted plan fast.
type index struct {
	stages map[*engine.Core]bool             // including the stages of a pipeline that runs
	owners map[behaviour.Outlet]bool         // the ports that a stage declares
	places map[*behaviour.Inlet]int          // the index of its stage among the stages of a pipeline that runs, then the plan's
	wired  map[behaviour.Outlet]*engine.Core // the stage that a wire of the plan leads to; the last, if there are several
}

// makeIndex makes the index.
func (p *plan) makeIndex() {
	all := slices.Concat(p.present, p.stages)
	p.index = index{
		stages: make(map[*engine.Core]bool, len(all)), owners: make(map[behaviour.Outlet]bool, len(all)),
		places: make(map[*behaviour.Inlet]int, len(all)), wired: make(map[behaviour.Outlet]*engine.Core, len(p.wires)),
	}
	for i, c := range all {
		p.index.stages[c] = true
		p.index.places[c.Inbox().Inlet()] = i
		for _, port := range c.Spec().Outs() {
			p.index.owners[port] = true
		}
	}
	for _, w := range p.wires {
		if w.port != nil && w.to != nil {
			p.index.wired[w.port] = w.to
		}
	}
}

// grouping is a group with its stages found.
type grouping struct {
	*group
	stages []*engine.Core
}

// faultf records a fault. A name in it may be of any length, so part and
// problem are bounded.
func (p *plan) faultf(part, format string, args ...any) {
	problem := plain.Brief(fmt.Sprintf(format, args...), longestProblem)
	p.faults = append(p.faults, &PartError{plain.Name(p.name), plain.Brief(part, 2*plain.LongestName), problem})
}

// longestProblem is how many bytes of a fault an error has at most.
const longestProblem = 4 << 10

// sort sorts the parts by their kinds.
func (p *plan) sort(parts []Part) {
	for i, x := range parts {
		p.place(fmt.Sprintf("part %d", i+1), x)
	}
}

func (p *plan) place(name string, x Part) {
	switch x := x.(type) {
	case nil:
		p.faultf(name, "is nil")
	case option:
		if p.present != nil {
			p.faultf(name, "is an option, which only New takes")
			return
		}
		x(&p.set)
	case letterType:
		p.place(name, withType(x.LetterType(part.Seal{})))
	case part.Defaults:
		p.set.defaults = true
		p.place(name, joined(x))
		p.set.defaults = false
	case wire:
		p.wires = append(p.wires, x)
	case joined:
		for i, y := range x {
			p.place(fmt.Sprintf("%s, part %d", name, i+1), y)
		}
	case *group:
		p.groups = append(p.groups, grouping{x, distinct(p.members(fmt.Sprintf("group %q", x.name), x.parts))})
	case flow:
		list := x.Parts()
		if first := engine.CoreOf(list[0]); first != nil && slices.Contains(p.present, first) {
			p.add(first) // which is a fault
		}
		p.addAll(list)
	case part.List:
		p.addAll(x)
	case part.Fault:
		p.faultf(x.Name, "%s", x.Problem)
	case *fed:
		p.placeFeed(x)
	case mapping:
		p.maps = append(p.maps, x)
	case placement:
		p.places = append(p.places, x)
	case rewired:
		p.faultf(fmt.Sprintf("stage %q", x.Source().Name()),
			"belongs to a pipeline already: connect it with To or Route before pipeline.New, or with Pipeline.Rewire")
	case entries:
		faults := len(p.faults)
		stages := p.members(name+", Entry", p.first(x.parts))
		if len(stages) == 0 && len(p.faults) == faults {
			p.faultf("Entry", "names no stage")
		}
		p.entry = append(p.entry, stages...)
	case engine.Staged:
		if c := engine.CoreOf(x); c != nil {
			p.add(c)
			if p.given[c] {
				p.faultf(stageName(c), "is given twice")
			}
			p.given[c] = true
			return
		}
		p.faultf(name, "is a stage that was not made with stage.New or stage.Each")
	default:
		p.faultf(name, "is a part for stagetest.Run, which New does not take")
	}
}

// add adds a stage unless the plan has it.
func (p *plan) add(c *engine.Core) {
	if _, there := p.given[c]; there {
		return
	}
	if p.given == nil {
		p.given = map[*engine.Core]bool{}
	}
	p.given[c] = false
	p.stages = append(p.stages, c)
}

// addAll adds the stages of a list, which may have been given before, or lead
// to stages that are there.
func (p *plan) addAll(list part.List) (stages []*engine.Core) {
	for _, x := range list {
		switch x := x.(type) {
		case part.Fault:
			p.faultf(x.Name, "%s", x.Problem)
		case flow:
			stages = append(stages, p.addAll(x.Parts())...)
		case engine.Staged:
			if c := engine.CoreOf(x); c != nil {
				if !slices.Contains(p.present, c) {
					p.add(c)
				}
				stages = append(stages, c)
				continue
			}
			p.faultf("Flow", "is nil, or was not made with a function of package stage")
		}
	}
	return stages
}

// first returns the parts with the first stage of each flow in place of the
// flow. The others are added by the parts that connect them.
func (p *plan) first(parts []Part) []Part {
	parts = slices.Clone(parts)
	for i, x := range parts {
		if f, ok := x.(flow); ok {
			if all := f.Parts(); len(all) > 1 {
				p.addAll(all)
				parts[i] = all[0]
			}
		}
	}
	return parts
}

// members adds the stages among the parts of a group or an entry and returns
// them; of a flow it returns all stages. It places other parts as usual.
func (p *plan) members(name string, parts []Part) (stages []*engine.Core) {
	for i, x := range parts {
		switch x := x.(type) {
		case flow:
			stages = append(stages, p.addAll(x.Parts())...)
			continue
		case part.List:
			stages = append(stages, p.addAll(x)...)
			continue
		case engine.Staged:
			if c := engine.CoreOf(x); c != nil {
				p.add(c)
				stages = append(stages, c)
				continue
			}
		}
		if j, ok := x.(joined); ok {
			stages = append(stages, p.members(name, j)...)
			continue
		}
		if g, ok := x.(*group); ok {
			p.faultf(name, "group %q cannot be in it: groups have stages only", g.name)
			continue
		}
		p.place(fmt.Sprintf("%s, part %d", name, i+1), x)
	}
	return stages
}

// distinct removes stages that are in a list again: a flow's parts have the
// stages that it leads to.
func distinct(stages []*engine.Core) (all []*engine.Core) {
	for _, c := range stages {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// check returns all faults of the parts of New.
func (p *plan) check() error {
	if p.name == "" {
		p.faultf("New", "a pipeline needs a name")
	}
	p.checkName("New", p.name)
	p.makeIndex()
	p.checkOptions()
	p.checkStages()
	p.checkWires()
	p.checkGroups()
	p.checkMaps()
	p.checkFeeds()
	p.checkLetters()
	p.checkEdges()
	p.checkPlaces()
	p.checkStanding()
	p.checkCheckpoint()
	p.checkParks()
	return errors.Join(p.faults...)
}

// checkName checks that a name can be shown: logs, metrics and drawings are
// UTF-8.
func (p *plan) checkName(part, name string) {
	if !utf8.ValidString(name) {
		p.faultf(part, "the name is not UTF-8")
	}
	if len(name) > plain.LongestName {
		p.faultf(part, "%s", plain.NameTooLong)
	}
}

func (p *plan) checkOptions() {
	for _, f := range p.set.flaws {
		p.faultf(f.option, "%s", f.problem)
	}
	if p.set.controls > 1 {
		p.faultf("Control", "is given %d times; give all policies to one Control", p.set.controls)
	}
	for _, err := range checkPolicies(p.set.policies, p.stages) {
		p.faultf("Control", "%v", err)
	}
	p.checkControllers()
	if p.set.strategy > supervisor.OneForAll {
		p.faultf("Supervise", "no such strategy: %d", p.set.strategy)
	}
	in := p.set.intensity
	if in.Restarts < 0 || in.Within < 0 || in.Restarts > 0 && in.Within == 0 {
		p.faultf("Intensity", "%d restarts within %v: needs a number and a period, neither negative", in.Restarts, in.Within)
	}
	if err := p.set.backoff.Check(); err != nil {
		p.faultf("Backoff", "%v", err)
	}
	if 0 < p.set.drain && p.set.drain < time.Microsecond {
		p.faultf("DrainTimeout", "%v must be 0 or at least %v: perhaps its unit is missing", p.set.drain, time.Microsecond)
	}
	if p.set.drain < 0 {
		p.faultf("DrainTimeout", "%v must not be negative", p.set.drain)
	}
	if p.set.grace < 0 {
		p.faultf("Grace", "%v must not be negative", p.set.grace)
	}
	if p.set.inFlight < 1 {
		p.faultf("MaxInFlight", "%d must be at least 1", p.set.inFlight)
	}
	p.checkFlight()
	switch keep := p.set.keep; {
	case keep.Most == -1 && keep.Dir != "":
		p.faultf("KeepLetters", "Most: -1 keeps no letters, and Dir: %q is to keep them", keep.Dir)
	case keep.Most < -1:
		p.faultf("KeepLetters", "Most: %d must be -1, for none, or more", keep.Most)
	}
	if p.set.keep.Bytes < -1 {
		p.faultf("KeepLetters", "Bytes: %d must be -1, for none, or more", p.set.keep.Bytes)
	}
}

// checkControllers checks the controllers of groups and single stages.
func (p *plan) checkControllers() {
	known := map[string]bool{}
	for _, own := range p.set.groups {
		part := fmt.Sprintf("ControlFor(%q)", own.group)
		if problem := ungoverned(p.groups, p.stages, own.group); problem != "" {
			p.faultf(part, "%s", problem)
		}
		if known[own.group] {
			p.faultf(part, "it has a controller already")
		}
		known[own.group] = true
		for _, err := range checkPolicies(own.policies, p.stages) {
			p.faultf(part, "%v", err)
		}
	}
}

func (p *plan) checkStages() {
	if len(p.stages) == 0 && len(p.feeds) == 0 {
		p.faultf("New", "a pipeline needs at least one stage")
	}
	names, present := map[string]*engine.Core{}, map[*engine.Core]bool{}
	for _, c := range p.present {
		names[c.Name()], present[c] = c, true
	}
	for _, c := range p.stages {
		if present[c] {
			p.faultf(stageName(c), "is part of this pipeline already")
			continue
		}
		if other := names[c.Name()]; other != nil && c.Name() != "" {
			p.faultf(stageName(c), "there is another stage of that name: one was made at %s, the other at %s", other.Spec().Made(), c.Spec().Made())
		}
		if c.Name() == poolsChild || c.Name() == controllersChild {
			p.faultf(stageName(c), "the name is taken by the pipeline itself")
		}
		names[c.Name()] = c
		p.faults = append(p.faults, c.Spec().Faults()...)
	}
}

func (p *plan) checkWires() {
	wired := map[behaviour.Outlet]bool{}
	for i, w := range p.wires {
		part := fmt.Sprintf("wire %d", i+1)
		if w.port == nil {
			p.faultf(part, "the port is nil")
			continue
		}
		part = fmt.Sprintf("port %q", w.port.Name())
		switch {
		case w.to == nil:
			p.faultf(part, "is wired to no stage: its target is nil, or a port")
		case !p.index.stages[w.to]:
			p.faultf(part, "is wired to stage %q, which is not part of this pipeline", w.to.Name())
		case wired[w.port] || w.port.Inlet() != nil:
			p.faultf(part, "is wired twice")
		case !p.index.owners[w.port]:
			p.faultf(part, "no stage declares it; add stage.Out to the stage that forwards to it")
		}
		wired[w.port] = true
	}
	for _, c := range p.stages {
		p.checkOuts(c, wired)
	}
}

// checkAdded returns all faults of the parts of Add.
func (p *plan) checkAdded() error {
	p.makeIndex()
	p.checkStages()
	p.checkWires()
	p.checkFeeds()
	p.checkStanding()
	p.checkLetters()
	p.checkAddedStates()
	p.checkParks()
	if len(p.groups) > 0 {
		p.faultf("Group", "stages that are added cannot be in a group")
	}
	if len(p.entry) > 0 {
		p.faultf("Entry", "is for New")
	}
	if len(p.maps) > 0 {
		p.faultf("Assign", "is for New")
	}
	if len(p.places) > 0 {
		p.faultf("RunsHere", "is for New")
	}
	return errors.Join(p.faults...)
}

// checkOuts checks that each port that a stage declares leads to a stage of
// this pipeline, and that each stage is in it.
func (p *plan) checkOuts(c *engine.Core, wired map[behaviour.Outlet]bool) {
	for _, port := range c.Spec().Outs() {
		if port == nil || wired[port] {
			continue
		}
		_, ours := p.index.places[port.Inlet()]
		_, direct := port.(engine.Staged)
		switch {
		case ours:
		case direct:
			p.faultf(stageName(c), "forwards to %q, which is not part of this pipeline; "+
				"for a stage of another pipeline use a channel, see source.Chan", port.Name())
		case port.Inlet() == nil:
			p.faultf(stageName(c), "port %q is not wired; add pipeline.Wire", port.Name())
		default:
			p.faultf(stageName(c), "port %q leads to %q, which is not part of this pipeline", port.Name(), port.Inlet().Name())
		}
	}
}

// checkGroups checks that each stage is in at most one group, and that groups
// have names, stages and workers.
func (p *plan) checkGroups() {
	names, of := map[string]bool{}, map[*engine.Core]string{}
	for _, g := range p.groups {
		part := fmt.Sprintf("group %q", g.name)
		switch {
		case g.name == "":
			p.faultf(part, "a group needs a name")
		case names[g.name]:
			p.faultf(part, "there is another group of that name")
		case slices.ContainsFunc(p.stages, func(c *engine.Core) bool { return c.Name() == g.name }):
			p.faultf(part, "there is a stage of that name")
		}
		names[g.name] = true
		p.checkName(part, g.name)
		if len(g.stages) == 0 {
			p.faultf(part, "has no stages")
		}
		if g.fewest < 1 || g.fewest > g.most || g.most > controller.MostWorkers {
			p.faultf(part, "%d to %d workers: needs at least 1, and at most %d", g.fewest, g.most, controller.MostWorkers)
		}
		for _, c := range g.stages {
			if c.Spec().Blocking() && c.Inbox().Config().Holder != nil {
				p.faultf(stageName(c), "has windows and so a worker of its own, and is in group %q", g.name)
			} else if c.Spec().Blocking() {
				p.faultf(stageName(c), "is Blocking, so it needs workers of its own, and is in group %q", g.name)
			}
			if other, ok := of[c]; ok {
				p.faultf(stageName(c), "is in group %q and in group %q", other, g.name)
			}
			of[c] = g.name
		}
	}
}

// checkMaps checks that each stage or group that is mapped to a process exists
// and is mapped once.
func (p *plan) checkMaps() {
	of := map[string]string{}
	for _, m := range p.maps {
		part := fmt.Sprintf("Assign(%q)", m.process)
		if m.process == "" {
			p.faultf(part, "a process needs a name")
		}
		p.checkName(part, m.process)
		for _, name := range m.names {
			if other, ok := of[name]; ok {
				p.faultf(part, "%q is mapped to %q already", name, other)
			} else if problem := p.unmappable(name); problem != "" {
				p.faultf(part, "%q %s", name, problem)
			}
			of[name] = m.process
		}
	}
}

// checkPlaces checks where the stages run, and drops the feeds of stages that
// run elsewhere.
func (p *plan) checkPlaces() {
	if len(p.places) == 0 {
		return
	}
	at := placing{
		name: p.name, places: p.places, maps: p.maps, stages: p.stages, of: p.processes(), edges: p.edges(), entry: p.entry, faultf: p.faultf,
		feeds: p.feeds,
	}
	at.check()
	p.feeds, p.away, p.lines = at.feeds, at.away, at.lines
}

// processes returns the process that each stage is mapped to.
func (p *plan) processes() map[*engine.Core]string {
	named, of := map[string]string{}, map[*engine.Core]string{}
	for _, m := range p.maps {
		for _, name := range m.names {
			named[name] = m.process
		}
	}
	for _, g := range p.groups {
		for _, c := range g.stages {
			of[c] = named[g.name]
		}
	}
	for _, c := range p.stages {
		if _, grouped := of[c]; !grouped {
			of[c] = named[c.Name()]
		}
	}
	return of
}

// unmappable returns why a name cannot be mapped to a process, "" if it can.
func (p *plan) unmappable(name string) string {
	if slices.ContainsFunc(p.groups, func(g grouping) bool { return g.name == name }) {
		return ""
	}
	i := slices.IndexFunc(p.stages, func(c *engine.Core) bool { return c.Name() == name })
	if i < 0 {
		return "is neither a group nor a stage of this pipeline"
	}
	for _, g := range p.groups {
		if slices.Contains(g.stages, p.stages[i]) {
			return fmt.Sprintf("is in group %q, which is mapped as a whole", g.name)
		}
	}
	return ""
}

// checkEdges finds stages that no path leads to, if the entries are known, and
// loops without slack: loops of a single stage with the capacity for a single
// command, so that a command that comes back is always one too many.
func (p *plan) checkEdges() {
	edges := p.edges()
	for i, c := range p.stages {
		if slices.Contains(edges[i], i) && c.Inbox().Settings().Knobs().Capacity == 1 {
			p.faultf(stageName(c), "is a loop without slack: it forwards to itself and its capacity is one command; needs Capacity(2)")
		}
	}
	if len(p.entry) == 0 {
		return
	}
	reached := map[int]bool{}
	for _, c := range p.entry {
		p.follow(edges, slices.Index(p.stages, c), reached)
	}
	for _, f := range p.feeds {
		if i := slices.Index(p.stages, f.core); i >= 0 {
			p.follow(edges, i, reached)
		}
	}
	for i, c := range p.stages {
		if !reached[i] {
			p.faultf(stageName(c), "is unreachable: no declared port leads to it from an entry; stage.Out declares ports and stages")
		}
	}
}

// follow adds a stage, and the stages that can be reached from it, to reached.
func (p *plan) follow(edges [][]int, from int, reached map[int]bool) {
	if reached[from] {
		return
	}
	reached[from] = true
	for _, to := range edges[from] {
		p.follow(edges, to, reached)
	}
}

// edges returns the declared edges: for each stage, the stages that its ports
// lead to.
func (p *plan) edges() [][]int {
	edges := make([][]int, len(p.stages))
	for i, c := range p.stages {
		for _, port := range c.Spec().Outs() {
			if port == nil {
				continue
			}
			var inlet *behaviour.Inlet
			if to := p.index.wired[port]; to != nil {
				inlet = to.Inbox().Inlet()
			} else {
				inlet = port.Inlet()
			}
			if to, ours := p.index.places[inlet]; ours {
				edges[i] = append(edges[i], to)
			}
		}
	}
	return edges
}

// aimed is implemented by a policy that may be about one stage.
type aimed interface {
	// AimsAt returns the name of the stage, or nothing.
	AimsAt() string
}

// checkPolicies returns the faults of policies for stages, alone and together.
func checkPolicies(policies []controller.Policy, stages []*engine.Core) (faults []error) {
	owner := map[controller.Knob]string{}
	for _, policy := range policies {
		if engine.IsNil(policy) {
			faults = append(faults, nilPolicy(policy))
			continue
		}
		if err := policy.Check(); err != nil {
			faults = append(faults, err)
		}
		if a, ok := policy.(aimed); ok && a.AimsAt() != "" && !slices.ContainsFunc(stages, func(c *engine.Core) bool { return c.Name() == a.AimsAt() }) {
			faults = append(faults, fmt.Errorf("policy %q is about stage %q, which is not part of the pipeline", policy.Name(), a.AimsAt()))
		}
		if len(policies) == 1 {
			break
		}
		claimer, ok := policy.(controller.Claimer)
		if !ok {
			faults = append(faults, fmt.Errorf("policy %q does not claim knobs, so it cannot be one of several; see controller.Claimer",
				policy.Name()))
			continue
		}
		for _, k := range claimer.Claims() {
			if other, taken := owner[k]; taken {
				faults = append(faults, fmt.Errorf("policies %q and %q both turn the knob %q", other, policy.Name(), k))
			}
			owner[k] = policy.Name()
		}
	}
	return faults
}

// nilPolicy returns the fault of a policy that is nil, with its type if it is a
// nil pointer to one.
func nilPolicy(policy controller.Policy) error {
	if policy == nil {
		return errors.New("the policy is nil")
	}
	return fmt.Errorf("the policy is a nil %T", policy)
}

// attach attaches the inboxes to the pipeline and connects the wires. It comes
// last, so that the parts of a pipeline that was refused are unchanged.
func (p *plan) attach(pl *inbox.Pipeline) error {
	for i, c := range p.stages {
		if pl.Attach(c.Inbox()) {
			continue
		}
		for _, d := range p.stages[:i] {
			pl.Detach(d.Inbox())
		}
		if of := c.Inbox().Pipeline(); of == pl {
			p.faultf(stageName(c), "was removed from this pipeline: a stage cannot be added again, so make a new one")
		} else {
			p.faultf(stageName(c), "is part of another pipeline already: %q", of.Name)
		}
		return errors.Join(p.faults...)
	}
	for _, w := range p.wires {
		if err := w.connect(); err != nil {
			return err
		}
	}
	return nil
}

// ungoverned returns why no controller of its own can be given to a group or
// stage; "" if it can.
func ungoverned(groups []grouping, stages []*engine.Core, name string) (problem string) {
	if hasGroup(groups, name) {
		return ""
	}
	c := named(stages, name)
	if c == nil {
		return "there is no group of that name, and no stage outside the groups"
	}
	for _, g := range groups {
		if slices.Contains(g.stages, c) {
			return fmt.Sprintf("the stage is in group %q, which has one controller for all of its stages", g.name)
		}
	}
	return ""
}

// named returns the stage of a name, nil if there is none.
func named(stages []*engine.Core, name string) *engine.Core {
	if i := slices.IndexFunc(stages, func(c *engine.Core) bool { return c.Name() == name }); i >= 0 {
		return stages[i]
	}
	return nil
}

// hasGroup reports whether the pipeline declares a group.
func hasGroup(groups []grouping, name string) bool {
	return slices.ContainsFunc(groups, func(g grouping) bool { return g.name == name })
}

// placeFeed adds a feed, and its stage unless the pipeline has it.
func (p *plan) placeFeed(f *fed) {
	p.feeds = append(p.feeds, f)
	if slices.Contains(p.present, f.core) {
		return
	}
	switch x := f.stage.(type) {
	case flow:
		p.addAll(x.Parts())
	case engine.Staged:
		p.add(engine.CoreOf(x))
	}
}

// checkFeeds checks that each feed has a name of its own, a stage and a source.
func (p *plan) checkFeeds() {
	names := map[string]bool{}
	for _, name := range p.fed {
		names[name] = true
	}
	for _, f := range p.feeds {
		part := fmt.Sprintf("Feed %q", f.name)
		switch {
		case f.name == "":
			p.faultf(part, "a feed needs a name")
		case names[f.name]:
			p.faultf(part, "there is another feed of that name")
		}
		names[f.name] = true
		p.checkName(part, f.name)
		switch {
		case f.problem != "":
			p.faultf(part, "%s", f.problem)
		case f.refused != "":
			p.faultf(part, "%s", f.refused)
		}
	}
}

// checkStanding checks that no feed waits for ever. It comes when it is known
// which stages and feeds run in this process.
func (p *plan) checkStanding() {
	for _, f := range p.feeds {
		if f.carried || f.problem != "" || f.refused != "" {
			continue
		}
		part := fmt.Sprintf("Feed %q", f.name)
		f.stands = passage{p.after}.standsStill(f.core)
		f.standsFor = p.standsFor(f)
		if why := f.standsFor(f.bound); why != "" {
			p.faultf(part, "%s", why)
		}
		if p.set.checkpoint != nil {
			f.stands = "has a checkpoint of its own, and the pipeline has a Checkpoint: use one of the two"
		}
		if f.saves && f.stands != "" {
			p.faultf(part, "%s", f.stands)
		}
	}
}

// standsFor returns a function for [fed.standsFor]. The function also says why
// the source cannot feed a stage with ParkOnFailure: a source with such a bound
// delivers failed commands again itself. A window to which other feeds lead is
// closed by their commands, too.
func (p *plan) standsFor(f *fed) func(feed.Bound) string {
	return func(b feed.Bound) string {
		if b.Most == 0 {
			return ""
		}
		way := passage{p.after}
		for _, c := range slices.Concat(p.present, p.stages) {
			if c.Inbox().Settings().Parks() && way.leads(f.core, c) {
				return fmt.Sprintf("%s delivers a command that has failed again, and ParkOnFailure of stage %q keeps it in a letter: "+
					"use one of the two", b.Source, c.Name())
			}
		}
		for c, needs := range way.endless(f.core, b.Most) {
			others := len(p.fed) > 0 || slices.ContainsFunc(p.feeds, func(o *fed) bool { return o != f && o.core != nil && way.leads(o.core, c) })
			if !others {
				return fmt.Sprintf("%s has at most %d messages in the pipeline at once, and only %d commands close a window of stage %q, which "+
					"would wait for ever: give the window a time or a smaller count, or a larger %s", b.Source, b.Most, needs, c.Name(), b.Option)
			}
		}
		return ""
	}
}

// checkLetters checks that the commands of all stages can be kept in files.
func (p *plan) checkLetters() {
	if p.set.keep.Dir == "" {
		return
	}
	for _, c := range p.stages {
		if _, err := p.set.codecFor(c); err != nil {
			p.faultf(stageName(c), "KeepLetters cannot keep its commands in a directory: %v; change the type, or say how it is written with a letters.Type", err)
		}
	}
}

// checkParks checks that nothing contradicts stages whose keys wait for the
// letters of commands that have failed.
func (p *plan) checkParks() {
	processes := p.processes()
	for _, c := range p.stages {
		if !c.Inbox().Settings().Parks() {
			continue
		}
		if p.set.keep.Most < 0 {
			p.faultf(stageName(c), "has ParkOnFailure, by which keys wait for letters, and KeepLetters keeps none")
		}
		if len(p.places) > 0 && processes[c] != "" {
			p.faultf(stageName(c), "has ParkOnFailure, and Assign gives it to process %q: a carrier delivers a command that has failed again", processes[c])
		}
		if p.set.checkpoint != nil {
			p.faultf(stageName(c), "has ParkOnFailure, and a Checkpoint of the pipeline is saved when no command waits: use source.Checkpoint")
		}
	}
}

// checkCheckpoint checks that a checkpoint can save all that the stages hold.
func (p *plan) checkCheckpoint() {
	if p.set.checkpoint == nil {
		return
	}
	if len(p.feeds) == 0 {
		p.faultf("Checkpoint", "has no positions to save: the pipeline has no Feed")
	}
	if len(p.places) > 0 {
		p.faultf("Checkpoint", "cannot save the states of stages in other processes: see RunsHere")
	}
	for _, c := range p.stages {
		if s := c.Spec().Stateful(); s != nil && s.Unsavable() != "" {
			p.faultf("Checkpoint", "cannot save stage %q: %s", c.Name(), s.Unsavable())
		}
	}
}

// checkAddedStates checks that no added stage or feed has a state for the
// checkpoint: the next process would not know where the state belongs.
func (p *plan) checkAddedStates() {
	if p.set.checkpoint == nil {
		return
	}
	const added = "which is added while the pipeline runs: give it to New"
	for _, c := range p.stages {
		if c.Spec().Stateful() != nil {
			p.faultf("Checkpoint", "cannot save stage %q, %s", c.Name(), added)
		}
	}
	for _, f := range p.feeds {
		p.faultf("Checkpoint", "cannot save the position of Feed %q, %s", f.name, added)
	}
}

// after returns the stages of this process that the ports of a stage lead to. A
// command that is sent to another process has ended here.
func (p *plan) after(c *engine.Core) (next []*engine.Core) {
	all := slices.Concat(p.present, p.stages)
	for _, port := range c.Spec().Outs() {
		if to, ok := p.index.wired[port]; ok {
			next = append(next, to)
		} else if i, ok := p.index.places[port.Inlet()]; ok {
			next = append(next, all[i])
		}
	}
	return slices.DeleteFunc(next, func(to *engine.Core) bool { _, away := p.away[to]; return away })
}

// checkFlight finds faults of the options of Flight.
func (p *plan) checkFlight() {
	o := p.set.flight
	if o == nil {
		return
	}
	if o.Dir == "" {
		p.faultf("Flight", "Dir is empty: it must be the directory for the traces")
	}
	if o.Age < 0 || o.Bytes < 0 || o.Files < 0 || o.Pause < 0 {
		p.faultf("Flight", "Age: %v, Bytes: %d, Files: %d, Pause: %v must be 0, for the defaults, or more", o.Age, o.Bytes, o.Files, o.Pause)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Within)) {
		if !slices.ContainsFunc(p.stages, func(c *engine.Core) bool { return c.Name() == name }) {
			p.faultf("Flight", "Within has an objective for stage %q, which is not part of the pipeline", name)
		} else if o.Within[name] <= 0 {
			p.faultf("Flight", "Within: %v for stage %q must be positive", o.Within[name], name)
		}
	}
}
