package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
	"github.com/golda-dev/golda/worker"
)

// What a pipeline may answer to an order that comes at the wrong time.
var (
	// ErrStarted refuses to start a pipeline that was started before.
	ErrStarted = errors.New("pipeline: already started")
	// ErrStopped refuses to start a pipeline that was stopped; make a new one.
	ErrStopped = errors.New("pipeline: stopped")
)

// Pipeline is a checked plan, and then a running one. Its methods may be called
// by anybody, at any time.
type Pipeline struct {
	name                       string
	set                        settings
	host                       *inbox.Pipeline
	graph                      *graph.Graph
	groups                     []grouping // as they were declared
	maps                       []mapping
	control                    *control.Loop
	limiter                    *logs.Limiter
	box                        *letters.Box
	notifier                   *letters.Notifier
	dead, quarantine, failures Letters // the stores of box
	pools                      engine.Pools
	env                        engine.Env    // from the start on
	system                     *actor.System // from the start on

	quiet   broadcast // rung when a stage has come to rest that is drained
	present atomic.Pointer[stageSet]
	growing sync.Mutex // one stage comes or goes at a time

	halting context.Context // ends when the pipeline stops hard
	cancel  context.CancelCauseFunc

	mu      sync.Mutex // guards state, tree, failure, signal and result
	state   state
	tree    *supervisor.Tree
	failure error // why it gave up
	signal  os.Signal
	result  error // what Stop returns

	hurry   chan struct{} // closed when draining is to end
	rush    sync.Once     // closes hurry
	haste   error         // why; written before hurry is closed
	started chan struct{} // closed when the doors are open
	stopped chan struct{} // closed when all is over
}

type state uint8

const (
	made state = iota
	starting
	running
	stopping
	stopped
)

// New makes a pipeline of stages, wires and options, in any order; the order of
// the stages is that of the snapshot, and should be the one in which commands
// pass them. Nothing starts yet. The error joins all faults that were found, each
// a [*Fault] or a [*stage.Fault].
func New(name string, parts ...Part) (*Pipeline, error) {
	plan := &plan{name: name, set: defaults()}
	plan.sort(parts)
	if err := plan.check(); err != nil {
		return nil, err
	}
	p := &Pipeline{
		name: name, set: plan.set,
		hurry: make(chan struct{}), started: make(chan struct{}), stopped: make(chan struct{}),
	}
	p.set.log = slog.New(logs.Shield(plan.set.log.Handler())).With("pipeline", name)
	p.limiter = logs.NewLimiter(p.set.log)
	p.box = letters.NewBox(p.set.keep, p.set.log, p.resubmit)
	p.dead, p.quarantine, p.failures = Letters{p.box.Dead}, Letters{p.box.Quarantine}, Letters{p.box.Failures}
	p.notifier = letters.NewNotifier(p.limiter, p.set.hide, p.set.letters, p.set.failures)
	p.halting, p.cancel = context.WithCancelCause(context.Background())
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
	p.host.Reach = p.graph.Reach
	var inboxes []*inbox.Inbox
	for _, c := range plan.stages {
		inboxes = append(inboxes, c.Inbox())
	}
	p.present.Store(newStageSet(plan.stages, inboxes))
	p.control = p.newControl()
	return p, nil
}

// Name returns the pipeline's name.
func (p *Pipeline) Name() string { return p.name }

// Mapping tells which process is meant to run what, as [Map] said: processes by the
// names of groups, and of stages that are in none. What was not mapped is left out.
func (p *Pipeline) Mapping() map[string]string {
	of := map[string]string{}
	for _, m := range p.maps {
		for _, name := range m.names {
			of[name] = m.process
		}
	}
	return of
}

// Start starts the stages, the last given first, then the controller, and opens
// the doors. If a stage cannot start, or ctx ends before all have, those that did
// are stopped and the error says why. Once the pipeline has started ctx no longer
// matters, but for its values, which handlers' contexts carry.
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
	p.env, p.system = env, env.System
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
		p.notifier.Close(false)
		p.finish(nil)
		return fmt.Errorf("pipeline %q: start: %w", p.name, err)
	}
	return nil
}

// launch starts the tree and opens the doors, unless ctx ends or Stop is called
// first.
func (p *Pipeline) launch(ctx context.Context, env engine.Env) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.halting, func() { cancel(context.Cause(p.halting)) })() //nolint:contextcheck // two contexts end this one
	// A behaviour's Start gets the handlers' context. That does not end with
	// ctx, but while the pipeline is starting.
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

// enter moves to a state if the pipeline may.
func (p *Pipeline) enter(s state) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.state {
	case made:
		p.state = s
		return nil
	case stopping, stopped:
		return fmt.Errorf("pipeline %q: %w", p.name, ErrStopped)
	default:
		return fmt.Errorf("pipeline %q: %w", p.name, ErrStarted)
	}
}

// in reports whether the pipeline is in a state now.
func (p *Pipeline) in(s state) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == s
}

// environment is what the stages are lent.
func (p *Pipeline) environment(ctx context.Context) engine.Env {
	system := p.set.system
	if system == nil {
		system = actor.NewSystem(p.set.log)
	}
	handling := valued{p.halting, context.WithoutCancel(ctx)}
	return engine.Env{
		Host: p.host, System: system, Name: actor.Unique(system, "golda/"+p.name),
		Log: p.set.log, Crashed: p.crashed, Context: handling,
	}
}

// valued is a context that ends with one and has the values of another.
type valued struct {
	context.Context
	values context.Context
}

// Value looks in the first context, for what the context package hides there,
// and then in the second.
func (v valued) Value(key any) any {
	if x := v.Context.Value(key); x != nil {
		return x
	}
	return v.values.Value(key)
}

// The children of the tree that are no stages. No stage may have their names.
const (
	poolsChild       = "(pools)"
	controllersChild = "(controllers)"
)

// spec is the supervision tree: the last room first, then the pools that inboxes share, the
// controllers after all.
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

// grace is how long workers may take to end.
func (p *Pipeline) grace() time.Duration { return max(p.set.grace, leastGrace) }

// open lets commands in. It reports false if Stop was faster.
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

// watchTree waits for the end of the supervision tree. If somebody has killed it, which nobody
// above it is there to tell, the pipeline gives up.
func (p *Pipeline) watchTree(tree *supervisor.Tree) {
	if err := tree.Wait(); errors.Is(err, supervisor.ErrKilled) && !p.in(stopped) {
		p.fail(err)
		p.set.log.Error("pipeline gave up", "reason", err)
		p.endSoftStop(p.Err())
		_ = p.Stop(p.halting)
	}
}

// giveUp is told by the supervision tree that a stage is broken for good.
func (p *Pipeline) giveUp(e *supervisor.EscalationError) {
	p.fail(e)
	p.set.log.Error("pipeline gave up", "reason", e)
	p.endSoftStop(p.Err())
	go func() { _ = p.Stop(p.halting) }() // whoever asks gets the result from Stop
}

// fail notes why the pipeline cannot go on.
func (p *Pipeline) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = fmt.Errorf("pipeline %q: %w", p.name, err)
}

// Run starts the pipeline, lets it run until ctx ends, and stops it, for as long
// as [DrainTimeout] softly. It returns nil if all ended well; an error from the
// start; the reason, if the pipeline gave up; or a [*StopError]. [Pipeline.Ending] says what ended it.
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

// Stop drains the pipeline and ends it. If ctx ends before it is drained it stops
// hard: handlers' contexts end, what is queued is dead-lettered, and workers get
// [Grace] to finish the commands that they have begun; they begin no others. Then the error is a [*StopError] that tells
// what was not done and who would not stop.
//
// Stop may be called before Start, and more than once: later calls wait for the
// first, and end its patience with their own. It must not be called by a handler,
// which it would wait for.
func (p *Pipeline) Stop(ctx context.Context) error {
	need.Context(ctx, "pipeline: Stop")
	if p.begin() {
		go p.end() //nolint:gosec // the end belongs to the pipeline; a caller's ctx only hastens it
	}
	select {
	case <-p.stopped:
	case <-ctx.Done():
		p.endSoftStop(context.Cause(ctx))
		<-p.stopped
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result
}

// endSoftStop ends a drain.
func (p *Pipeline) endSoftStop(why error) {
	p.rush.Do(func() {
		p.haste = why
		close(p.hurry)
	})
}

// begin reports whether this is the call that stops the pipeline.
func (p *Pipeline) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.state {
	case running:
		p.state = stopping
		return true
	case starting: // Start hears of it, and finishes
		p.state = stopping
		p.cancel(ErrStopped)
	case made:
		p.state = stopped
		close(p.stopped)
	case stopping, stopped:
	}
	return false
}

// end drains, stops and tells the result.
func (p *Pipeline) end() {
	err := p.empty(context.Background())
	var patience time.Time // the end of the grace of a hard stop
	over := func() {}
	if err != nil {
		patience = time.Now().Add(p.grace())
		over = p.halt()
	}
	left := p.tree.StopWithin(p.grace())
	var stuck []stage.Stuck
	if len(left) > 0 {
		stuck = p.handlers(engine.AtWork)
	}
	for _, c := range p.stages().stages {
		c.CloseEndpoint()
		c.Clear()
		c.Inbox().StopTimers()
		if err != nil {
			c.Sweep()
		}
	}
	if err != nil {
		p.abandonWorkers(patience)
	}
	left = append(left, p.release(left)...)
	p.cancel(ErrStopped)
	p.waitForSubscribers(err != nil, patience)
	over()
	p.logAbandoned()
	p.limiter.Flush()
	p.box.Flush()
	unheard := p.notifier.Undelivered()
	if err == nil && len(left) == 0 && unheard == 0 {
		p.finish(nil)
		return
	}
	report := &StopError{Pipeline: p.name, Left: left, Stuck: stuck, Unheard: unheard}
	errors.As(err, &report.Drain)
	p.finish(report)
}

// logAbandoned logs which stages have handlers that were given up and still run: a pipeline may have stopped well and
// leave goroutines behind all the same.
func (p *Pipeline) logAbandoned() {
	for _, st := range p.Snapshot().Stages {
		if st.Abandoned > 0 {
			p.set.log.Warn("stopped, but handlers that were given up still run", "stage", st.Name, "handlers", st.Abandoned)
		}
	}
}

// release lets go of the stages' coroutines, and names the stages that have handlers which were
// suspended and do not end, but for those that are named already.
func (p *Pipeline) release(already []string) (left []string) {
	ctx, cancel := context.WithTimeout(context.Background(), p.grace())
	defer cancel()
	for _, c := range p.stages().stages {
		if c.Release(ctx) != nil && !slices.Contains(already, c.Name()) {
			left = append(left, c.Name())
		}
	}
	return left
}

// halt stops hard: no room gives out a command any more, then handlers' contexts
// end, then those are told who wait for what was queued. What it returns is to be
// called when all is over.
func (p *Pipeline) halt() (over func()) {
	inboxes := p.stages().all
	tell := make([]func(), len(inboxes))
	for i, in := range inboxes {
		tell[i] = in.Halt()
	}
	p.cancel(ErrStopped)
	dismissed := make(chan struct{})
	grace := time.AfterFunc(p.grace(), func() { p.notifier.Close(true); close(dismissed) })
	for _, f := range tell {
		f()
	}
	return func() {
		if !grace.Stop() {
			<-dismissed
		}
	}
}

// lastMoment is how long a hard stop waits, when the grace is over, for workers that are no handler's any more
// but about to hand over.
const lastMoment = time.Second

// abandonWorkers gives up what workers hold whose handlers do not return within the grace of a hard stop, and waits for
// others to hand over what they have: the accounts are to say how each command ended.
func (p *Pipeline) abandonWorkers(patience time.Time) {
	inboxes := p.stages().all
	for busy(inboxes) && time.Now().Before(patience) {
		time.Sleep(time.Millisecond)
	}
	for late := time.Now().Add(lastMoment); ; time.Sleep(time.Millisecond) {
		for _, in := range inboxes {
			worker.AbandonAll(in)
		}
		if !busy(inboxes) && !underWay(inbox.Counts(inboxes)) || time.Now().After(late) {
			return
		}
	}
}

// busy reports whether a worker has commands in hand.
func busy(inboxes []*inbox.Inbox) bool {
	return slices.ContainsFunc(inboxes, func(in *inbox.Inbox) bool { return len(in.Holders()) > 0 })
}

// finish notes the result and tells all who wait.
func (p *Pipeline) finish(result error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.result = stopped, result
	close(p.stopped)
}

// Started is closed when the pipeline has started: all stages take commands. It stays open if the pipeline never starts, so a source
// that waits for it waits for [Pipeline.Done] or a context, too:
//
//	select {
//	case <-p.Started():
//		feed(p)
//	case <-p.Done():
//	}
func (p *Pipeline) Started() <-chan struct{} { return p.started }

// Done is closed when the pipeline has stopped, for whatever reason.
func (p *Pipeline) Done() <-chan struct{} { return p.stopped }

// Err returns why the pipeline could not start or gave up, nil if neither. The
// latter is a
// [*supervisor.EscalationError] around a [*stage.BrokenError] around the last
// crashes.
func (p *Pipeline) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// Tree returns a picture of the supervision tree: the stages, the pools that stages share, and
// the controllers, the first that was started first, with how often each was started
// afresh and why it ended last. Workers are not in it; see [stage.Snapshot]. It is empty
// before the start, and the last one after the end.
func (p *Pipeline) Tree() supervisor.Info {
	p.mu.Lock()
	tree := p.tree
	p.mu.Unlock()
	if tree == nil {
		return supervisor.Info{}
	}
	return tree.Info()
}

// Journal returns the last changes that the controller made, the oldest first.
func (p *Pipeline) Journal() []controller.Change { return p.control.Journal() }

// DeadLetters returns the store of commands that ended without an answer, but for those
// that are in quarantine: what was shed, what was not done when the pipeline stopped hard,
// and what actors sent and nobody took. [DeadLetters], the option, has a function told of
// them all.
func (p *Pipeline) DeadLetters() *Letters { return &p.dead }

// Quarantine returns the store of commands that crashed their handlers as often as they
// might be tried.
func (p *Pipeline) Quarantine() *Letters { return &p.quarantine }

// Failures returns the store of commands that failed, that is, whose handlers answered with an error, and whom nobody else
// can name: those that were submitted without a ticket; those that handlers emitted, whether a ticket waits for them or
// not, since it tells their errors only; and those that failed as often as they may be tried, if that is more than once. A
// command whose caller's context has ended is not among them, nor is what comes of it.
// Its groups are by kind of error: see [Letter]'s Fingerprint. [Failures], the option, has a function told of them all.
func (p *Pipeline) Failures() *Letters { return &p.failures }
