package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/control"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/graph"
	"github.com/golda-dev/golda/internal/inbox"
	stores "github.com/golda-dev/golda/internal/letters"
	"github.com/golda-dev/golda/internal/logs"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/pipeline/remote"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// New makes a pipeline of stages, wires and options. The parts may be given in
// any order; the order of the stages is the order of the snapshot, and should
// be the one in which commands pass them. Nothing starts yet. The error joins
// all faults that were found, each a [*PartError] or a [*stage.OptionError].
func New(name string, parts ...Part) (*Pipeline, error) {
	plan := &plan{name: name, set: defaults()}
	plan.sort(parts)
	if err := plan.check(); err != nil {
		return nil, err
	}
	p := &Pipeline{set: plan.set, keeper: newKeeper(plan.set.checkpoint)}
	p.life.init(name)
	p.log = slog.New(logs.Shield(plan.set.log.Handler())).With("pipeline", name)
	p.limiter = logs.NewLimiter(p.log)
	p.flight = newFlight(plan.set.flight, p.log, p.times)
	box := stores.NewBox(p.set.bound(), p.logWithout(p.set.letters), p.logWithout(p.set.failures), p.resubmit)
	box.Parks(p.parkFor, p.unparked)
	if p.set.types != nil {
		box.Measure(p.sizeOf)
	}
	if p.set.keep.Dir != "" {
		box.Await()
	}
	codecs := p.codecOf
	p.letters = mail{
		box:      box,
		notifier: stores.NewNotifier(p.limiter, stores.Log{Show: p.set.show, Key: p.keyOf}, p.set.letters, p.set.failures),
		dead:     public(box.Dead, codecs), quarantine: public(box.Quarantine, codecs), failures: public(box.Failures, codecs),
	}
	p.host = &inbox.Pipeline{
		Name: name,
		Base: time.Now(), Quiet: make(chan struct{}, 1),
		Follows: p.set.keep.Dir != "",
		Keep:    func(end inbox.Ending) uint64 { return p.keep(withSum(end)) },
		Ended:   func(end inbox.Ending) { p.ended(withoutUse(withSum(end))) },
		Full:    p.filled, Slowed: p.slowed, Recovered: p.recovered,
		InFlight: p.load, Held: p.held, MaxInFlight: plan.set.inFlight,
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
	p.relay(plan)
	p.graph = newGraph(p.host, plan.stages)
	p.groups, p.maps = plan.groups, plan.maps
	p.host.Reach, p.host.InLoop = p.graph.Reach, p.graph.InLoop
	var inboxes []*inbox.Inbox
	for _, c := range plan.stages {
		inboxes = append(inboxes, c.Inbox())
	}
	p.current.Store(newStageSet(plan.stages, inboxes))
	p.control = p.newControl()
	p.feeds = newFeeds(name, p.log)
	if p.keeper != nil {
		p.feeds.host.whole = errWhole
	}
	p.feeds.add(plan.feeds)
	return p, nil
}

// public returns a store as users know it.
func public(inner *stores.Store, codecs stores.Codecs) *letters.Store {
	return stores.Public(inner, codecs).(*letters.Store)
}

// logWithout returns the log for letters that a store drops. If functions are
// subscribed to the letters, that is none: they got them all. But letters in
// files are there to be retried, so their loss is logged in any case.
func (p *Pipeline) logWithout(subscribers []func(stage.DeadLetter)) *slog.Logger {
	if len(subscribers) > 0 && p.set.keep.Dir == "" {
		return slog.New(slog.DiscardHandler)
	}
	return p.log
}

// newGraph returns the graph of stages, with the edges of their ports.
func newGraph(host *inbox.Pipeline, stages []*engine.Core) *graph.Graph {
	g := graph.New(host)
	for _, c := range stages {
		g.Add(c.Inbox())
	}
	for _, c := range stages {
		if c.Process() == "" { // from the others no command comes here
			g.Declare(c.Inbox(), c.Spec().Outs())
		}
	}
	return g
}

// controlled is the pipeline as its control loop has it.
type controlled struct{ p *Pipeline }

// Stages returns the stages, in the order of the pipeline.
func (c controlled) Stages() []*engine.Core { return c.p.stages().stages }

// Read returns the stages and their accounts, all of one instant.
func (c controlled) Read(times bool) control.Reading {
	read := inbox.Counts
	if times {
		read = inbox.Snapshot
	}
	r, accounts := c.p.readAccounts(read)
	return control.Reading{Stages: r.stages, Accounts: accounts, InFlight: int(inFlight(accounts))}
}

// Shape returns the graph of the stages.
func (c controlled) Shape() *graph.Shape { return c.p.graph.Shape() }

// Edges is for [control.Pipeline].
func (c controlled) Edges() []graph.Edge { return c.p.graph.Edges() }

// Handlers is for [control.Pipeline].
func (c controlled) Handlers() []engine.Stuck { return c.p.Handlers() }

// StartPool starts a shared pool. It does not wait for the pool's workers.
func (c controlled) StartPool(pool *engine.Pool) { c.p.startShared(pool) }

// StopPool stops a shared pool, whose workers finish what they hold. It does
// not wait for them.
func (c controlled) StopPool(pool *engine.Pool) { c.p.pools.remove(pool) }

// sharedPool describes the supervisor of a shared pool.
func (p *Pipeline) sharedPool(pool *engine.Pool) supervisor.Child {
	return supervisor.Child{Name: pool.Shared().Name(), Spawn: pool.Spawn, Patience: p.grace()}
}

// startShared starts a shared pool. It does not wait for the pool, because the
// control loop must not wait for a supervisor.
func (p *Pipeline) startShared(pool *engine.Pool) {
	if tree := p.pools.add(pool); tree != nil {
		go p.superviseShared(tree, pool)
	}
}

// superviseShared adds a shared pool to the tree. The start of a shared pool
// runs no user code, so it fails only if the pipeline ends, or if something
// kills the pool's supervisor before the tree counts it as started and would
// restart it: then superviseShared starts it again.
func (p *Pipeline) superviseShared(tree *supervisor.Tree, pool *engine.Pool) {
	for p.pools.has(pool) {
		_, err := tree.Add(p.life.halting, p.sharedPool(pool))
		if err == nil || errors.Is(err, supervisor.ErrStopped) || p.life.halting.Err() != nil {
			return
		}
		p.log.Error("restarting", "child", pool.Shared().Name(), "reason", err)
	}
}

// newControl returns the pipeline's control loop.
func (p *Pipeline) newControl() *control.Loop {
	cfg := control.Config{
		Pipeline: controlled{p}, Host: p.host, Env: &p.env, Log: p.log, Limiter: p.limiter,
		Policies: map[string][]controller.Policy{"": p.set.policies},
	}
	if p.flight != nil {
		cfg.Stalled = p.flight.Stalled
	}
	for _, own := range p.set.groups {
		if p.governsHere(own.group) {
			cfg.Policies[own.group] = own.policies
		}
	}
	for _, g := range p.groups {
		if !runsHere(g) {
			continue
		}
		of := control.Group{Name: g.name, Fewest: g.fewest, Most: g.most}
		for _, c := range g.stages {
			of.Stages = append(of.Stages, c)
		}
		cfg.Groups = append(cfg.Groups, of)
	}
	return control.New(cfg)
}

// governsHere reports whether the stages of a group, or a single stage, run in
// this process.
func (p *Pipeline) governsHere(name string) bool {
	if c := named(p.stages().stages, name); c != nil {
		return c.Process() == ""
	}
	return slices.ContainsFunc(p.groups, func(g grouping) bool { return g.name == name && runsHere(g) })
}

// relay has the commands of the stages that run in other processes sent there.
func (p *Pipeline) relay(plan *plan) {
	p.lines = plan.lines
	for c, r := range plan.away {
		var send engine.Send
		var call engine.Call
		if r.line != nil {
			send = sendBy(r.line)
		}
		if l, ok := r.line.(remote.Caller); ok && !c.Spec().IsKeyed() {
			call = l.Call
		}
		c.Relay(r.process, send, call, r.why)
	}
}

// sendBy returns the function by which commands are sent on a line. The
// contexts of the commands stay behind if the line does not take them.
func sendBy(l remote.Line) engine.Send {
	if l, ok := l.(interface {
		SendWith(ctx context.Context, cmds []any, of []context.Context) []error
	}); ok {
		return l.SendWith
	}
	return func(ctx context.Context, cmds []any, _ []context.Context) []error { return l.Send(ctx, cmds) }
}

// runsHere reports whether the stages of a group run in this process.
func runsHere(g grouping) bool {
	return len(g.stages) == 0 || g.stages[0].Process() == ""
}
