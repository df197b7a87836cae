package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/worker"
)

// Pool is workers and the slots they are in: a stage's own, or those that several
// stages share. Like [Core] it is for the pipeline.
type Pool struct {
	core   *Core             // whose own it is; nil if it is shared
	shared *inbox.SharedPool // of a shared one
	group  workerGroup

	least, most int // bounds of the number of workers

	env        *Env // nil before the start
	supervisor atomic.Pointer[actor.PID]
	want       atomic.Int64 // how many workers there should be
	hires      atomic.Int64 // how many actors there have been; makes their names unique

	mu    sync.Mutex // guards slots
	slots []*worker.Worker
}

// workerGroup is whom the workers join: an inbox, or a shared pool that goes from room to room.
type workerGroup interface {
	Shrink(n int)
	Unshrink(n int) int
	RetireOne() bool
	ForgetShrink()
	CrashIdle()
}

// NewPool makes a pool that stages can share, with bounds for its workers.
func NewPool(name string, env *Env, least, most int) *Pool {
	sp := inbox.NewSharedPool(name, env.Host)
	p := &Pool{shared: sp, group: sp, least: least, most: most}
	p.attach(env)
	return p
}

func (p *Pool) attach(env *Env) {
	p.env = env
	p.want.Store(int64(p.least))
}

// newWorker makes a slot.
func (p *Pool) newWorker() *worker.Worker {
	if p.core != nil {
		return worker.New(p.core.staff)
	}
	return worker.NewShared(p.shared, p.env.Host, p.env.Context)
}

// name is the pool's, or the stage's whose own it is.
func (p *Pool) name() string {
	if p.core != nil {
		return p.core.Name()
	}
	return p.shared.Name()
}

// Shared is what the workers of a shared pool do; nil for a stage's own.
func (p *Pool) Shared() *inbox.SharedPool { return p.shared }

// Bounds returns the fewest and the most workers.
func (p *Pool) Bounds() (fewest, most int) { return p.least, p.most }

// Want returns how many workers there should be.
func (p *Pool) Want() int { return int(p.want.Load()) }

// Begin sets how many workers there should be at the start.
func (p *Pool) Begin(_ part.Seal, n int) { p.want.Store(int64(n)) }

// Spawn starts the pool's keeper as a child of the spawner. Ready is called
// once, when all workers have started or one of them could not.
func (p *Pool) Spawn(by actor.Spawner, name string, ready func(error)) (*actor.PID, error) {
	return actor.Spawn(by, name, actor.NewMailbox(nil), func() actor.Actor { return newPoolSupervisor(p, ready) })
}

// Scale sets how many workers there should be. It returns at once; workers
// that are to leave finish what they hold. The seal keeps it for the pipeline's controller: a caller who changed the number
// behind its back would see the change undone, or not, and no journal would say why.
func (p *Pool) Scale(_ part.Seal, n int) {
	p.want.Store(int64(n))
	if pid := p.supervisor.Load(); pid != nil {
		actor.Tell(p.env.System, pid, scale{})
	}
}

// call has the keeper bring a worker that dozes.
func (p *Pool) startCalled() {
	if pid := p.supervisor.Load(); pid != nil {
		actor.Tell(p.env.System, pid, called{})
	}
}

// workerToStart returns an empty slot: one that was left with something to hand over, if
// there is one, or any, or a new one.
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

// renew puts a fresh slot in the place of one whose worker was given up: the old one's
// goroutine may come back at any time.
func (p *Pool) renew(lost *worker.Worker) *worker.Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.newWorker()
	w.Claim()
	w.Inherit(lost)
	p.slots = append(slices.DeleteFunc(p.slots, func(o *worker.Worker) bool { return o == lost }), w)
	return w
}

// vacant calls do for each slot that no actor is in.
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

// loaded counts the slots that were left with something to hand over.
func (p *Pool) loaded() (n int) {
	p.vacant(func(w *worker.Worker) {
		if w.Loaded() {
			n++
		}
	})
	return n
}

// Sweep hands over what is left in slots that nobody will fill again. It is
// called when all inboxes are halted: they take everything, and end it.
func (p *Pool) Sweep() { p.vacant((*worker.Worker).Unload) }
