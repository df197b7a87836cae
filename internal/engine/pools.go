package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/golda-dev/golda/internal/actor"
)

// Pools are the pools of a pipeline that are not children of its supervisor: the shared ones, and those of stages that were
// added later. It outlives the actor that supervises their supervisors.
type Pools struct {
	mu   sync.Mutex // guards all and host
	all  []*Pool
	host *actor.PID // of the poolsSupervisor, nil before its start
	env  *Env
}

// Attach lends the pools what they need of their pipeline.
func (h *Pools) Attach(env *Env) { h.env = env }

// Add adds a pool. If the other pools have been started, the pool is started too.
func (h *Pools) Add(p *Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, p)
	if h.host != nil {
		h.env.System.Root.Send(h.host, admit{p, func(error) {}})
	}
}

// Start adds the own pool of a further stage and waits until its workers have started, or ctx ends. It returns the error of
// a worker that could not start; the pool is then to be removed with Stop.
func (h *Pools) Start(ctx context.Context, p *Pool) error {
	started := make(chan error, 1)
	h.mu.Lock()
	h.all = append(h.all, p)
	h.env.System.Root.Send(h.host, admit{p, func(err error) {
		select {
		case started <- err:
		default: // the first call counts
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

// Stop removes a pool. Its workers finish what they hold.
func (h *Pools) Stop(p *Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := len(h.all)
	h.all = slices.DeleteFunc(h.all, func(o *Pool) bool { return o == p })
	if len(h.all) < before && h.host != nil {
		actor.Tell(h.env.System, h.host, release{p})
	}
}

// has reports whether a pool was added and not removed.
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

// All returns the pools: the shared ones, and those of stages that were added later.
func (h *Pools) All() []*Pool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// Spawn starts the supervisor of the pools, which starts the pools. It calls ready once, when all workers of all pools have
// started or one of them could not.
func (h *Pools) Spawn(by actor.Spawner, name string, ready func(error)) (*actor.PID, error) {
	return actor.Spawn(by, name, actor.NewMailbox(nil), func() actor.Actor {
		return &poolsSupervisor{pools: h, ready: ready, children: map[string]admit{}}
	})
}

// admit asks for the supervisor of a further pool.
type admit struct {
	p     *Pool
	ready func(error)
}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (admit) IgnoreDeadLetterLogging() {}

// release asks to stop the supervisor of a pool. It is sent after the admit of the same pool and handled after it, so the
// supervisor is found, however soon the pool is removed again.
type release struct{ p *Pool }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (release) IgnoreDeadLetterLogging() {}

// poolReady reports that the workers of a pool have started, or why not.
type poolReady struct{ err error }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (poolReady) IgnoreDeadLetterLogging() {}

// poolsSupervisor is the actor of Pools.
type poolsSupervisor struct {
	pools    *Pools
	ready    func(error) // nil once it was called
	awaited  int         // pools whose workers have not all started
	spawned  int
	ending   bool
	children map[string]admit // by the ids of the poolSupervisors
}

var errSupervisorVanished = errors.New("its supervisor ended without being asked to")

// Receive handles a message to the actor.
func (a *poolsSupervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.start(ctx)
	case admit:
		a.spawn(ctx, m.p, m.ready)
	case release:
		a.release(ctx, m.p)
	case poolReady:
		a.poolReady(m.err)
	case *actor.Terminated:
		a.childEnded(ctx, m.Who)
	case *actor.Stopping:
		a.ending = true
	}
}

// childEnded handles the end of a poolSupervisor. If nothing stopped it and it reported no failure, its end is a failure
// like any other.
func (a *poolsSupervisor) childEnded(ctx actor.Context, child *actor.PID) {
	k, ok := a.children[child.Id]
	delete(a.children, child.Id)
	if !ok || a.ending || !a.pools.has(k.p) {
		return
	}
	a.ending = true
	err := fmt.Errorf("pool %q: %w", k.p.name(), errSupervisorVanished)
	k.ready(err) // Start may still wait
	actor.Fail(ctx, err)
}

// HandleFailure is called when a pool gave up. The poolsSupervisor gives up with it: the pipeline decides what that means.
func (a *poolsSupervisor) HandleFailure(
	system *actor.System, self actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any,
) {
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
		a.spawn(ctx, p, func(err error) { system.Root.Send(self, poolReady{err}) })
	}
	if a.awaited == 0 {
		a.reportReady(nil)
	}
}

// spawn starts the supervisor of a pool.
func (a *poolsSupervisor) spawn(ctx actor.Context, p *Pool, ready func(error)) {
	if !a.pools.has(p) { // it was removed before it was started
		ready(nil)
		return
	}
	a.spawned++
	pid, err := p.Spawn(ctx, fmt.Sprintf("pool-%d", a.spawned), ready)
	if err != nil {
		ready(err)
		return
	}
	a.children[pid.Id] = admit{p, ready}
}

// release stops the supervisor of a pool.
func (a *poolsSupervisor) release(ctx actor.Context, p *Pool) {
	for id, k := range a.children {
		if k.p == p {
			actor.Stop(ctx.ActorSystem(), actor.Local(ctx.ActorSystem(), id))
		}
	}
}

func (a *poolsSupervisor) poolReady(err error) {
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
