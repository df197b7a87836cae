package stage

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/act"
	"github.com/golda-dev/golda/internal/room"
	"github.com/golda-dev/golda/worker"
)

// Core is a stage without its command type: what a pipeline checks, starts,
// scales and stops. It is of no use outside the house; users have a [Stage].
type Core struct {
	set    settings
	room   *room.Room
	flaws  []error
	make   func() worker.Instance
	shared worker.Instance // the one instance of a shared behaviour, or nil
	takes  func(message any) bool
	kind   string // the command type, for messages

	env    Env
	staff  *worker.Stage
	keeper atomic.Pointer[act.PID]
	door   atomic.Pointer[act.Door]
	want   atomic.Int64 // how many workers there should be
	hires  atomic.Int64 // how many actors there have been; makes their names unique

	mu    sync.Mutex // guards slots
	slots []*worker.Worker
}

// Env is what a pipeline lends to its stages.
type Env struct {
	Host   *room.Host
	System *act.System
	Name   string // the pipeline's process name, unique in the system
	Log    *slog.Logger
	// Crashed is told of every crash of a handler, and whether the command is
	// to be tried again.
	Crashed func(crash *CrashError, again bool)
	// Context ends when the pipeline stops hard.
	Context context.Context
}

func newCore(name string, opts []Option) *Core {
	set := newSettings(name, opts)
	return &Core{set: set, room: room.New(set.room)}
}

func (c *Core) flaw(option, problem string) {
	c.flaws = append(c.flaws, &Fault{c.set.room.Name, option, problem})
}

// Name returns the stage's name.
func (c *Core) Name() string { return c.set.room.Name }

// Faults returns all that is wrong with the stage.
func (c *Core) Faults() []error { return append(slices.Clone(c.flaws), c.set.faults()...) }

// Outs returns the ports that the stage declares.
func (c *Core) Outs() []behaviour.Outlet { return c.set.outs }

// Room returns the stage's room.
func (c *Core) Room() *room.Room { return c.room }

// Bounds returns the fewest and the most workers.
func (c *Core) Bounds() (fewest, most int) { return c.set.min, c.set.max }

// Want returns how many workers there should be.
func (c *Core) Want() int { return int(c.want.Load()) }

// Attach lends the pipeline's things to the stage. It is called once, before
// the stage is started.
func (c *Core) Attach(env Env) {
	c.env = env
	c.want.Store(int64(c.set.min))
	c.staff = &worker.Stage{
		Room: c.room, Make: c.make, Timeout: c.set.timeout, RetryIf: c.set.retry.If,
		Log: env.Log, Crashed: env.Crashed, Context: env.Context,
	}
}

// Spawn starts the stage's keeper as a child of the spawner. Ready is called
// once, when all workers have started or one of them could not.
func (c *Core) Spawn(by act.Spawner, name string, ready func(error)) (*act.PID, error) {
	return act.Spawn(by, name, act.NewMailbox(nil), func() act.Actor { return newKeeper(c, ready) })
}

// Scale sets how many workers there should be. It returns at once; workers
// that are to leave finish what they hold.
func (c *Core) Scale(n int) {
	c.want.Store(int64(n))
	if pid := c.keeper.Load(); pid != nil {
		c.env.System.Root.Send(pid, scale{})
	}
}

// slot returns an empty slot: one that was left with something to hand over, if
// there is one, or any, or a new one.
func (c *Core) slot() *worker.Worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	var empty *worker.Worker
	for _, w := range c.slots {
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
		empty = worker.New(c.staff)
		empty.Claim()
		c.slots = append(c.slots, empty)
	}
	return empty
}

// vacant calls do for each slot that no actor is in.
func (c *Core) vacant(do func(*worker.Worker)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.slots {
		if w.Claim() {
			do(w)
			w.Unclaim()
		}
	}
}

// loaded counts the slots that were left with something to hand over.
func (c *Core) loaded() (n int) {
	c.vacant(func(w *worker.Worker) {
		if w.Loaded() {
			n++
		}
	})
	return n
}

// Sweep hands over what is left in slots that nobody will fill again. It is
// called when all rooms are halted: they take everything, and end it.
func (c *Core) Sweep() { c.vacant((*worker.Worker).Unload) }

// Stuck is a worker that is at work.
type Stuck struct {
	Stage string
	For   time.Duration // how long it has been at its present batch
}

// AtWork returns the workers that are at work now, the longest first.
func (c *Core) AtWork() []Stuck {
	c.mu.Lock()
	defer c.mu.Unlock()
	var stuck []Stuck
	for _, w := range c.slots {
		if d := w.Busy(); d > 0 {
			stuck = append(stuck, Stuck{c.Name(), d})
		}
	}
	slices.SortFunc(stuck, func(a, b Stuck) int { return cmp.Compare(b.For, a.For) })
	return stuck
}
