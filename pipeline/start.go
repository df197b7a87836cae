package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/supervisor"
)

// Start starts the stages, the last given first, then the control loop, and then lets commands in. If a stage cannot start, or
// ctx ends before all have started, those that did are stopped and the error says why. After the start only the values of ctx
// matter; handlers' contexts have them.
func (p *Pipeline) Start(ctx context.Context) error {
	link.CheckContext(ctx, "pipeline: Start")
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
	link.CheckContext(ctx, "pipeline: Run")
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
