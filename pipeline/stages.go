package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/control"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/graph"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/need"
	"github.com/golda-dev/golda/internal/part"
)

// stageSet is which stages there are, in the order of the pipeline. It is not changed;
// when stages come and go another takes its place.
type stageSet struct {
	stages []*engine.Core
	// all are the inboxes by place, those of stages that were removed among them: their
	// accounts are the pipeline's, too.
	all []*inbox.Inbox
}

func newStageSet(stages []*engine.Core, all []*inbox.Inbox) *stageSet { return &stageSet{stages, all} }

func (p *Pipeline) stages() *stageSet { return p.present.Load() }

// readAccounts returns which stages there are and their accounts, of one instant, copied as is said: a
// stage that came meanwhile may have handed on what would then have come from nowhere.
func (p *Pipeline) readAccounts(copied func([]*inbox.Inbox) []inbox.Accounts) (*stageSet, []inbox.Accounts) {
	for {
		r := p.stages()
		if sheets := copied(r.all); p.stages() == r {
			return r, sheets
		}
	}
}

// of is a stage's sheet.
func (r *stageSet) of(sheets []inbox.Accounts, i int) *inbox.Accounts {
	return &sheets[r.stages[i].Inbox().Place]
}

// plant is the pipeline as its control loop reads it.
type plant struct{ p *Pipeline }

// Stages returns the stages, in the order of the pipeline.
func (pl plant) Stages() []*engine.Core { return pl.p.stages().stages }

// Read returns the stages and their accounts, all of one instant.
func (pl plant) Read() control.Reading {
	r, accounts := pl.p.readAccounts(inbox.Counts)
	return control.Reading{Stages: r.stages, Accounts: accounts, InFlight: int(inFlight(accounts))}
}

// Shape returns the graph of the stages.
func (pl plant) Shape() *graph.Shape { return pl.p.graph.Shape() }

// newControl returns the pipeline's control loop.
func (p *Pipeline) newControl() *control.Loop {
	cfg := control.Config{
		Plant: plant{p}, Host: p.host, Env: &p.env, Pools: &p.pools, Log: p.set.log, Limiter: p.limiter,
		Policies: map[string][]controller.Policy{"": p.set.policies},
	}
	for _, own := range p.set.groups {
		cfg.Policies[own.group] = own.policies
	}
	for _, g := range p.groups {
		of := control.Group{Name: g.name, Fewest: g.fewest, Most: g.most}
		for _, c := range g.stages {
			of.Stages = append(of.Stages, c)
		}
		cfg.Groups = append(cfg.Groups, of)
	}
	return control.New(cfg)
}

// newGraph returns the graph of stages, with the edges of their ports.
func newGraph(host *inbox.Pipeline, stages []*engine.Core) *graph.Graph {
	g := graph.New(host)
	for _, c := range stages {
		g.Add(c.Inbox())
	}
	for _, c := range stages {
		g.Declare(c.Inbox(), c.Outs())
	}
	return g
}

// called is what a user calls a part.
func called(part Part) string {
	switch part := part.(type) {
	case nil:
		return "nil"
	case cored:
		return fmt.Sprintf("a %T that was not made with stage.New or stage.Each", part)
	case joined:
		return "a Join"
	case *group:
		return fmt.Sprintf("Group %q", part.name)
	case wire:
		return "a Wire"
	default:
		return "an option"
	}
}

// find returns a stage of the pipeline, or says that it is none.
func (p *Pipeline) find(part Part) (*engine.Core, error) {
	x, ok := part.(cored)
	if !ok || x.Core() == nil {
		return nil, fmt.Errorf("pipeline %q: %s is no stage", p.name, called(part))
	}
	if c := x.Core(); slices.Contains(p.stages().stages, c) {
		return c, nil
	}
	return nil, fmt.Errorf("pipeline %q: stage %q: %w", p.name, x.Core().Name(), ErrNoSuchStage)
}

// ErrNoSuchStage reports that a stage is not part of the pipeline, or no longer.
var ErrNoSuchStage = errors.New("not a stage of this pipeline")

// ErrNoSuchGroup reports that the pipeline has no group of that name.
var ErrNoSuchGroup = errors.New("not a group of this pipeline")

// Pause has nothing be taken from a stage's queue until [Pipeline.Resume]; what is in
// hand is finished. The queue takes commands as long as it has room. To be paused and to be
// drained are two things, and a stage may be both; but while it is paused a drain of it
// waits, and the log says so.
func (p *Pipeline) Pause(stage Part) error { return p.pause(stage, true) }

// Resume ends a pause.
func (p *Pipeline) Resume(stage Part) error { return p.pause(stage, false) }

func (p *Pipeline) pause(part Part, on bool) error {
	c, err := p.find(part)
	if err != nil {
		return err
	}
	return p.change(func(s *control.State) { s.SetPaused(c.Name(), on) })
}

// change changes the desired state, and waits until that is done.
func (p *Pipeline) change(do func(*control.State)) error {
	// Also while the pipeline stops: a pause may be ended while a stop waits for that.
	return p.request(stopping, func() { p.control.Update(do) }, func() <-chan error { return p.control.Change(do) })
}

// request sends a request to the control loop and waits for the result. Before the start, when the loop does not run, it
// calls early instead. In a state after latest the request is refused.
func (p *Pipeline) request(latest state, early func(), send func() <-chan error) error {
	if err := p.uncontrolled(); err != nil {
		return err
	}
	p.mu.Lock()
	st := p.state
	if st == made {
		early()
	}
	p.mu.Unlock()
	switch {
	case st == made:
		return nil
	case st > latest:
		return fmt.Errorf("pipeline %q: %w", p.name, ErrStopped)
	}
	select {
	case err := <-send():
		return err
	case <-p.stopped:
		return fmt.Errorf("pipeline %q: %w", p.name, ErrStopped)
	}
}

// ErrFromPolicy refuses what a policy asked of its own pipeline from within a call of its Control or New: the pipeline would
// wait for that call to return, and the call for the pipeline.
var ErrFromPolicy = errors.New("pipeline: called by a policy from within its Control or New, " +
	"which the pipeline waits for; decide with controller.Decisions, or call it in another goroutine")

// uncontrolled returns [ErrFromPolicy] if the caller is a policy of the pipeline that is being asked now.
func (p *Pipeline) uncontrolled() error {
	if p.control.CalledByPolicy() {
		return fmt.Errorf("pipeline %q: %w", p.name, ErrFromPolicy)
	}
	return nil
}

// Use has the pipeline run by another policy, or by several, from now on; see
// [Control]. No command is lost and none is reordered for it: queues stay where they
// are, only who comes to them changes. The new policies begin with the pipeline's own
// settings, but for the numbers of workers, which they take over where a pool stays;
// what the old ones had changed otherwise is set back. An error says what is wrong with
// the policies, and nothing has changed then. A policy that calls Use, Pause, Resume, Add or Remove of its own pipeline
// from within its Control or New gets [ErrFromPolicy].
//
// Groups that have a controller of their own keep it, see [Pipeline.UseFor].
func (p *Pipeline) Use(policy controller.Policy, more ...controller.Policy) error {
	return p.use("use", "", append([]controller.Policy{policy}, more...))
}

// UseFor has a [Group] run by a policy of its own, or by several, from now on, as [Pipeline.Use] does for the rest of the pipeline; see
// [ControlFor]. Nothing changes for other stages. Without a policy the group has no controller of its own any more, and the
// pipeline's governs it. The error is [ErrNoSuchGroup] if the pipeline was made without a group of that name.
func (p *Pipeline) UseFor(group string, policies ...controller.Policy) error {
	what := fmt.Sprintf("use for group %q", group)
	if !hasGroup(p.groups, group) {
		return fmt.Errorf("pipeline %q: %s: %w", p.name, what, ErrNoSuchGroup)
	}
	return p.use(what, group, slices.Clone(policies))
}

func (p *Pipeline) use(what, group string, policies []controller.Policy) error {
	if faults := checkPolicies(policies); len(faults) > 0 {
		return fmt.Errorf("pipeline %q: %s: %w", p.name, what, errors.Join(faults...))
	}
	return p.request(running,
		func() { p.control.SetPolicies(group, policies) },
		func() <-chan error { return p.control.Use(group, policies) })
}

// Add takes further stages, with their wires, into a pipeline that runs. Wires of
// ports that were wired already stay as they are, so new stages are reached by Submit,
// by handlers that forward to them directly, or by ports that new stages bring. As in
// [New] all faults are told at once, and then nothing has changed. If a stage cannot
// start it is taken out again.
func (p *Pipeline) Add(ctx context.Context, parts ...Part) error {
	need.Context(ctx, "pipeline: Add")
	if err := p.uncontrolled(); err != nil {
		return err
	}
	p.growing.Lock()
	defer p.growing.Unlock()
	if !p.in(running) { // before the parts are looked at: stages that a stop kept out may still have their names
		return fmt.Errorf("pipeline %q: add: %w", p.name, ErrNotRunning)
	}
	plan := &plan{name: p.name, set: p.set, house: p.stages().stages}
	plan.sort(parts)
	if err := plan.checkMore(); err != nil {
		return err
	}
	if err := plan.attach(p.host); err != nil {
		return err
	}
	return p.move(ctx, plan.stages)
}

// ErrNotRunning refuses what can only be done while a pipeline runs.
var ErrNotRunning = errors.New("pipeline: not running")

// move brings stages in.
func (p *Pipeline) move(ctx context.Context, stages []*engine.Core) error {
	was := p.stages()
	all := slices.Clone(was.all)
	for _, c := range stages {
		p.graph.Add(c.Inbox())
		c.Attach(&p.env)
		all = append(all, c.Inbox())
	}
	for _, c := range stages {
		p.graph.Declare(c.Inbox(), c.Outs())
	}
	p.present.Store(newStageSet(append(slices.Clone(was.stages), stages...), all))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.halting, func() { cancel(ErrStopped) })() //nolint:contextcheck // two contexts end this one
	for _, c := range slices.Backward(stages) {
		if err := p.pools.Start(ctx, c.Pool); err != nil {
			for _, d := range stages {
				p.forget(d)
			}
			return fmt.Errorf("pipeline %q: add: %w", p.name, err)
		}
	}
	err := p.change(func(s *control.State) {
		for _, c := range stages {
			s.Add(c)
		}
	})
	if err != nil {
		return err
	}
	for _, c := range stages {
		c.OpenEndpoint()
		c.Inbox().Open()
		if p.host.Draining.Load() {
			c.Inbox().Drain() // as all others are
		}
	}
	return nil
}

// Remove drains a stage and takes it out of a pipeline that runs: it is closed, waited
// for until all that came to it has ended or gone on, and forgotten. What other stages
// forward to it from then on ends there with an error, so take it out when nobody does.
// Its accounts stay in those of the pipeline, and take some kilobytes until that stops. If
// ctx ends first, or the pipeline stops, the stage stays, closed.
func (p *Pipeline) Remove(ctx context.Context, part Part) error {
	need.Context(ctx, "pipeline: Remove")
	if err := p.uncontrolled(); err != nil {
		return err
	}
	p.growing.Lock()
	defer p.growing.Unlock()
	c, err := p.find(part)
	if err != nil {
		return err
	}
	if len(p.stages().stages) == 1 {
		return fmt.Errorf("pipeline %q: stage %q: the last stage cannot be removed; stop the pipeline", p.name, c.Name())
	}
	if !p.in(running) {
		return fmt.Errorf("pipeline %q: remove: %w", p.name, ErrNotRunning)
	}
	c.Inbox().Close()
	if err := p.await(ctx, c); err != nil {
		return err
	}
	p.forget(c)
	return nil
}

// await waits until nothing is in a stage any more.
func (p *Pipeline) await(ctx context.Context, c *engine.Core) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		s := inbox.Counts([]*inbox.Inbox{c.Inbox()})[0]
		if s.Queued+s.InHand+s.Delayed == 0 && s.Out+s.Carried == 0 { // nor is a worker here that could not hand over
			return nil
		}
		select {
		case <-look.C:
		case <-p.stopped:
			return fmt.Errorf("pipeline %q: remove stage %q: %w", p.name, c.Name(), ErrStopped)
		case <-ctx.Done():
			return fmt.Errorf("pipeline %q: remove stage %q: %d commands are still there: %w",
				p.name, c.Name(), s.Queued+s.InHand+s.Delayed, context.Cause(ctx))
		}
	}
}

// forget takes a stage out. What still comes to its room ends there. If the pipeline
// stops meanwhile there are no policies to be told, and the stage is out all the same.
func (p *Pipeline) forget(c *engine.Core) {
	c.Inbox().Halt()()
	c.EndTrial()
	was := p.stages()
	p.present.Store(newStageSet(slices.DeleteFunc(slices.Clone(was.stages), func(o *engine.Core) bool { return o == c }), was.all))
	p.graph.Remove(c.Inbox())
	_ = p.change(func(s *control.State) { s.Remove(c.Name()) })
	c.Bind(nil)
	c.Scale(part.Seal{}, 0)
	p.pools.Stop(c.Pool)
	c.CloseEndpoint()
}

// hasGroup reports whether the pipeline declares a group.
func hasGroup(groups []grouping, name string) bool {
	return slices.ContainsFunc(groups, func(g grouping) bool { return g.name == name })
}
