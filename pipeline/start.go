package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/supervisor"
)

// Start starts the stages, the last given first, then the control loop, and
// then lets commands in. If a stage cannot start, or ctx ends before all have
// started, the started stages are stopped and the error says why. If ctx has
// ended before the call, nothing is started, and Start may be called again.
// After the start only the values of ctx matter; handlers' contexts have them.
func (p *Pipeline) Start(ctx context.Context) error {
	link.CheckContext(ctx, "pipeline: Start")
	if ctx.Err() != nil {
		return fmt.Errorf("pipeline %q: start: %w", p.life.name, context.Cause(ctx))
	}
	if err := p.life.enter(starting); err != nil {
		return err
	}
	p.env = p.environment(ctx)
	p.feeds.begin(p.keeper.mark(ctx, p.host), feedHost{env: &p.env, grace: p.grace(), wasDone: p.wasDone, waitsIn: p.waitsIn, behind: p.behind, gaveUp: p.giveUpFeed, keep: p.letters.box.Sync})
	for _, c := range p.stages().stages {
		c.Attach(&p.env)
	}
	feeds := p.feeds.list() // before commands are let in, since Add starts the feeds that it adds
	if p.keeper != nil {
		p.keeper.gaveUp = p.giveUpFeed
	}
	if err := p.restore(); err != nil {
		return p.failStart(err)
	}
	err := p.openLetters()
	if err == nil {
		err = p.control.Prepare() //nolint:contextcheck // a log line has no context
	}
	if err == nil {
		err = p.flight.Start()
	}
	if err == nil {
		err = p.openLines(ctx)
	}
	if err == nil {
		err = p.launch(ctx)
	}
	if err != nil {
		return p.failStart(err)
	}
	if !p.resume() {
		return nil
	}
	p.feeds.start(feeds) //nolint:contextcheck // feeds run longer than the call that starts them
	return nil
}

// failStart ends a pipeline that cannot start.
func (p *Pipeline) failStart(err error) error {
	p.life.cancel(err)
	p.life.fail(err)
	for _, c := range p.stages().stages {
		c.Clear()
	}
	p.letters.notifier.Close()
	p.flight.Stop()
	_, _ = p.closeLetters() // it has logged the error
	p.leaveCheckpoint()
	p.life.finish(nil)
	return fmt.Errorf("pipeline %q: start: %w", p.life.name, err)
}

// openLines opens the lines.
func (p *Pipeline) openLines(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.life.halting, func() { cancel(ErrStopped) })() //nolint:contextcheck // two contexts end this one
	for _, l := range p.lines {
		if err := openLine(ctx, l); err != nil {
			return fmt.Errorf("stage %q: %w", l.stage, err)
		}
	}
	return nil
}

// launch starts the supervision trees and lets commands in, unless ctx ends or
// Stop is called first.
func (p *Pipeline) launch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.life.halting, func() { cancel(context.Cause(p.life.halting)) })() //nolint:contextcheck // two contexts end this one
	// A behaviour's Start gets the handlers' context. That context ends with
	// ctx only while the pipeline is starting.
	unhook := context.AfterFunc(ctx, func() { p.life.cancel(context.Cause(ctx)) })
	tree, err := p.startTrees(ctx)
	ended := !unhook()
	if err != nil {
		return err
	}
	if ended || !p.open(tree) {
		p.pools.started().Stop()
		tree.Stop()
		return cmp.Or(context.Cause(ctx), ErrStopped)
	}
	return nil
}

// environment returns what the stages share.
func (p *Pipeline) environment(ctx context.Context) engine.Env {
	system := p.set.system
	if system == nil {
		system = actor.Shared()
	}
	// A lookup allocates that begins at a context of WithoutCancel.
	values := context.WithValue(context.WithoutCancel(ctx), valued{}, nil)
	handling := valued{p.life.halting, values}
	unsaved := ""
	if p.set.checkpoint != nil {
		unsaved = "whose state the Checkpoint of the pipeline cannot save: it belongs to no key: make the stage a Keyed one"
	}
	return engine.Env{
		Unsaved: unsaved, Host: p.host, System: system, Name: actor.Unique(system, "golda/"+p.life.name),
		Log: p.log, Crashed: p.crashed, Context: handling, Around: p.set.around,
	}
}

// valued is a context that ends with one context and has the values of another,
// too.
type valued struct {
	context.Context
	values context.Context
}

// Value asks the first context, which has values that package context hides
// there, and then the second.
func (v valued) Value(key any) any {
	if x := v.Context.Value(key); x != nil {
		return x
	}
	return v.values.Value(key)
}

// startTrees starts the tree of the pools, then the tree of the stages, and
// returns the second.
func (p *Pipeline) startTrees(ctx context.Context) (*supervisor.Tree, error) {
	if err := p.startPools(ctx); err != nil {
		return nil, err
	}
	spec := p.spec(p.env.Name, p.set.strategy)
	for _, c := range slices.Backward(p.stages().stages) {
		spec.Children = append(spec.Children, supervisor.Child{Name: c.Name(), Spawn: c.Spawn, Patience: p.grace()})
	}
	spec.Children = append(spec.Children, supervisor.Child{Name: controllersChild, Spawn: p.control.Spawn, Patience: p.grace()})
	tree, err := supervisor.Start(ctx, p.env.System, spec)
	if err != nil {
		p.pools.started().Stop()
	}
	return tree, err
}

// startPools starts the tree of the pools, and the pools that there are.
func (p *Pipeline) startPools(ctx context.Context) error {
	spec := p.spec(p.env.Name+"/"+poolsChild, supervisor.SimpleOneForOne)
	spec.Decide = func(_ string, reason error) supervisor.Directive {
		if reason == engine.ErrRetired { //nolint:errorlint // a crash that wraps it is a crash
			return supervisor.DoStop
		}
		return supervisor.AsDeclared
	}
	tree, err := supervisor.Start(ctx, p.env.System, spec)
	if err != nil {
		return err
	}
	p.pools.mu.Lock()
	defer p.pools.mu.Unlock()
	p.pools.tree, p.pools.since = tree, time.Now()
	for _, pool := range p.pools.all {
		if _, err := tree.Add(ctx, p.sharedPool(pool)); err != nil {
			tree.Stop()
			return err
		}
	}
	return nil
}

// spec returns what the two trees have in common.
func (p *Pipeline) spec(name string, strategy supervisor.Strategy) supervisor.Spec {
	return supervisor.Spec{
		Name: name, Strategy: strategy, Intensity: p.set.intensity, Backoff: p.set.backoff,
		Restarted: func(child string, reason error) {
			p.log.Error("restarting", "child", child, "strategy", strategy, "reason", reason)
		},
		GaveUp: p.giveUp,
	}
}

// open lets commands in. It reports false if Stop was called first.
func (p *Pipeline) open(tree *supervisor.Tree) bool {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	if p.life.state != starting || p.life.halting.Err() != nil {
		return false
	}
	p.life.state, p.life.tree = running, tree
	go p.watchTree(tree)
	go p.watchTree(p.pools.started())
	for _, c := range p.stages().stages {
		c.OpenEndpoint()
		c.Inbox().Phases().Open()
	}
	close(p.life.started)
	return true
}

// watchTree waits for the end of a supervision tree. If the tree was killed,
// the pipeline gives up: no supervisor above it would notice.
func (p *Pipeline) watchTree(tree *supervisor.Tree) {
	if err := tree.Wait(); errors.Is(err, supervisor.ErrKilled) && !p.life.in(stopped) {
		p.life.fail(err)
		p.log.Error("pipeline gave up", "reason", err)
		p.life.endSoftStop(p.Err())
		_ = p.Stop(p.life.halting)
	}
}

// giveUp stops the pipeline hard. A supervision tree calls it when a stage or a
// pool fails for good.
func (p *Pipeline) giveUp(e *supervisor.EscalationError) { p.end(&stageError{e}) }

// end stops the pipeline hard, for a reason.
func (p *Pipeline) end(why error) {
	p.life.fail(why)
	p.log.Error("pipeline gave up", "reason", why)
	p.life.endSoftStop(p.Err())
	go func() { _ = p.Stop(p.life.halting) }() // a caller of Stop gets the result
}

// giveUpFeed stops the pipeline hard because a feed has failed for good, unless
// it is being stopped already.
func (p *Pipeline) giveUpFeed(err error) {
	if p.life.in(running) {
		p.end(err)
	}
}

// Run starts the pipeline, lets it run until ctx ends or all its feeds are
// exhausted, see [Feed], and stops it with a time limit of [DrainTimeout] for
// the drain. It returns nil if all commands ended in time; the error of the
// start; the reason, if the pipeline gave up; or a [*StopError].
// [Pipeline.Ending] says what ended it.
func (p *Pipeline) Run(ctx context.Context) error {
	link.CheckContext(ctx, "pipeline: Run")
	if err := p.Start(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-p.feeds.exhausted:
		p.finishFed(ctx)
	case <-p.life.stopped:
	}
	soft, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.set.drain)
	defer cancel()
	return ended(p.Err(), p.Stop(soft))
}

// isDrained reports whether an inbox is being drained or has been.
func isDrained(in *inbox.Inbox) bool { return !in.Phases().InUse() }

// finishFed drains the pipeline because its feeds are exhausted. If some stages
// are reopened meanwhile, it drains again. If all are, the pipeline runs until
// ctx ends, as if it had no feeds.
func (p *Pipeline) finishFed(ctx context.Context) {
	err := p.Drain(ctx)
	for errors.Is(err, ErrReopened) && slices.ContainsFunc(p.stages().all, isDrained) {
		err = p.Drain(ctx)
	}
	if errors.Is(err, ErrReopened) {
		select {
		case <-ctx.Done():
		case <-p.life.stopped:
		}
	}
	if err == nil {
		p.exhaust()
	}
}

// RunUntilSignal is [Pipeline.Run] for the main function of a program: it lets
// the pipeline run until SIGINT or SIGTERM arrives, or ctx ends. Then it
// drains, for as long as [DrainTimeout] says, by default 25 s: together with
// the [Grace] that is less than the 30 s that Kubernetes gives a pod. A signal
// while it drains stops it hard at once: handlers' contexts end, and commands
// that are not done are dead-lettered. A third signal, and any signal after
// RunUntilSignal has returned, acts as without RunUntilSignal; so pressing
// Ctrl-C three times ends the program.
//
// It returns nil if all was drained, whatever ended the run, and else what Run
// returns: a [*StopError], whose Report is worth writing down. The exit status
// of a program that serves until it is stopped should be 0 if the error is nil,
// and else 1. A program that should come to an end by itself, and did not
// because of a signal, should exit with 128 plus the signal's number even if
// the error is nil, as shells expect; the [Ending] has the signal.
//
// A signal before the stages have started ends the start with an error that
// names it. Sources that feed the pipeline get [stage.ErrDraining] when it
// ends. Use RunUntilSignal for one pipeline of a process: if several pipelines
// run so, a signal stops all of them at once, not one after the other.
func (p *Pipeline) RunUntilSignal(ctx context.Context) error {
	link.CheckContext(ctx, "pipeline: RunUntilSignal")
	signals := make(chan os.Signal, 2) // two may arrive at once
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		p.handleSignals(ctx, signals, over, cancel)
	}()
	err := p.Run(running)
	close(over)
	<-ended
	return err
}

// handleSignals handles signals until over is closed: the first cancels the
// run, the second makes its stop hard.
func (p *Pipeline) handleSignals(ctx context.Context, signals chan os.Signal, over <-chan struct{}, cancel context.CancelCauseFunc) {
	select {
	case s := <-signals:
		p.log.Info("draining", "signal", s, "within", p.set.drain)
		p.interrupt(s, false)
		cancel(&signalError{s})
	case <-ctx.Done(): // it drains already
	case <-over:
		return
	}
	select {
	case s := <-signals:
		signal.Stop(signals)
		p.log.Warn("stopping hard", "signal", s, "within", p.grace())
		p.interrupt(s, true)
		p.life.endSoftStop(&signalError{s})
	case <-over:
	}
}
