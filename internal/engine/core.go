package engine

import (
	"context"
	"reflect"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/internal/states"
	"github.com/golda-dev/golda/internal/version"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/worker"
)

// Core is a stage without its command type: the object that a pipeline checks,
// starts, scales and stops.
type Core struct {
	*Pool // the stage's own workers

	config *Config
	typed  Typed
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

// Config is a stage's options, resolved.
type Config struct {
	Inbox        *inbox.Config // the inbox's own, once the core is made
	Fewest, Most int           // bounds of the number of workers
	Asks         bool          // the options set those bounds
	Blocking     bool          // handlers wait rather than compute
	ExpiresAt    func(cmd any) time.Time
	Timeout      time.Duration
	Grace        time.Duration
	RetryIf      func(error) bool
	Refusal      func(error) (asked time.Duration, refused bool)
	Endures      int           // how many crashes in a row, beyond one for each worker, the stage endures
	EnduresStart int           // how many failures to start, in the same way
	StartsFor    time.Duration // for how long failures to start are endured at least
	Outs         []behaviour.Outlet
	// Stateful is the part of the stage that a checkpoint of the pipeline
	// saves; nil: none.
	Stateful states.Stateful
	Single   bool              // a command makes one further command for each of Outs, at most
	KeyOf    func(cmd any) any // the key of a command, for the log; nil if the stage is not keyed
	Made     Made              // where the stage was made
}

// Typed is the side of a stage that has its command type and its public types.
type Typed interface {
	// Takes reports whether a message is a command of the stage.
	Takes(message any) bool
	// Type returns the type of the stage's commands.
	Type() reflect.Type
	// Key returns a function that gives the key of a command a number which is
	// the same in all processes; nil if the stage is not keyed. The error says
	// why the keys have no such number.
	Key() (of func(cmd any) uint64, err error)
	// Faults returns all that is wrong with the stage's options.
	Faults() []error
	// Surround sets the middleware of the stage's pipeline, a
	// []stage.MiddlewareFunc, before an instance starts.
	Surround(around any)
	// Snapshot returns the accounts of the stage as a stage.Snapshot.
	Snapshot(accounts *inbox.Accounts) any
}

// New returns a core for a stage. It has no version of a behaviour until
// [Core.Install] or [Core.Share] is called.
func New(config *Config, typed Typed) *Core {
	c := &Core{config: config, typed: typed, inbox: inbox.New(*config.Inbox)}
	config.Inbox = c.inbox.Config()
	c.Pool = &Pool{core: c, group: c.inbox.Workers(), least: config.Fewest, most: config.Most}
	c.staff = &worker.Stage{Inbox: c.inbox, Versions: version.Series{Inbox: c.inbox}}
	c.inbox.Owner = c.staff
	c.Install(c.staff.Versions.New(func(*version.Version) version.Instance { return nil }, false))
	return c
}

// Instance is one value of a stage's behaviour, with the command type erased by
// the stage: its life, and how it handles commands.
type Instance interface {
	version.Instance
	worker.Handler
}

// NewVersion returns a version whose instances build makes. The workers share
// one instance if the stage's own version is shared.
func (c *Core) NewVersion(build func(*version.Version) Instance) *version.Version {
	return c.staff.Versions.New(func(of *version.Version) version.Instance { return build(of) }, c.shares)
}

// Install sets the version that a stage which has not been started begins with.
func (c *Core) Install(v *version.Version) { c.staff.Versions.Install(v) }

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

// Name returns the stage's name.
func (c *Core) Name() string { return c.config.Inbox.Name }

// Made returns where the stage was made.
func (c *Core) Made() string { return c.config.Made.String() }

// Type returns the type of the stage's commands.
func (c *Core) Type() reflect.Type { return c.typed.Type() }

// Key returns a function that gives the key of a command a number which is the
// same in all processes; nil if the stage is not keyed.
func (c *Core) Key() (of func(cmd any) uint64, err error) { return c.typed.Key() }

// IsKeyed reports whether the stage is a keyed one.
func (c *Core) IsKeyed() bool {
	key, err := c.Key()
	return key != nil || err != nil
}

// Faults returns all that is wrong with the stage's options.
func (c *Core) Faults() []error { return c.typed.Faults() }

// KeyOf returns the key of a command, and whether the stage is keyed. It calls
// user code.
func (c *Core) KeyOf(cmd any) (key any, keyed bool) {
	if c.config.KeyOf == nil || !c.typed.Takes(cmd) {
		return nil, false
	}
	return c.config.KeyOf(cmd), true
}

// Takes returns the type of the stage's commands, in words.
func (c *Core) Takes() string { return c.typed.Type().String() }

// Snapshot returns a stage.Snapshot of the accounts. This package does not know
// that type.
func (c *Core) Snapshot(accounts inbox.Accounts) any { return c.typed.Snapshot(&accounts) }

// Outs returns the ports and stages that the stage declares, without missing
// ones, which are among the faults.
func (c *Core) Outs() []behaviour.Outlet {
	return slices.DeleteFunc(slices.Clone(c.config.Outs), IsMissing)
}

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

// Owes reports whether suspended handlers, or results that wait for their turn,
// have something for another stage.
func (c *Core) Owes(to *behaviour.Inlet) bool { return c.staff.Owes(to) }

// Inbox returns the stage's inbox.
func (c *Core) Inbox() *inbox.Inbox { return c.inbox }

// Stateful returns the state that a checkpoint of the pipeline saves of the
// stage; nil if there is none.
func (c *Core) Stateful() states.Stateful { return c.config.Stateful }

// Single reports whether a command makes one further command for each port, at
// most.
func (c *Core) Single() bool { return c.config.Single }

// Blocking reports whether the stage's handlers wait rather than compute.
func (c *Core) Blocking() bool { return c.config.Blocking }

// Asked returns the fewest workers that the stage's options ask for, or 0 if
// they leave that to the default.
func (c *Core) Asked() int {
	if !c.config.Asks {
		return 0
	}
	return c.config.Fewest
}

// Preset returns the knobs of the inbox as the stage's options set them.
func (c *Core) Preset() inbox.Knobs { return c.config.Inbox.Knobs() }

// Discipline returns the order that the stage's options give the queue.
func (c *Core) Discipline() queue.Discipline { return c.config.Inbox.Discipline }

// Attach gives the stage access to its pipeline. The pipeline calls it once,
// before it starts the stage.
func (c *Core) Attach(env *Env) {
	c.upgrade.mu.Lock() // an upgrade may run already
	defer c.upgrade.mu.Unlock()
	s := c.staff
	s.TTL, s.ExpiresAt = c.config.Inbox.TTL, c.config.ExpiresAt
	s.Timeout, s.Grace, s.RetryIf = c.config.Timeout, c.config.Grace, c.config.RetryIf
	s.Refusal, s.Crashed = c.config.Refusal, env.Crashed
	s.Attach(labelled(env.Context, env.Name, c.Name()), env.Log, env.Unsaved)
	s.Endures, s.EnduresStart, s.StartsFor = int32(c.config.Endures), int32(c.config.EnduresStart), c.config.StartsFor
	s.Apart = actor.Apart(env.System)
	c.inbox.StartWorker = c.Pool.startCalled
	c.typed.Surround(env.Around)
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
