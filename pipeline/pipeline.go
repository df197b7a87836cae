package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/control"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/graph"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/letters"
	"github.com/golda-dev/golda/internal/logs"
	"github.com/golda-dev/golda/internal/need"
	"github.com/golda-dev/golda/supervisor"
)

// Pipeline is a set of stages that are checked, started and stopped together. Any goroutine may call its methods at any
// time.
type Pipeline struct {
	lifecycle
	set    settings
	groups []grouping // as they were declared
	maps   []mapping

	host    *inbox.Pipeline
	graph   *graph.Graph
	control *control.Loop
	pools   engine.Pools
	env     engine.Env // set by Start
	current atomic.Pointer[stageSet]

	log     *slog.Logger
	limiter *logs.Limiter
	letters mail

	quiet   broadcast  // sent when a stage that is drained has become empty
	growing sync.Mutex // held while stages are added or removed
}

// mail is what keeps and delivers letters.
type mail struct {
	box                        *letters.Box
	notifier                   *letters.Notifier
	dead, quarantine, failures Letters // the stores of box
}

// New makes a pipeline of stages, wires and options. The parts may be given in any order; the order of the stages is the order
// of the snapshot, and should be the one in which commands pass them. Nothing starts yet. The error joins all faults that
// were found, each a [*Fault] or a [*stage.Fault].
func New(name string, parts ...Part) (*Pipeline, error) {
	plan := &plan{name: name, set: defaults()}
	plan.sort(parts)
	if err := plan.check(); err != nil {
		return nil, err
	}
	p := &Pipeline{set: plan.set}
	p.init(name)
	p.log = slog.New(logs.Shield(plan.set.log.Handler())).With("pipeline", name)
	p.limiter = logs.NewLimiter(p.log)
	box := letters.NewBox(p.set.keep, p.log, p.resubmit)
	p.letters = mail{
		box:      box,
		notifier: letters.NewNotifier(p.limiter, p.set.hide, p.set.letters, p.set.failures),
		dead:     Letters{box.Dead}, quarantine: Letters{box.Quarantine}, failures: Letters{box.Failures},
	}
	p.host = &inbox.Pipeline{
		Base: time.Now(), Quiet: make(chan struct{}, 1),
		Keep: p.keep, Ended: p.ended, Full: p.filled,
		InFlight: p.load, MaxInFlight: plan.set.inFlight,
		RoundEnd: func(sp *inbox.SharedPool) {
			p.control.Notify(control.Event{Kind: controller.EventRoundEnd, Pool: sp.Name()})
		},
		Visited: func(sp *inbox.SharedPool) {
			p.control.Notify(control.Event{Kind: controller.EventVisits, Pool: sp.Name()})
		},
	}
	if err := plan.attach(p.host); err != nil {
		return nil, err
	}
	p.graph = newGraph(p.host, plan.stages)
	p.groups, p.maps = plan.groups, plan.maps
	p.host.Reach, p.host.InLoop = p.graph.Reach, p.graph.InLoop
	var inboxes []*inbox.Inbox
	for _, c := range plan.stages {
		inboxes = append(inboxes, c.Inbox())
	}
	p.current.Store(newStageSet(plan.stages, inboxes))
	p.control = p.newControl()
	return p, nil
}

// Name returns the pipeline's name.
func (p *Pipeline) Name() string { return p.name }

// Mapping returns which process is meant to run what, as set by [Map]: the processes, by the names of groups and of stages
// that are in no group. What was not mapped is left out.
func (p *Pipeline) Mapping() map[string]string {
	of := map[string]string{}
	for _, m := range p.maps {
		for _, name := range m.names {
			of[name] = m.process
		}
	}
	return of
}

// Start starts the stages, the last given first, then the control loop, and then lets commands in. If a stage cannot start, or
// ctx ends before all have started, those that did are stopped and the error says why. After the start only the values of ctx
// matter; handlers' contexts have them.
func (p *Pipeline) Start(ctx context.Context) error {
	need.Context(ctx, "pipeline: Start")
	if ctx.Err() != nil {
		return fmt.Errorf("pipeline %q: start: %w", p.name, context.Cause(ctx))
	}
	if err := p.enter(starting); err != nil {
		return err
	}
	p.host.Base = time.Now()
	env := p.environment(ctx)
	p.env = env
	for _, c := range p.stages().stages {
		c.Attach(&p.env)
	}
	p.pools.Attach(&p.env)
	err := p.control.Prepare() //nolint:contextcheck // a log line has no context
	if err == nil {
		err = p.launch(ctx, env)
	}
	if err != nil {
		p.cancel(err)
		p.fail(err)
		for _, c := range p.stages().stages {
			c.Clear()
		}
		p.letters.notifier.Close(false)
		p.finish(nil)
		return fmt.Errorf("pipeline %q: start: %w", p.name, err)
	}
	return nil
}

// launch starts the supervision tree and lets commands in, unless ctx ends or Stop is called first.
func (p *Pipeline) launch(ctx context.Context, env engine.Env) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.halting, func() { cancel(context.Cause(p.halting)) })() //nolint:contextcheck // two contexts end this one
	// A behaviour's Start gets the handlers' context. That context ends with ctx only while the pipeline is starting.
	unhook := context.AfterFunc(ctx, func() { p.cancel(context.Cause(ctx)) })
	tree, err := supervisor.Start(ctx, env.System, p.spec(env))
	ended := !unhook()
	if err != nil {
		return err
	}
	if ended || !p.open(tree) {
		tree.Stop()
		return cmp.Or(context.Cause(ctx), ErrStopped)
	}
	return nil
}

// environment returns what the stages share.
func (p *Pipeline) environment(ctx context.Context) engine.Env {
	system := p.set.system
	if system == nil {
		system = actor.NewSystem(p.log)
	}
	handling := valued{p.halting, context.WithoutCancel(ctx)}
	return engine.Env{
		Host: p.host, System: system, Name: actor.Unique(system, "golda/"+p.name),
		Log: p.log, Crashed: p.crashed, Context: handling,
	}
}

// valued is a context that ends with one context and has the values of another, too.
type valued struct {
	context.Context
	values context.Context
}

// Value asks the first context, which has values that package context hides there, and then the second.
func (v valued) Value(key any) any {
	if x := v.Context.Value(key); x != nil {
		return x
	}
	return v.values.Value(key)
}

// The names of the children of the tree that are not stages. No stage may have them.
const (
	poolsChild       = "(pools)"
	controllersChild = "(controllers)"
)

// spec returns the supervision tree: the stages, the last one first, then the pools that stages share, then the control loop.
func (p *Pipeline) spec(env engine.Env) supervisor.Spec {
	spec := supervisor.Spec{
		Name: env.Name, Strategy: p.set.strategy, Intensity: p.set.intensity, Backoff: p.set.backoff,
		Restarted: func(child string, reason error) {
			env.Log.Error("restarting", "child", child, "strategy", p.set.strategy, "reason", reason)
		},
		GaveUp: p.giveUp,
	}
	grace := p.grace()
	for _, c := range slices.Backward(p.stages().stages) {
		spec.Children = append(spec.Children, supervisor.Child{Name: c.Name(), Spawn: c.Spawn, Patience: grace})
	}
	spec.Children = append(spec.Children,
		supervisor.Child{Name: poolsChild, Spawn: p.pools.Spawn, Patience: grace},
		supervisor.Child{Name: controllersChild, Spawn: p.control.Spawn, Patience: grace})
	return spec
}

// grace returns how long workers may take to end.
func (p *Pipeline) grace() time.Duration { return max(p.set.grace, minGrace) }

// open lets commands in. It reports false if Stop was called first.
func (p *Pipeline) open(tree *supervisor.Tree) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != starting || p.halting.Err() != nil {
		return false
	}
	p.state, p.tree = running, tree
	go p.watchTree(tree)
	for _, c := range p.stages().stages {
		c.OpenEndpoint()
		c.Inbox().Open()
	}
	close(p.started)
	return true
}

// watchTree waits for the end of the supervision tree. If the tree was killed, the pipeline gives up: no supervisor above
// it would notice.
func (p *Pipeline) watchTree(tree *supervisor.Tree) {
	if err := tree.Wait(); errors.Is(err, supervisor.ErrKilled) && !p.in(stopped) {
		p.fail(err)
		p.log.Error("pipeline gave up", "reason", err)
		p.endSoftStop(p.Err())
		_ = p.Stop(p.halting)
	}
}

// giveUp stops the pipeline hard. The supervision tree calls it when a stage fails for good.
func (p *Pipeline) giveUp(e *supervisor.EscalationError) {
	p.fail(e)
	p.log.Error("pipeline gave up", "reason", e)
	p.endSoftStop(p.Err())
	go func() { _ = p.Stop(p.halting) }() // a caller of Stop gets the result
}

// Run starts the pipeline, lets it run until ctx ends, and stops it with a time limit of [DrainTimeout] for the drain. It
// returns nil if all commands ended in time; the error of the start; the reason, if the pipeline gave up; or a [*StopError].
// [Pipeline.Ending] says what ended it.
func (p *Pipeline) Run(ctx context.Context) error {
	need.Context(ctx, "pipeline: Run")
	if err := p.Start(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-p.stopped:
	}
	soft, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.set.drain)
	defer cancel()
	err := p.Stop(soft)
	return errors.Join(p.Err(), err)
}

// Tree returns the state of the supervision tree: the stages, the pools that stages share and the control loop, in the order
// in which they were started, with how often each was restarted and why it last ended. Workers are not in it; see
// [stage.Snapshot]. It is empty before the start. After the end it is the last state.
func (p *Pipeline) Tree() supervisor.Info {
	p.mu.Lock()
	tree := p.tree
	p.mu.Unlock()
	if tree == nil {
		return supervisor.Info{}
	}
	return tree.Info()
}

// Journal returns the last changes that policies made, the oldest first.
func (p *Pipeline) Journal() []controller.Change { return p.control.Journal() }

// DeadLetters returns the store of commands that ended without an answer, except those in quarantine: commands that were shed
// or were not done when the pipeline stopped hard, and messages of actors that no stage took. The option [DeadLetters]
// subscribes a function to all of them, including those in quarantine.
func (p *Pipeline) DeadLetters() *Letters { return &p.letters.dead }

// Quarantine returns the store of commands that crashed their handlers in each of the attempts that they were allowed.
func (p *Pipeline) Quarantine() *Letters { return &p.letters.quarantine }

// Failures returns the store of failed commands, those whose handlers answered with an error, that no caller can name:
// commands that were submitted without a ticket; commands that handlers emitted, with or without a ticket, since a ticket
// reports only their errors; and commands that failed in each of the attempts that they were allowed, if that is more than
// one. Commands whose caller's context has ended, and the commands that follow from them, are not among them. The letters
// are grouped by the kind of their error: see [Letter]'s Fingerprint. The option [Failures] subscribes a function to them.
func (p *Pipeline) Failures() *Letters { return &p.letters.failures }
