package engine

import (
	"context"
	"reflect"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/internal/version"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/worker"
)

// Core is a stage without its command type: the object that a pipeline checks,
// starts, scales and stops.
type Core struct {
	*Pool // the stage's own workers

	spec   Spec
	inbox  *inbox.Inbox
	shares bool // the workers share one instance

	process  string // that handles the commands; empty if it is this one
	uncalled error  // why commands whose callers wait for the result are refused; nil if they are not

	staff    *worker.Stage
	endpoint endpoint
	upgrade  upgrading
}

// endpoint gives a stage its PID. It is opened when a caller first asks for the
// PID: actors never send anything to most stages.
type endpoint struct {
	opened atomic.Pointer[actor.Endpoint]

	mu      sync.Mutex // guards allowed, and changes of opened
	allowed bool
}

// upgrading is the state of a stage's upgrades.
type upgrading struct {
	// mu guards the fields below, and the fields that Attach sets.
	mu       sync.Mutex
	turn     chan struct{} // holds an element while an upgrade is under way; nil if there was none
	running  bool          // the stage's supervisor runs: instances are started
	switched chan struct{} // is closed when the last upgrade has replaced the version; nil if there was none
}

// New returns a core for a stage. It has no version of a behaviour until
// [Core.Install] or [Core.Share] is called.
func New(config *Config, typed Typed) *Core {
	c := &Core{spec: Spec{config, typed}, inbox: inbox.New(*config.Inbox)}
	config.Inbox = c.inbox.Config()
	c.Pool = &Pool{core: c, group: c.inbox.Workers()}
	c.Pool.SetBounds(part.Seal{}, config.Fewest, config.Most)
	c.staff = &worker.Stage{Inbox: c.inbox, Versions: version.Series{Inbox: c.inbox}}
	c.inbox.Owner = c.staff
	c.Install(func(*version.Version) Instance { return nil })
	return c
}

// Instance is one value of a stage's behaviour, with the command type erased by
// the stage: its life, and how it handles commands.
type Instance interface {
	version.Instance
	worker.Handler
}

// Install sets the version that a stage which has not been started begins with:
// build makes its instances.
func (c *Core) Install(build func(*version.Version) Instance) {
	c.staff.Versions.Install(c.newVersion(build))
}

// newVersion returns a version whose instances build makes. The workers share
// one instance if the stage's own version is shared.
func (c *Core) newVersion(build func(*version.Version) Instance) *version.Version {
	return c.staff.Versions.New(func(of *version.Version) version.Instance { return build(of) }, c.shares)
}

// Share makes the workers share one instance. It installs the version that will
// hold it, and returns that version.
func (c *Core) Share() *version.Version {
	c.shares = true
	v := c.staff.Versions.New(nil, true)
	c.staff.Versions.Install(v)
	return v
}

// Suspending lets the stage's handlers suspend.
func (c *Core) Suspending() { c.staff.Suspends() }

// Deferring lets the stage's handlers defer work that depends on how their
// command ends.
func (c *Core) Deferring() { c.staff.Defers = true }

// SetBoxes sets where the boxes of completed commands go. It must be called
// before the stage starts.
func (c *Core) SetBoxes(boxes command.Recycler) { c.staff.Boxes = boxes }

// Spec returns the options of the stage, and the types of its commands and keys.
func (c *Core) Spec() *Spec { return &c.spec }

// Name returns the stage's name.
func (c *Core) Name() string { return c.spec.config.Inbox.Name }

// Snapshot returns a stage.Snapshot of the accounts. This package does not know
// that type.
func (c *Core) Snapshot(accounts inbox.Accounts) any { return c.spec.typed.Snapshot(&accounts) }

// Mark is embedded by stage.Stage. It makes a stage of any command type a
// [Staged] and a part of a pipeline, by methods that users do not see.
type Mark struct{}

// Part makes a stage a part of a pipeline.
func (Mark) Part(part.Seal) {}

func (Mark) staged() {}

// Staged is a stage of any command type. [CoreOf] returns its core.
type Staged interface{ staged() }

// CoreOf returns the core of a stage of any command type; nil for anything
// else, and for a stage that was not made with a function of package stage.
// That package sets it, so that its users do not see the core.
var CoreOf = func(any) *Core { return nil }

// IsMissing reports whether a stage declares nil, or a stage that was not made
// with a function of package stage.
func IsMissing(p behaviour.Outlet) bool {
	_, ok := p.(Staged)
	return IsNil(p) || ok && CoreOf(p) == nil
}

// Outs returns the ports and stages that the stage declares, without missing
// ones, which are among the faults.
func (s *Spec) Outs() []behaviour.Outlet {
	return slices.DeleteFunc(slices.Clone(s.config.Outs), IsMissing)
}

// Owes reports whether suspended handlers, or results that wait for their turn,
// have something for another stage.
func (c *Core) Owes(to *behaviour.Inlet) bool { return c.staff.Owes(to) }

// Inbox returns the stage's inbox.
func (c *Core) Inbox() *inbox.Inbox { return c.inbox }

// Preset returns the knobs of the inbox as the stage's options set them.
func (c *Core) Preset() inbox.Knobs {
	knobs := c.spec.config.Inbox.Knobs()
	if _, most := c.Bounds(); c.spec.config.Fits {
		knobs.Instances = max(knobs.Instances, most)
	}
	return knobs
}

// Discipline returns the order that the stage's options give the queue.
func (c *Core) Discipline() queue.Discipline { return c.spec.config.Inbox.Discipline }

// Attach gives the stage access to its pipeline. The pipeline calls it once,
// before it starts the stage.
func (c *Core) Attach(env *Env) {
	c.upgrade.mu.Lock() // an upgrade may run already
	defer c.upgrade.mu.Unlock()
	s := c.staff
	s.TTL, s.ExpiresAt = c.spec.config.Inbox.TTL, c.spec.config.ExpiresAt
	s.Timeout, s.Grace, s.RetryIf = c.spec.config.Timeout, c.spec.config.Grace, c.spec.config.RetryIf
	s.Refusal, s.Crashed = c.spec.config.Refusal, env.Crashed
	s.Attach(labelled(env.Context, env.Name, c.Name()), env.Log, env.Unsaved)
	s.Endures, s.EnduresStart, s.StartsFor = int32(c.spec.config.Endures), int32(c.spec.config.EnduresStart), c.spec.config.StartsFor
	s.Apart = actor.Apart(env.System)
	c.inbox.StartWorker = c.Pool.startCalled
	c.spec.typed.Surround(env.Around)
	c.Pool.attach(env)
}

// Bind makes the workers of a shared pool visit the stage; nil leaves it to its
// own. The caller scales the stage's own pool to match.
func (c *Core) Bind(p *Pool) {
	if p == nil {
		c.inbox.Settings().Bind(nil)
		return
	}
	c.inbox.Settings().Bind(p.shared)
}

// Adjust changes the knobs of the stage's inbox, and stops idle instances
// beyond the new number.
func (c *Core) Adjust(change func(*inbox.Knobs)) {
	c.staff.Versions.Clear(c.inbox.Settings().Adjust(change))
}

// Clear stops all idle instances and the shared one. The pipeline calls it when
// all workers have ended: a supervisor may have been killed before its workers
// ended.
func (c *Core) Clear() {
	c.staff.Versions.Clear(c.inbox.Instances().TakeIdle())
	c.staff.Versions.Present().Close()
}

// IsNil reports whether a value is nil, or an interface around a nil.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Func, reflect.Pointer, reflect.Map, reflect.Chan, reflect.Slice, reflect.Interface:
		return r.IsNil()
	default:
		return false
	}
}

// labelled returns a context for a stage's handlers by which a CPU profile
// distinguishes stages: samples taken in a handler, and in the goroutines that
// it starts, have the labels "pipeline" and "stage".
func labelled(ctx context.Context, pipeline, stage string) context.Context {
	return pprof.WithLabels(ctx, pprof.Labels("pipeline", pipeline, "stage", stage))
}

// LogPanic logs that user code beside a handler has crashed.
func (c *Core) LogPanic(message string, err error) { c.staff.LogPanic(message, err) }
