package stage

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/worker"
)

// Core is a stage without its command type: what a pipeline checks, starts,
// scales and stops. It is of no use outside the pipeline; users have a [Stage].
type Core struct {
	*Pool // the stage's own workers

	set    settings
	inbox  *inbox.Inbox
	flaws  []error
	shares bool // the workers share one instance
	kind   kind // of command

	staff    *worker.Stage
	endpoint endpoint
	upgrade  upgrading
}

// Env is what a pipeline lends to its stages.
type Env struct {
	Host   *inbox.Pipeline
	System *actor.System
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
	c := &Core{set: set, inbox: inbox.New(*set.inbox)}
	c.set.inbox = c.inbox.Config()
	c.Pool = &Pool{core: c, gang: c.inbox, least: set.min, most: set.max}
	c.staff = &worker.Stage{Inbox: c.inbox}
	c.staff.Install(c.staff.NewVersion(func(*worker.Version) worker.Instance { return nil }, false))
	return c
}

// checkExpiry notes a flaw if the function of ExpiresAt can never be called with a command of the stage.
func (c *Core) checkExpiry(cmd reflect.Type) {
	of := c.set.expiring
	abstract := func(t reflect.Type) bool { return t.Kind() == reflect.Interface }
	switch {
	case of == nil, of == cmd, abstract(of) && abstract(cmd):
	case abstract(of) && cmd.Implements(of), abstract(cmd) && of.Implements(cmd):
	default:
		c.flaw("ExpiresAt", fmt.Sprintf("takes %v, and the stage's commands are %v", of, cmd))
	}
}

func (c *Core) flaw(option, problem string) {
	c.flaws = append(c.flaws, &Fault{c.set.inbox.Name, option, problem})
}

// Name returns the stage's name.
func (c *Core) Name() string { return c.set.inbox.Name }

// Faults returns all that is wrong with the stage.
func (c *Core) Faults() []error {
	all := append(slices.Clone(c.flaws), c.set.faults()...)
	if d := c.set.inbox.Discipline; !canBe(c.kind.of(), queue.CommandType(d)) {
		all = append(all, &Fault{c.Name(), fmt.Sprintf("Discipline(%s)", d.Name()), fmt.Sprintf(
			"its function takes %v, which no command of type %v can be", queue.CommandType(d), c.kind.of())})
	}
	return all
}

// canBe reports whether a value of one type can be one of the other at run time: that a type assertion from the first
// to the second may succeed. A nil type is any.
func canBe(value, other reflect.Type) bool {
	switch {
	case value == nil || other == nil || value == other:
		return true
	case value.Kind() != reflect.Interface:
		return other.Kind() == reflect.Interface && value.Implements(other)
	case other.Kind() != reflect.Interface:
		return other.Implements(value)
	default:
		return true // some type may implement both
	}
}

// Outs returns the ports that the stage declares. Those that are nil are left out; they are
// among the faults.
func (c *Core) Outs() []behaviour.Outlet {
	return slices.DeleteFunc(slices.Clone(c.set.outs), func(p behaviour.Outlet) bool { return missing(p) })
}

// Inbox returns the stage's room.
func (c *Core) Inbox() *inbox.Inbox { return c.inbox }

// Blocking reports whether the stage's handlers wait rather than compute.
func (c *Core) Blocking() bool { return c.set.blocking }

// Asked is the fewest workers that the stage's options ask for, 0 if they leave that to the default.
func (c *Core) Asked() int {
	if !c.set.workers {
		return 0
	}
	return c.set.min
}

// Preset is how the stage's options have the knobs of its room.
func (c *Core) Preset() inbox.Knobs { return c.set.inbox.Knobs() }

// Discipline is the order that the stage's options give the queue.
func (c *Core) Discipline() queue.Discipline { return c.set.inbox.Discipline }

// Attach lends the pipeline's things to the stage. It is called once, before the stage is
// started.
func (c *Core) Attach(env *Env) {
	c.upgrade.mu.Lock() // somebody may want to upgrade it already
	defer c.upgrade.mu.Unlock()
	s := c.staff
	s.TTL, s.ExpiresAt = c.set.inbox.TTL, c.set.expiresAt
	s.Timeout, s.Grace, s.RetryIf = c.set.timeout, c.set.patience(), c.set.retry.If
	s.Log, s.Crashed, s.Context = env.Log, env.Crashed, worker.Labelled(env.Context, env.Name, c.Name())
	s.Endures, s.Pause, s.Apart = int32(min(c.set.restart.orDefault().Limit, math.MaxInt32)), c.set.inbox.Rest, actor.Apart(env.System)
	c.inbox.Owner, c.inbox.StartWorker = c.staff, c.Pool.call
	c.Pool.attach(env)
}

// Bind has the workers of a shared pool visit the stage; nil leaves it to its own. The
// stage's own pool is to be scaled to that.
func (c *Core) Bind(p *Pool) {
	if p == nil {
		c.inbox.Bind(nil)
		return
	}
	c.inbox.Bind(p.shared)
}

// Adjust turns the knobs of the stage's room. Instances that are too many are stopped.
func (c *Core) Adjust(change func(*inbox.Knobs)) { c.stopAll(c.inbox.Adjust(change)) }

// Clear stops all instances that nobody uses, and the shared one. The pipeline calls it when
// all have ended: a keeper may have been killed before those who used them.
func (c *Core) Clear() {
	c.stopAll(c.inbox.TakeIdleInstances())
	c.staff.Present().Close()
}

// stopAll gives instances their last word.
func (c *Core) stopAll(instances []any) {
	for _, inst := range instances {
		worker.StopInstance(c.staff, inst.(worker.Instance))
	}
}
