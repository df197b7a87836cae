package stage

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/states"
	"github.com/golda-dev/golda/internal/version"
	"github.com/golda-dev/golda/stage/queue"
)

// Stage is a stage for commands of type C. Its methods may be called by any
// goroutine, at any time.
type Stage[C any] struct {
	mark

	core  *engine.Core
	inbox *inbox.Inbox     // the core's inbox and
	inlet *behaviour.Inlet // its inlet: fields of their own because every command needs them
	boxes *command.Boxes[C]
	set   *settings
	last  lastContext
}

// New makes a stage around one behaviour that all its workers share. The
// workers call it in parallel, GOMAXPROCS at once by default, so the behaviour
// must be safe for use by several goroutines, and commands may overtake one
// another. With [Workers](1, 1) it is called for one command after the other,
// in order. The package documentation has a table of which kind of stage to
// use.
//
// A crash of a worker leaves the behaviour as it is. If the behaviour is
// [behaviour.Suspending], its handlers may wait without holding a worker. If it
// has a Start, that is called once, before the first worker starts; its Stop is
// called after the last worker has ended. If the stage breaks and is restarted,
// the behaviour is stopped and started again, unless workers of a shared pool
// use it.
func New[C any](name string, b behaviour.Behaviour[C], opts ...Option) *Stage[C] {
	if engine.IsNil(b) {
		s := newStage[C](name, opts)
		s.set.flaw("New", "the behaviour is nil")
		return s
	}
	_, suspends := b.(behaviour.Suspending[C])
	if suspends {
		opts = append(slices.Clip(opts), suspending)
	}
	s := newStage[C](name, withFixed(opts, b))
	present := s.core.Share()
	s.set.share(s.core, present, b, instanceOf(b, present, s.set))
	return s
}

// share has all workers use one instance, which is made of a behaviour. It is
// New without the type of the commands.
func (s *settings) share(core *engine.Core, of *version.Version, b any, inst engine.Instance) {
	if inst.Saved() != nil {
		s.flaw("New", fmt.Sprintf("%T is a Snapshotter, but all workers share it, and a crash leaves it as it is; "+
			"use Each or Keyed", b))
	}
	s.shared = true
	of.Take(inst)
	if inst.Suspends() {
		core.Suspending()
		if holder, ok := b.(link.Holder); ok {
			s.engine.Inbox.Holder = holder
			core.Deferring()
		}
	}
	if timed, ok := b.(link.Timed); ok {
		s.engine.Timed = timed
	}
	if stateful, ok := b.(states.Stateful); ok && s.engine.Inbox.Holder != nil {
		s.engine.Stateful = stateful
	}
	if inst.Suspends() && inst.Many() {
		s.flaw("New", "the behaviour is both Suspending and a Batcher")
	}
}

// Coroutine makes a stage around a function whose handlers may wait without
// holding a worker: [New] with a [behaviour.Coroutine]. As with New, handlers
// run in parallel and commands may overtake one another. The function is given
// a coroutine.Context, with which it awaits, sleeps, yields, and calls other
// stages; see package coordination/coroutine. Up to [Instances] commands, 1024
// by default, are in progress at once, whatever the number of workers.
func Coroutine[C any](name string, f func(c behaviour.Suspender, cmd C) behaviour.Outcome, opts ...Option) *Stage[C] {
	if f == nil {
		return flawed[C](name, "Coroutine", opts)
	}
	return New(name, behaviour.Coroutine[C](f), opts...)
}

// Func makes a stage around a function: [New] with a [behaviour.Func]. Several
// workers call the function in parallel, GOMAXPROCS by default, and commands
// may overtake one another. So a variable that the function captures needs a
// lock, or the stage needs [Workers](1, 1), which handles one command after the
// other, in order.
func Func[C any](name string, f func(ctx context.Context, cmd C) behaviour.Outcome, opts ...Option) *Stage[C] {
	if f == nil {
		return flawed[C](name, "Func", opts)
	}
	return New(name, behaviour.Func[C](f), opts...)
}

// flawed returns a stage that its pipeline refuses: the function is nil.
func flawed[C any](name, of string, opts []Option) *Stage[C] {
	s := newStage[C](name, opts)
	s.set.flaw(of, "the function is nil")
	return s
}

// Each makes a stage with an instance for every worker that is at it. The
// factory makes an instance when it is first needed, and a fresh one after each
// crash. The instances work in parallel, GOMAXPROCS by default, and commands
// may overtake one another. One instance handles one command at a time: its own
// fields need no lock, but data that it shares with other instances does. With
// [Workers](1, 1) there is one instance, which sees all commands in order.
//
// A worker of the stage's own keeps its instance. A worker of a shared pool
// gives the instance back when it leaves, and the next worker may get it. No
// instance is ever used by two workers at once.
//
// An instance that is a [behaviour.Snapshotter] and a [behaviour.Restorer]
// leaves its state, after each command, to the next instance that the factory
// makes: after a crash, when the number of workers falls and rises again, and
// after an upgrade. So there are as many states as there were instances at
// once, and none is in two instances. When the stage stops they are gone, and a
// stage that is restarted because it, or another stage, broke begins without
// them: one of them may be why it broke.
//
// The factory may return any type that has HandleCommand: the type of the
// commands follows from that method, and need not be written. A
// [behaviour.Factory] is such a factory too.
func Each[C any, B behaviour.Behaviour[C]](name string, factory func() B, opts ...Option) *Stage[C] {
	s := newStage[C](name, opts)
	if reflect.TypeFor[B]().Implements(reflect.TypeFor[behaviour.Snapshotter]()) {
		s.set.engine.Stateful = keyless{}
	}
	if factory == nil {
		s.set.flaw("Each", "the factory is nil")
	} else {
		s.core.Install(maker(s.set, func() behaviour.Behaviour[C] { return factory() }))
	}
	return s
}

func newStage[C any](name string, opts []Option) *Stage[C] {
	s := &Stage[C]{set: newSettings(name, opts), boxes: command.NewBoxes[C]()}
	setGuards(s.set, reflect.TypeFor[C]())
	s.core = engine.New(&s.set.engine, typed[C]{s})
	s.inbox = s.core.Inbox()
	s.set.inbox = s.inbox
	s.inlet = s.inbox.Inlet()
	if s.boxes != nil {
		link.SetBoxer(s.inlet, s.boxes.Take)
		s.core.SetBoxes(s.boxes)
	}
	return s
}

// maker returns a function that makes instances around the behaviours of a
// factory.
func maker[C any](set *settings, factory behaviour.Factory[C]) func(of *version.Version) engine.Instance {
	return func(of *version.Version) engine.Instance {
		b := factory()
		if engine.IsNil(b) {
			return nil
		}
		return instanceOf(b, of, set)
	}
}

// typed is an engine.Typed. It is a type of its own so that its methods are not
// methods of Stage.
type typed[C any] struct{ s *Stage[C] }

// Takes reports whether a message is a command of the stage.
func (t typed[C]) Takes(message any) bool { _, ok := message.(C); return ok }

// Type returns the type of the stage's commands.
func (t typed[C]) Type() reflect.Type { return reflect.TypeFor[C]() }

// Key returns the number of a command's key, which is the same in all
// processes.
func (t typed[C]) Key() (of func(cmd any) uint64, err error) {
	if t.s.set.keying.spread == nil {
		return nil, nil
	}
	return t.s.set.keying.spread()
}

// Faults returns everything that is wrong with the stage's options.
func (t typed[C]) Faults() []error { return t.s.set.faults(reflect.TypeFor[C]()) }

// Surround sets the middleware of the stage's pipeline.
func (t typed[C]) Surround(around any) { t.s.set.wide, _ = around.([]MiddlewareFunc) }

// Snapshot returns the accounts as a Snapshot.
func (t typed[C]) Snapshot(accounts *inbox.Accounts) any { return t.s.set.snapshot(t.s.core, accounts) }

// Name returns the stage's name.
func (s *Stage[C]) Name() string { return s.core.Name() }

// Inlet returns the stage's untyped entry, for [behaviour.Forward].
func (s *Stage[C]) Inlet() *behaviour.Inlet {
	if s == nil {
		return nil
	}
	return s.inlet
}

// mark hides the methods that make a stage a part of a pipeline.
type mark = engine.Mark

func init() { //nolint:gochecknoinits // the engine must not name a stage's type
	engine.CoreOf = func(x any) *engine.Core {
		if s, ok := x.(interface{ untyped() *engine.Core }); ok && !engine.IsNil(x) { // a nil Flow has no Stage to ask
			return s.untyped()
		}
		return nil
	}
}

// untyped returns the stage without its type, see engine.CoreOf.
func (s *Stage[C]) untyped() *engine.Core {
	if s == nil {
		return nil
	}
	return s.core
}

// isMade reports whether a stage is neither nil nor the zero Stage.
func (s *Stage[C]) isMade() bool { return s != nil && s.inbox != nil }

// unmadeError is the error of a call of a stage or flow that is nil or the zero
// value.
func unmadeError(call string) error {
	return fmt.Errorf("stage: %s: the stage or flow is nil, or was not made with a function of package stage", call)
}

// Submit submits a command and does not wait for its end. A nil error means
// that the command was accepted, and will end exactly once. Any other error
// means that it was not accepted: [ErrFull], [ErrClosed], [ErrNotRunning], or
// the error of ctx and its cause if ctx had ended, or ended while Submit waited
// for a free slot. The caller does not learn how an accepted command ends. If
// it fails or has no answer it leaves a letter with its pipeline, see
// [DeadLetter].
//
// The handlers of the command, and of all commands that they forward and emit,
// see the values of ctx. The end of ctx does not reach them: an accepted
// command continues, unless ctx is of [WithDeadline]. The stage keeps a
// reference to ctx until it is given another context.
//
// A handler may submit with its own context, or with one derived from it: the
// values travel on. A pipeline that feeds itself in this way for ever keeps
// what its handlers added to the context over 256 submissions; then it keeps
// only the values that the first command was submitted with.
func (s *Stage[C]) Submit(ctx context.Context, cmd C) error {
	link.CheckContext(ctx, "stage: Submit")
	if !s.isMade() {
		return unmadeError("Submit")
	}
	e := command.Envelope{Load: s.boxes.Load(cmd)}
	if ctx != context.Background() {
		e.From = s.last.origin(ctx, s.inbox)
	}
	return s.inbox.Submit(ctx, &e)
}

// SubmitAll submits many commands, in order, as if each were given to
// [Stage.Submit]. It is cheaper: as many commands as there are free slots cost
// as much as one. It returns how many were accepted: all of them, and no error,
// or those before the first one that was refused, and the error of that one.
// Their handlers see the values of ctx, as with Submit.
func (s *Stage[C]) SubmitAll(ctx context.Context, cmds ...C) (accepted int, err error) {
	link.CheckContext(ctx, "stage: SubmitAll")
	if !s.isMade() {
		return 0, unmadeError("SubmitAll")
	}
	from := s.last.origin(ctx, s.inbox)
	for n := 0; n < len(cmds); n++ {
		if n += s.inbox.SubmitFree(ctx, from, len(cmds)-n, func(i int) any { return s.boxes.Load(cmds[n+i]) }); n == len(cmds) {
			break
		}
		if err := s.inbox.Submit(ctx, &command.Envelope{Load: s.boxes.Load(cmds[n]), From: from}); err != nil {
			return n, err
		}
	}
	return len(cmds), nil
}

// PID returns the stage's address while its pipeline runs, and nil before. Any
// protoactor actor of the pipeline's system may send a command of type C to it.
//
// A plain send is a Submit. A request is an Ask: it is answered with a [*Reply]
// when the command has ended. An actor message carries no context, so a full
// stage that waits holds the sender for at most five seconds. A send that is
// refused, or that is of another type than C, becomes a [DeadLetter]; a request
// is answered with the error.
func (s *Stage[C]) PID() *actor.PID { return s.core.PID() }

// Reply is the answer to a request that an actor sent to the [Stage.PID] of a
// stage: the end of the command, in whichever stage of the pipeline that was.
//
//	Result any   // what behaviour.OK was given
//	Err    error // why there is no result
type Reply = engine.Reply

// Snapshot returns the stage's accounts.
func (s *Stage[C]) Snapshot() Snapshot {
	return s.set.snapshot(s.core, &inbox.Snapshot([]*inbox.Inbox{s.inbox})[0])
}

func (s *settings) snapshot(core *engine.Core, accounts *inbox.Accounts) Snapshot {
	snap := snapshotOf(core, accounts)
	if s.keying.count != nil {
		n := s.keying.count()
		snap.Workers.Keys, snap.Counts.Passivated, snap.Workers.KeptStates = n.instances, n.passivated, n.states
	}
	return snap
}

// newSettings returns the settings of a stage. A name that is too long is cut,
// since all faults of the stage quote it.
func newSettings(name string, opts []Option) *settings {
	s := &settings{
		engine: engine.Config{
			Inbox:  &inbox.Config{Name: plain.Name(name), Capacity: defaultCapacity, Batch: defaultBatch},
			Made:   engine.MadeHere(),
			Fewest: runtime.GOMAXPROCS(0),
			Most:   4 * runtime.GOMAXPROCS(0),
		},
	}
	s.options = &list{}
	for _, o := range opts {
		if s.options.at++; o == nil {
			s.nilOptions = append(s.nilOptions, s.options.at)
			continue
		}
		o(s)
	}
	s.options = nil // as many bytes as a tenth of the stage
	if engine.IsNil(s.engine.Inbox.Discipline) {
		s.nilDiscipline, s.engine.Inbox.Discipline = s.disciplined, queue.FIFO{}
	}
	s.setInstances()
	s.setRetry()
	s.setRestart()
	s.setGrace()
	s.setKeyCapacity()
	return s
}

// keyless stands for the states of instances without keys, which no checkpoint
// saves.
type keyless struct{}

// Unsavable returns why the states cannot be saved.
func (keyless) Unsavable() string {
	return "it has a state for each worker, which belongs to no key: make it a Keyed stage"
}

// Save is not called.
func (keyless) Save() (s states.State, err error) { return s, nil }

// Restore is not called.
func (keyless) Restore(states.State) (loads []any, err error) { return nil, nil }

// Park has nothing to end.
func (keyless) Park() {}
