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
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/supervisor"
)

// nameOf returns a part as its user knows it.
func nameOf(x Part) string {
	switch x := x.(type) {
	case nil:
		return "nil"
	case engine.Staged:
		return fmt.Sprintf("a %T that was not made with stage.New or stage.Each", x)
	case joined:
		return "a Subgraph"
	case *group:
		return fmt.Sprintf("Group %q", x.name)
	case wire:
		return "a Wire"
	case part.List:
		return "a To or Route from before the start"
	case *fed:
		return fmt.Sprintf("Feed %q", x.name)
	default:
		return "an option"
	}
}

// find returns the stage of the pipeline that a part is, or an error if it is
// none.
func (p *Pipeline) find(part Part) (*engine.Core, error) {
	c := engine.CoreOf(part)
	if c == nil {
		return nil, fmt.Errorf("pipeline %q: %s is not a stage", p.life.name, nameOf(part))
	}
	if slices.Contains(p.stages().stages, c) {
		return c, nil
	}
	return nil, fmt.Errorf("pipeline %q: stage %q: %w", p.life.name, c.Name(), ErrNotPart)
}

// Pause stops workers from taking commands from a stage's queue until
// [Pipeline.Resume]. Commands that workers hold are finished, and the queue
// takes commands as long as it is not full. A stage may be paused and drained
// at the same time; but a drain of a paused stage waits, and the log says so.
func (p *Pipeline) Pause(stage Part) error { return p.pause(stage, true) }

// Resume ends a pause of a stage.
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
	// Also while the pipeline stops: a pause may be ended while a stop waits
	// for that.
	return p.request(stopping, func() { p.control.Update(do) }, func() <-chan error { return p.control.Change(do) })
}

// request sends a request to the control loop and waits for the result. Before
// the start, when the loop does not run, it calls early instead. In a state
// after latest the request is refused.
func (p *Pipeline) request(latest state, early func(), send func() <-chan error) error {
	if err := p.checkCaller(); err != nil {
		return err
	}
	p.life.mu.Lock()
	st := p.life.state
	if st == made {
		early()
	}
	p.life.mu.Unlock()
	switch {
	case st == made:
		return nil
	case st > latest:
		return fmt.Errorf("pipeline %q: %w", p.life.name, ErrStopped)
	}
	select {
	case err := <-send():
		return err
	case <-p.life.stopped:
		return fmt.Errorf("pipeline %q: %w", p.life.name, ErrStopped)
	}
}

// ErrFromPolicy reports that a policy called a method of its own pipeline from
// within its Control or New. The pipeline would wait for that call to return,
// and the call for the pipeline.
var ErrFromPolicy = errors.New("pipeline: called by a policy from within its Control or New, " +

	"which the pipeline waits for; decide with controller.Decisions, or call it in another goroutine")

// checkCaller returns [ErrFromPolicy] if the caller is a policy that the
// pipeline's control loop is calling at this moment.
func (p *Pipeline) checkCaller() error {
	if p.control.CalledByPolicy() {
		return fmt.Errorf("pipeline %q: %w", p.life.name, ErrFromPolicy)
	}
	return nil
}

// SetPolicy replaces the policies that control the pipeline; see [Control]. No
// command is lost or reordered: the queues stay as they are, and only the
// workers that visit them change. The new policies start from the pipeline's
// own settings, except that they take over the numbers of workers where a pool
// stays; other changes of the old policies are undone. If there is an error, it
// names the fault of the policies, and nothing has changed. A policy that calls
// SetPolicy, Pause, Resume, Add or Remove of its own pipeline from within its
// Control or New gets [ErrFromPolicy].
//
// Groups that have a controller of their own keep it; see
// [Pipeline.SetGroupPolicy].
func (p *Pipeline) SetPolicy(policy controller.Policy, more ...controller.Policy) error {
	return p.setPolicies("set policy", "", append([]controller.Policy{policy}, more...))
}

// SetGroupPolicy replaces the policies of the controller that a [Group], or a
// stage that is in no group, has of its own, as [Pipeline.SetPolicy] does for
// the rest of the pipeline; see [ControlFor]. Nothing changes for other stages.
// If no policies are given, the group or stage loses its own controller, and
// the pipeline's governs it. The error is [ErrNotPart] if the pipeline has
// neither a group of that name, nor a stage outside the groups.
func (p *Pipeline) SetGroupPolicy(name string, policies ...controller.Policy) error {
	what := fmt.Sprintf("set policy for %q", name)
	if problem := ungoverned(p.groups, p.stages().stages, name); problem != "" {
		return fmt.Errorf("pipeline %q: %s: %s: %w", p.life.name, what, problem, ErrNotPart)
	}
	return p.setPolicies(what, name, slices.Clone(policies))
}

func (p *Pipeline) setPolicies(what, group string, policies []controller.Policy) error {
	if faults := checkPolicies(policies, p.stages().stages); len(faults) > 0 {
		return fmt.Errorf("pipeline %q: %s: %w", p.life.name, what, errors.Join(faults...))
	}
	return p.request(running,
		func() { p.control.SetPolicies(group, policies) },
		func() <-chan error { return p.control.Use(group, policies) })
}

// Add adds stages, with their wires and feeds, to a pipeline that runs; or a
// [Feed] to a stage that is there. Ports that are wired already stay as they
// are, so a new stage is reached by Submit, by handlers that forward to it
// directly, by the ports of other new stages, or by [Pipeline.Rewire]. As with
// [New], the error joins all faults; then nothing has changed. If a stage
// cannot start, the new stages are removed again.
func (p *Pipeline) Add(ctx context.Context, parts ...Part) error {
	link.CheckContext(ctx, "pipeline: Add")
	if err := p.checkCaller(); err != nil {
		return err
	}
	p.growing.Lock()
	defer p.growing.Unlock()
	if !p.life.in(running) { // before the parts are checked: stages that a stop kept out may still have their names
		return fmt.Errorf("pipeline %q: add: %w", p.life.name, ErrNotRunning)
	}
	plan := &plan{name: p.life.name, set: p.set, present: p.stages().stages, fed: p.feeds.names()}
	plan.sort(parts)
	if err := plan.checkAdded(); err != nil {
		return err
	}
	feeds, ok := p.feeds.add(plan.feeds)
	if !ok { // Run is about to stop the pipeline, because all feeds that it had are exhausted
		return fmt.Errorf("pipeline %q: add: %w", p.life.name, ErrNotRunning)
	}
	err := plan.attach(p.host)
	if err == nil && len(plan.stages) > 0 {
		err = p.addStages(ctx, plan.stages)
	}
	if err != nil {
		p.feeds.drop(feeds)
		return err
	}
	p.feeds.start(feeds)
	return nil
}

// ErrNotRunning reports that a method can be called only while the pipeline
// runs.
var ErrNotRunning = errors.New("pipeline: not running")

// startAdded starts the own pool of a stage that is added, and waits until its
// workers have started, or ctx ends. If there is an error, the pool is still to
// be removed. Only this function waits for the first start of the pool: if the
// tree did, other pools could not start or restart meanwhile.
func (p *Pipeline) startAdded(ctx context.Context, c *engine.Core) error {
	started := make(chan error, 1)
	report := func(err error) {
		select {
		case started <- err:
		default: // the first report counts
		}
	}
	again := false
	spawn := func(by supervisor.Spawner, name string, ready func(error)) (*supervisor.PID, error) {
		if again {
			return c.Spawn(by, name, func(err error) { report(err); ready(err) })
		}
		again = true
		ready(nil)
		return c.Spawn(by, name, report)
	}
	tree := p.pools.add(c.Pool)
	_, err := tree.Add(ctx, supervisor.Child{Name: c.Name(), Spawn: spawn, Patience: p.grace()})
	switch {
	case errors.Is(err, supervisor.ErrStopped): // the pipeline gives up or is stopped
		return fmt.Errorf("%w: %w", ErrStopped, err)
	case err != nil:
		return err
	}
	select {
	case err := <-started:
		return err
	case <-tree.Done():
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// addStages starts stages that were checked, and lets commands in.
func (p *Pipeline) addStages(ctx context.Context, stages []*engine.Core) error {
	was := p.stages()
	all := slices.Clone(was.all)
	for _, c := range stages {
		p.graph.Add(c.Inbox())
		c.Attach(&p.env)
		all = append(all, c.Inbox())
	}
	for _, c := range stages {
		p.graph.Declare(c.Inbox(), c.Spec().Outs())
	}
	p.current.Store(newStageSet(append(slices.Clone(was.stages), stages...), all))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.life.halting, func() { cancel(ErrStopped) })() //nolint:contextcheck // two contexts end this one
	for _, c := range slices.Backward(stages) {
		if err := p.startAdded(ctx, c); err != nil {
			for _, d := range stages {
				p.removeStage(d)
			}
			return fmt.Errorf("pipeline %q: add: %w", p.life.name, err)
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
		c.Inbox().Phases().Open()
		if p.host.Draining.Load() {
			c.Inbox().Phases().Drain() // as all other stages are
		}
	}
	return nil
}

// Remove drains a stage and removes it from a pipeline that runs. It stops the
// feeds of the stage, closes the stage, and waits until all its commands have
// ended or were handed on. Commands that other stages forward to it afterwards
// end with an error, so remove a stage when none forwards to it any more:
// [Pipeline.Rewire] makes them lead elsewhere. Its accounts stay in the
// accounts of the pipeline, and take some kilobytes until the pipeline stops.
// If ctx ends first, or the pipeline stops, the stage stays closed and is not
// removed.
func (p *Pipeline) Remove(ctx context.Context, part Part) error {
	link.CheckContext(ctx, "pipeline: Remove")
	if err := p.checkCaller(); err != nil {
		return err
	}
	p.growing.Lock()
	defer p.growing.Unlock()
	c, err := p.find(part)
	if err != nil {
		return err
	}
	if len(p.stages().stages) == 1 {
		return fmt.Errorf("pipeline %q: stage %q: the last stage cannot be removed; stop the pipeline", p.life.name, c.Name())
	}
	if !p.life.in(running) {
		return fmt.Errorf("pipeline %q: remove: %w", p.life.name, ErrNotRunning)
	}
	if p.keeper != nil && (c.Spec().Stateful() != nil || p.feeds.feeds(c)) {
		return fmt.Errorf("pipeline %q: remove stage %q: the Checkpoint has a state or a position of it, without which the next process cannot start",
			p.life.name, c.Name())
	}
	for range p.feeds.stopOf(c, p.grace()) {
		defer p.feeds.ended(false)
	}
	c.Inbox().Phases().Close()
	if err := p.forget(ctx, func(e edge) bool { return e.to == c.Inbox() }); err != nil {
		return fmt.Errorf("pipeline %q: remove stage %q: %w", p.life.name, c.Name(), err)
	}
	if err := p.waitEmpty(ctx, c); err != nil {
		return err
	}
	p.removeStage(c)
	p.left = slices.DeleteFunc(p.left, func(e edge) bool { return e.from == c })
	return nil
}

// waitEmpty waits until a stage has no commands.
func (p *Pipeline) waitEmpty(ctx context.Context, c *engine.Core) error {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		s := inbox.Counts([]*inbox.Inbox{c.Inbox()})[0]
		if s.Queue.Load() == 0 && s.Out+s.Queue.Carried == 0 { // Out, Carried: a worker is still here that could not hand over
			return nil
		}
		select {
		case <-poll.C:
		case <-p.life.stopped:
			return fmt.Errorf("pipeline %q: remove stage %q: %w", p.life.name, c.Name(), ErrStopped)
		case <-ctx.Done():
			return fmt.Errorf("pipeline %q: remove stage %q: %d commands are still there: %w",
				p.life.name, c.Name(), s.Queue.Load(), context.Cause(ctx))
		}
	}
}

// removeStage removes a stage. Commands that still arrive at its inbox end
// there. If the pipeline stops meanwhile, no policies are left to notify, and
// the stage is removed all the same.
func (p *Pipeline) removeStage(c *engine.Core) {
	c.Inbox().Phases().Halt()()
	was := p.stages()
	p.current.Store(newStageSet(slices.DeleteFunc(slices.Clone(was.stages), func(o *engine.Core) bool { return o == c }), was.all))
	p.graph.Remove(c.Inbox())
	_ = p.change(func(s *control.State) { s.Remove(c.Name()) })
	c.Bind(nil)
	c.Scale(part.Seal{}, 0)
	p.pools.remove(c.Pool)
	c.CloseEndpoint()
}
