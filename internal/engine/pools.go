package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/golda-dev/golda/internal/actor"
)

// Pools keeps the shared pools of a pipeline: it is the parent of their keepers, and
// outlives the actor that is.
type Pools struct {
	mu   sync.Mutex // guards all
	all  []*Pool
	host *actor.PID
	env  *Env
}

// Attach lends the pipeline's things to the pools.
func (h *Pools) Attach(env *Env) { h.env = env }

// Add takes a pool in, and starts it if the others have been.
func (h *Pools) Add(p *Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, p)
	if h.host != nil {
		h.env.System.Root.Send(h.host, admit{p, func(error) {}})
	}
}

// Start takes a further stage's own pool in and waits until its workers have started,
// or ctx ends. If they cannot the pool is let go again.
func (h *Pools) Start(ctx context.Context, p *Pool) error {
	started := make(chan error, 1)
	h.mu.Lock()
	h.all = append(h.all, p)
	h.env.System.Root.Send(h.host, admit{p, func(err error) {
		select {
		case started <- err:
		default: // it was told before
		}
	}})
	h.mu.Unlock()
	select {
	case err := <-started:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop lets a pool go. Its workers finish what they hold.
func (h *Pools) Stop(p *Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := len(h.all)
	h.all = slices.DeleteFunc(h.all, func(o *Pool) bool { return o == p })
	if len(h.all) < before && h.host != nil {
		actor.Tell(h.env.System, h.host, release{p})
	}
}

// has reports whether a pool is still there.
func (h *Pools) has(p *Pool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.all, p)
}

// Each calls do for each shared pool.
func (h *Pools) Each(do func(*Pool)) {
	for _, p := range h.All() {
		if p.shared != nil {
			do(p)
		}
	}
}

// All returns the pools: the shared ones, and those of stages that came later.
func (h *Pools) All() []*Pool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// Spawn starts the pools.
func (h *Pools) Spawn(by actor.Spawner, name string, ready func(error)) (*actor.PID, error) {
	return actor.Spawn(by, name, actor.NewMailbox(nil), func() actor.Actor {
		return &poolsSupervisor{pools: h, ready: ready, kept: map[string]admit{}}
	})
}

// admit asks for a further pool's keeper.
type admit struct {
	p     *Pool
	ready func(error)
}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (admit) IgnoreDeadLetterLogging() {}

// release asks the host to stop a pool's keeper. The host handles it after the admit of the same pool, so it finds the keeper,
// however soon the pool is let go again.
type release struct{ p *Pool }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (release) IgnoreDeadLetterLogging() {}

// settled tells that a pool's workers have started, or why not.
type settled struct{ err error }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (settled) IgnoreDeadLetterLogging() {}

// poolsSupervisor is the actor of Pools.
type poolsSupervisor struct {
	pools   *Pools
	ready   func(error) // nil once it was told
	awaited int
	spawned int
	ending  bool
	kept    map[string]admit // by the id of their keepers' actors
}

var errKeeperVanished = errors.New("its keeper ended without being told to")

// Receive handles a message to the host.
func (a *poolsSupervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.start(ctx)
	case admit:
		a.spawn(ctx, m.p, m.ready)
	case release:
		a.release(ctx, m.p)
	case settled:
		a.settled(m.err)
	case *actor.Terminated:
		a.gone(ctx, m.Who)
	case *actor.Stopping:
		a.ending = true
	}
}

// gone hears that a pool's keeper has ended. If nobody told it to, or told of it, that is a
// failure like any other.
func (a *poolsSupervisor) gone(ctx actor.Context, who *actor.PID) {
	k, ok := a.kept[who.Id]
	delete(a.kept, who.Id)
	if !ok || a.ending || !a.pools.has(k.p) {
		return
	}
	a.ending = true
	err := fmt.Errorf("pool %q: %w", k.p.name(), errKeeperVanished)
	k.ready(err) // if somebody still waits for the start
	actor.Fail(ctx, err)
}

// HandleFailure is told that a pool gave up, and gives up with it: what that means is
// the pipeline's affair.
func (a *poolsSupervisor) HandleFailure(system *actor.System, self actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	a.ending = true
	actor.Stop(system, child)
	self.EscalateFailure(reason, nil)
}

func (a *poolsSupervisor) start(ctx actor.Context) {
	a.pools.mu.Lock()
	a.pools.host = ctx.Self()
	all := slices.Clone(a.pools.all)
	a.pools.mu.Unlock()
	system, self := ctx.ActorSystem(), ctx.Self()
	a.awaited = len(all)
	for _, p := range all {
		a.spawn(ctx, p, func(err error) { system.Root.Send(self, settled{err}) })
	}
	if a.awaited == 0 {
		a.reportReady(nil)
	}
}

func (a *poolsSupervisor) spawn(ctx actor.Context, p *Pool, ready func(error)) {
	if !a.pools.has(p) { // it was let go again before it began
		ready(nil)
		return
	}
	a.spawned++
	pid, err := p.Spawn(ctx, fmt.Sprintf("pool-%d", a.spawned), ready)
	if err != nil {
		ready(err)
		return
	}
	a.kept[pid.Id] = admit{p, ready}
}

// release stops the keeper of a pool.
func (a *poolsSupervisor) release(ctx actor.Context, p *Pool) {
	for id, k := range a.kept {
		if k.p == p {
			actor.Stop(ctx.ActorSystem(), actor.Local(ctx.ActorSystem(), id))
		}
	}
}

func (a *poolsSupervisor) settled(err error) {
	if a.awaited--; err != nil || a.awaited == 0 {
		a.reportReady(err)
	}
}

func (a *poolsSupervisor) reportReady(err error) {
	if a.ready != nil {
		a.ready(err)
		a.ready = nil
	}
}
