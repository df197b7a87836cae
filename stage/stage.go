package stage

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/need"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/worker"
)

// What a submitter may be told, wrapped with the stage's name.
var (
	// ErrFull refuses a command: no room, and the stage's rule is not to wait.
	ErrFull = inbox.ErrFull
	// ErrClosed refuses a command: the pipeline is draining or has stopped.
	ErrClosed = inbox.ErrClosed
	// ErrDraining refuses a command: the stage is being drained, or has been. It is an
	// [ErrClosed] that may be over some day.
	ErrDraining = inbox.ErrDraining
	// ErrNotRunning refuses a command: the stage is not part of a pipeline
	// that was started.
	ErrNotRunning = inbox.ErrNotRunning
	// ErrShed ends an accepted command: it was dropped for want of room.
	ErrShed = inbox.ErrShed
	// ErrRate refuses a command: a policy bounds how many are let in.
	ErrRate = inbox.ErrRate
	// ErrPolicy refuses a command: a policy sheds some, or its gate does not let it in.
	ErrPolicy = inbox.ErrPolicy
	// ErrDisabled refuses a command, or ends one that was forwarded: a policy has
	// the stage take nothing.
	ErrDisabled = inbox.ErrDisabled
	// ErrMaxInFlight refuses a command that a handler emits along a way that closes a loop, and
	// sheds one that it forwards there: the pipeline holds as many commands as
	// pipeline.MaxInFlight says. Either leaves a dead letter.
	ErrMaxInFlight = inbox.ErrMaxInFlight
	// ErrExpired ends an accepted command: its time to live was over before its handler was called; see [TTL] and
	// [ExpiresAt].
	ErrExpired = inbox.ErrExpired
	// ErrStopped ends an accepted command: the pipeline stopped hard before
	// it was done, or was known to be.
	ErrStopped = inbox.ErrStopped
	// ErrTimeout is the cause with which a handler's context ends at the
	// stage's time limit.
	ErrTimeout = worker.ErrTimeout
	// ErrStuck is the value of a [CrashError] whose handler did not return. It is told beside
	// ErrStopped of what a worker held that did not come back within the grace of a hard stop.
	ErrStuck = worker.ErrStuck
	// ErrForeign ends a command that was forwarded to a stage outside the
	// pipeline.
	ErrForeign = worker.ErrForeign
)

// CrashError is the end of a command that crashed its handler.
type CrashError = worker.CrashError

// MostErrors is how many errors of failed commands [JoinedError] keeps.
const MostErrors = command.MostErrors

// JoinedError is the error of a [Ticket], or of a [Call], of which several commands failed: the command itself, or
// commands that were emitted on its way. It keeps the first [MostErrors] errors and counts the others.
// [errors.Is] and [errors.As] look at all that are kept.
type JoinedError = command.JoinedError

// Crashed reports whether an error is, or wraps, a crash. As [RetryPolicy].If it
// has crashes tried again, but not errors.
func Crashed(err error) bool {
	_, ok := errors.AsType[*CrashError](err)
	return ok
}

// Stage is a stage for commands of type C. Its methods may be called by
// anybody, at any time.
type Stage[C any] struct {
	core  *engine.Core
	set   *settings
	inbox *inbox.Inbox     // the core's, and
	inlet *behaviour.Inlet // its own: each is looked up for every command
	last  lastContext      // what was found out about the context that was submitted with last
}

// New makes a stage around one behaviour that all its workers share. The workers call it in parallel,
// GOMAXPROCS at once by default, so the behaviour must be safe for use by several goroutines, and commands may
// overtake one another; with [Workers](1, 1) it is called for one command after the other, in order. The package
// documentation has a table of which kind of stage to use. A crash of a
// worker leaves the behaviour as it is. If it is [behaviour.Suspending], its handlers may wait without
// holding a worker. If it has a Start it is called once, before the
// first worker; its Stop after the last. Should the stage break and be restarted,
// it is stopped and started again, unless workers that other stages share are at work with
// it.
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
	s := newStage[C](name, opts)
	first := s.core.Share()
	inst := instanceOf(b, first)
	first.Take(inst)
	if suspends {
		s.core.Suspending()
	}
	if suspends && inst.Many() {
		s.set.flaw("New", "the behaviour is both Suspending and a Batcher")
	}
	return s
}

// Coroutine makes a stage around a function whose handlers may wait without holding a worker:
// [New] with a [behaviour.Coroutine]. As with New, handlers run in parallel and commands may overtake one
// another. The function is given a coroutine.Context, with which it
// awaits, sleeps, yields, and calls other stages; see package coordination/coroutine. Up to
// [Instances] commands are under way at once, [DefaultInstances] if that is not given, whatever
// the number of workers.
func Coroutine[C any](name string, f func(c behaviour.Suspender, cmd C) behaviour.Outcome, opts ...Option) *Stage[C] {
	return New(name, behaviour.Coroutine[C](f), opts...)
}

// Func makes a stage around a function: [New] with a [behaviour.Func]. Several workers call the function in
// parallel, GOMAXPROCS by default, and commands may overtake one another. So a variable that the function captures
// needs a lock, or the stage needs [Workers](1, 1), which handles one command after the other, in order.
func Func[C any](name string, f func(ctx context.Context, cmd C) behaviour.Outcome, opts ...Option) *Stage[C] {
	return New(name, behaviour.Func[C](f), opts...)
}

// Each makes a stage with an instance for every worker that is at it, made by the factory
// when it is first needed, and a fresh one after each crash. The instances work in parallel, GOMAXPROCS by default, and
// commands may overtake one another, but one instance handles one command at a time: its own fields need no lock,
// what it shares with other instances does. With [Workers](1, 1) there is one instance, which sees all commands in
// order. A worker of the stage's own
// keeps its instance; one that other stages share gives it back when it leaves, and the
// next may get it. No instance is ever used by two workers at once.
//
// The factory may return any type that has HandleCommand: the type of the commands follows from that method, and is not
// spelled out. A [behaviour.Factory] is one, too.
func Each[C any, B behaviour.Behaviour[C]](name string, factory func() B, opts ...Option) *Stage[C] {
	s := newStage[C](name, opts)
	if factory == nil {
		s.set.flaw("Each", "the factory is nil")
	} else {
		s.core.Install(s.core.NewVersion(maker(func() behaviour.Behaviour[C] { return factory() })))
	}
	return s
}

// maker makes instances of what a factory makes.
func maker[C any](factory behaviour.Factory[C]) func(of *worker.Version) worker.Instance {
	return func(of *worker.Version) worker.Instance {
		b := factory()
		if engine.IsNil(b) {
			return nil
		}
		return instanceOf(b, of)
	}
}

// typed is the side of a stage that its engine asks. It is a type of its own, so that its methods are not the stage's.
type typed[C any] struct{ s *Stage[C] }

// Takes reports whether a message is a command of the stage.
func (t typed[C]) Takes(message any) bool { _, ok := message.(C); return ok }

// Type returns the type of the stage's commands.
func (t typed[C]) Type() reflect.Type { return reflect.TypeFor[C]() }

// Faults returns all that is wrong with the stage's options.
func (t typed[C]) Faults() []error { return t.s.set.all(reflect.TypeFor[C]()) }

// Snapshot returns the stage's accounts as a Snapshot.
func (t typed[C]) Snapshot(accounts *inbox.Accounts) any { return snapshotOf(t.s.core, accounts) }

func newStage[C any](name string, opts []Option) *Stage[C] {
	s := &Stage[C]{set: newSettings(name, opts)}
	s.set.checkExpiry(reflect.TypeFor[C]())
	s.core = engine.New(&s.set.Config, typed[C]{s})
	s.inbox = s.core.Inbox()
	s.inlet = s.inbox.Inlet()
	return s
}

// Name returns the stage's name.
func (s *Stage[C]) Name() string { return s.core.Name() }

// Inlet is the stage's untyped door, for [behaviour.Forward].
func (s *Stage[C]) Inlet() *behaviour.Inlet {
	if s == nil {
		return nil
	}
	return s.inlet
}

// Core is the stage without its type, for the pipeline.
func (s *Stage[C]) Core() *engine.Core {
	if s == nil {
		return nil
	}
	return s.core
}

// Part makes a stage a part of a pipeline.
func (s *Stage[C]) Part(part.Seal) {}

// Submit hands in a command and forgets it. A nil error means that the command
// was accepted, and will end exactly once; any other means that it was not:
// [ErrFull], [ErrClosed], [ErrNotRunning], or the context's error if it had
// ended or did while Submit waited for room. How an accepted command ends is not told;
// if it fails or has no answer it leaves a letter with its pipeline, see [DeadLetter].
//
// The handlers of the command, and of all commands that come of it, see the values of ctx. The end of ctx does not
// reach them: once the command is accepted it goes on. The stage holds on to ctx until it is given another one.
//
// A handler may submit with its own context, or one that it made of that: the values travel on. A pipeline that feeds
// itself in this way for ever keeps what its handlers added to the context over 256 submissions; then it keeps the values
// that the first command was submitted with.
func (s *Stage[C]) Submit(ctx context.Context, cmd C) error {
	need.Context(ctx, "stage: Submit")
	e := command.Envelope{Cmd: cmd}
	if ctx != context.Background() {
		e.From = s.last.origin(ctx, s.inbox)
	}
	return s.inbox.Submit(ctx, &e)
}

// SubmitAll hands in many commands, in order, as if each were given to [Stage.Submit],
// but as many as find room at once for the price of one. It returns how many
// were accepted: all of them, and no error, or those before the first that was not, and the
// error that it was refused with. Their handlers see the values of ctx, as those of Submit do.
func (s *Stage[C]) SubmitAll(ctx context.Context, cmds ...C) (accepted int, err error) {
	need.Context(ctx, "stage: SubmitAll")
	return s.inbox.SubmitAll(ctx, s.last.origin(ctx, s.inbox), len(cmds), func(i int) any { return cmds[i] })
}

// Ask hands in a command and returns a ticket to learn its end, or the reason
// why it was not accepted, as [Stage.Submit] does.
//
// The command has the values of ctx, as with Submit, and ends with it. When ctx ends the context of a handler that runs
// ends, with the same cause. A command that is queued, or waits for its next try, fails with the context's error and its
// cause when its turn comes, and its handler is not called. It is not tried again. The commands that come of it end in the
// same way. To keep a command going when ctx ends, pass context.WithoutCancel(ctx); so does a handler that asks another stage
// and does not wait, for its own context may end when it returns.
func (s *Stage[C]) Ask(ctx context.Context, cmd C) (*Ticket, error) {
	need.Context(ctx, "stage: Ask")
	t := new(Ticket)
	if err := s.inbox.Submit(ctx, &command.Envelope{Cmd: cmd, From: t.t.Asked(ctx, s.inbox.Pipeline())}); err != nil {
		return nil, err
	}
	return t, nil
}

// Call hands in a command and waits for its end, wherever in the pipeline that
// is. The result is what some stage gave to [behaviour.OK]; one of another type
// than R is a [*ResultError]. If commands that were emitted on its way failed, so does the call, with the error of the
// one that failed or [*JoinedError] if several did. If ctx ends first Call returns its cause at once, and
// the command ends with ctx, as with
// [Stage.Ask]. A handler that
// calls its own stage may wait for itself, and so may stages that call one another in a
// circle, and one that calls a stage which forwards to it: the pipeline does not know of ways by calls, so
// that stage waits for room where all handlers may be waiting for it. If ctx is a coroutine.Context
// the handler is suspended while it waits, and holds no worker; one that was derived from it holds the worker.
func Call[R, C any](ctx context.Context, s *Stage[C], cmd C) (result R, err error) {
	need.Context(ctx, "stage: Call")
	got, err := s.call(ctx, cmd)
	if err != nil || got == nil {
		return result, err
	}
	result, ok := got.(R)
	if !ok {
		return result, &ResultError{Stage: s.Name(), Want: reflect.TypeFor[R](), Got: reflect.TypeOf(got)}
	}
	return result, nil
}

// ResultError is why a [Call] has no result: the command succeeded, and what was given to [behaviour.OK], at the stage that was
// called or at one that it forwards to, is not of the type that was called for.
type ResultError struct {
	Stage string       // the stage that was called
	Want  reflect.Type // called for
	Got   reflect.Type // given to OK
}

// Error names the stage, both types, and what to do.
func (e *ResultError) Error() string {
	return fmt.Sprintf("stage %q: called for a result of type %v and got %v; use stage.Call[%v]", e.Stage, e.Want, e.Got, e.Got)
}

func (s *Stage[C]) call(ctx context.Context, cmd C) (any, error) {
	if c, ok := ctx.(behaviour.Suspender); ok {
		return s.callAside(c, cmd) //nolint:contextcheck // c is ctx
	}
	t, err := s.Ask(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return t.t.Wait(ctx)
}

// callAside calls for a handler that may suspend: who ends the command wakes it.
func (s *Stage[C]) callAside(c behaviour.Suspender, cmd C) (any, error) {
	var bell signal
	t := command.NewTicket(bell.ring)
	if err := s.inbox.Submit(c, &command.Envelope{Cmd: cmd, From: t.Asked(c, s.inbox.Pipeline())}); err != nil {
		return nil, err
	}
	return waitAside(t, c, &bell)
}

// waitAside waits for a ticket that rings the bell. [worker.Awaits] finds it by its name, and the ticket by its place.
//
//go:noinline
func waitAside(t *command.Ticket, c behaviour.Suspender, bell *signal) (any, error) {
	if err := bell.await(c); err != nil {
		return nil, err
	}
	return t.Result(), t.Err()
}

// PID returns the stage's address while its pipeline runs, and nil before. Any
// protoactor actor of the pipeline's system may send it a command of type C.
//
// A plain send is a Submit, a request is an Ask: it is answered with a [*Reply]
// when the command has ended. An actor message carries no context, so a full
// stage that waits holds the sender for at most five seconds. A send that is
// refused, or of another type than C, becomes a [DeadLetter]; a request is
// answered with the error.
func (s *Stage[C]) PID() *actor.PID { return s.core.PID() }

// Snapshot reads the stage's accounts.
func (s *Stage[C]) Snapshot() Snapshot {
	return snapshotOf(s.core, &inbox.Snapshot([]*inbox.Inbox{s.inbox})[0])
}

// Ticket is the right to learn the end of one command, and of all that was
// emitted on its way. It may be used by several goroutines.
type Ticket struct{ t command.Ticket }

// Done is closed when the command has ended.
func (t *Ticket) Done() <-chan struct{} { return t.t.Done() }

// Wait waits for the end of the command and returns its result or its error.
// If ctx ends first it returns the context's error, and the command goes on. If ctx is a
// coroutine.Context the handler is suspended while it waits; [Call] does so without a goroutine.
func (t *Ticket) Wait(ctx context.Context) (any, error) {
	need.Context(ctx, "stage: Ticket.Wait")
	if c, ok := ctx.(behaviour.Suspender); ok {
		if err := inbox.Until(c, t.t.Done()); err != nil { //nolint:contextcheck // c is ctx
			return nil, err
		}
		return t.t.Result(), t.t.Err()
	}
	return t.t.Wait(ctx)
}

// Result returns the command's result, nil if it has none or has not ended.
func (t *Ticket) Result() any { return t.t.Result() }

// Err returns the error of the command, or of one that was emitted on its way; [*JoinedError] if several of
// them failed; nil if none did or they have not all ended.
func (t *Ticket) Err() error { return t.t.Err() }
