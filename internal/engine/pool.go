package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/worker"
)

// Env has the parts of a pipeline that its stages use.
type Env struct {
	Host   *inbox.Pipeline
	System *actor.System
	Name   string // the pipeline's process name, unique in the system
	Log    *slog.Logger
	// Crashed is called for every crash of a handler, with whether the command
	// cmd is tried again; cmd is nil if none was charged with the crash.
	Crashed func(err *crash.Error, again bool, cmd any)
	// Context ends when the pipeline stops hard.
	Context context.Context
	// Around is the middleware of all stages, a []stage.MiddlewareFunc. This
	// package does not know that type.
	Around any
	// Unsaved is why no instance of a worker may have snapshots; empty if any
	// may.
	Unsaved string
}

// Pool is a set of workers: a stage's own, or one that several stages share.
type Pool struct {
	core   *Core             // the stage whose own pool it is; nil if it is shared
	shared *inbox.SharedPool // nil if it is a stage's own
	group  workerGroup       // the stage's inbox, or shared

	least, most atomic.Int64 // bounds of the number of workers

	env        *Env // nil before the start
	supervisor atomic.Pointer[actor.PID]
	want       atomic.Int64 // how many workers there should be
	spawns     atomic.Int64 // how many actors there have been; makes their names unique
	retiring   atomic.Bool  // Retire was called

	mu    sync.Mutex // guards slots
	slots []*worker.Worker
}

// workerGroup is the group that the workers of a pool join: an inbox, or a
// shared pool that visits several inboxes.
type workerGroup interface {
	Shrink(n int)
	Unshrink(n int) int
	ForgetShrink()
	CrashIdle(m *inbox.Member)
}

// NewPool returns a pool that stages can share, with bounds for the number of
// its workers.
func NewPool(name string, env *Env, least, most int) *Pool {
	sp := inbox.NewSharedPool(name, env.Host)
	p := &Pool{shared: sp, group: sp}
	p.SetBounds(part.Seal{}, least, most)
	p.attach(env)
	return p
}

func (p *Pool) attach(env *Env) {
	p.env = env
	p.want.Store(p.least.Load())
}

func (p *Pool) newWorker() *worker.Worker {
	if p.core != nil {
		return worker.New(p.core.staff)
	}
	return worker.NewShared(p.env.Context, p.shared, p.env.Host)
}

// name returns the name of the pool, or of the stage whose own it is.
func (p *Pool) name() string {
	if p.core != nil {
		return p.core.Name()
	}
	return p.shared.Name()
}

// Shared returns the inbox's part of a shared pool, and nil for a stage's own
// pool.
func (p *Pool) Shared() *inbox.SharedPool { return p.shared }

// Bounds returns the fewest and the most workers.
func (p *Pool) Bounds() (fewest, most int) { return int(p.least.Load()), int(p.most.Load()) }

// SetBounds sets the fewest and the most workers. It starts and ends none: the
// pipeline's controller does, which alone may call it.
func (p *Pool) SetBounds(_ part.Seal, fewest, most int) {
	p.least.Store(int64(fewest))
	p.most.Store(int64(most))
}

// Want returns how many workers there should be.
func (p *Pool) Want() int { return int(p.want.Load()) }

// StartWith sets how many workers there should be at the start.
func (p *Pool) StartWith(_ part.Seal, n int) { p.want.Store(int64(n)) }

// Scale sets how many workers there should be. It returns at once; surplus
// workers finish the commands that they hold, then leave.
//
// The seal restricts Scale to the module, for the pipeline's controller. If a
// user changed the number, the controller might undo the change, and no journal
// would say why.
func (p *Pool) Scale(_ part.Seal, n int) {
	p.want.Store(int64(n))
	p.notify(scale{})
}

// startCalled asks the supervisor to start a worker that the inbox called.
// Until then it was not started.
func (p *Pool) startCalled() { p.notify(called{}) }

// ErrRetired is the reason for which the supervisor of a pool ends after
// Retire.
var ErrRetired = errors.New("the pool was retired")

// Retire ends a pool: its workers finish the commands that they hold, then its
// supervisor ends with [ErrRetired]. Retire returns at once.
func (p *Pool) Retire() {
	p.retiring.Store(true)
	p.notify(retire{})
}

func (p *Pool) notify(message any) {
	if pid := p.supervisor.Load(); pid != nil {
		actor.Tell(p.env.System, pid, message)
	}
}

// workerToStart claims and returns a worker without an actor: one that still
// holds something to hand over, if there is one, or any, or a new one.
func (p *Pool) workerToStart() *worker.Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	var empty *worker.Worker
	for _, w := range p.slots {
		if !w.Claim() {
			continue
		}
		if w.Loaded() {
			if empty != nil {
				empty.Unclaim()
			}
			return w
		}
		if empty != nil {
			w.Unclaim()
			continue
		}
		empty = w
	}
	if empty == nil {
		empty = p.newWorker()
		empty.Claim()
		p.slots = append(p.slots, empty)
	}
	return empty
}

// renew claims and returns a new worker in place of an abandoned one. The old
// one cannot be used again, because its goroutine may return at any time.
func (p *Pool) renew(lost *worker.Worker) *worker.Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.newWorker()
	w.Claim()
	w.Inherit(lost)
	p.slots = append(slices.DeleteFunc(p.slots, func(o *worker.Worker) bool { return o == lost }), w)
	return w
}

// vacant calls do for each worker without an actor.
func (p *Pool) vacant(do func(*worker.Worker)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.slots {
		if w.Claim() {
			do(w)
			w.Unclaim()
		}
	}
}

// loaded counts the workers without an actor that hold something to hand over.
func (p *Pool) loaded() (n int) {
	p.vacant(func(w *worker.Worker) {
		if w.Loaded() {
			n++
		}
	})
	return n
}

// Sweep hands over the commands that workers without an actor still hold, when
// no actor will come for them. The pipeline calls it when all inboxes are
// halted: they accept every command, and end it.
func (p *Pool) Sweep() { p.vacant((*worker.Worker).Unload) }

// scale asks for as many workers as the pool wants.
type scale struct{}

// IgnoreDeadLetterLogging marks messages that may come too late.
func (scale) IgnoreDeadLetterLogging() {}

// called asks for a worker that the inbox called, and that was not started
// until then.
type called struct{}

// IgnoreDeadLetterLogging marks messages that may come too late.
func (called) IgnoreDeadLetterLogging() {}

// retire asks to end all workers, as the pool wants it.
type retire struct{}

// IgnoreDeadLetterLogging marks messages that may come too late.
func (retire) IgnoreDeadLetterLogging() {}
