package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/plain"
)

// stop asks the supervisor to end, within the time by if that is set.
type stop struct {
	by     time.Time
	parent bool // the supervisor above asks
}

// limitPassed notifies the supervisor that the time limit of an incarnation's
// start or stop has passed.
type limitPassed struct{ of *incarnation }

// wake notifies the supervisor that a pause is over.
type wake struct{}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (stop) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (limitPassed) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (wake) IgnoreDeadLetterLogging() {}

// incarnation is one incarnation of a child. It is also the message that
// notifies the supervisor that the incarnation has reported whether it is
// ready.
type incarnation struct {
	childState  *childState
	startReport atomic.Pointer[report] // nil until it reports whether it is ready
	stopReport  atomic.Pointer[report] // how it ended after it was asked to stop
	abandoned   atomic.Bool            // it did not stop in time
}

// report is an incarnation's report; a nil err means that it is ready, or ended
// well.
type report struct{ err error }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (*incarnation) IgnoreDeadLetterLogging() {}

// childState is the supervisor's state of a child.
type childState struct {
	pacing

	child *Child
	id    string

	pid         *actor.PID   // nil if there is no incarnation
	incarnation *incarnation // the last incarnation
	tree        *Tree        // of the last incarnation, if it is a supervisor
	up          bool         // it is ready
	wasUp       bool         // it was ready once
	toStart     bool         // to be started
	toStop      bool         // to be stopped
	stopSent    bool         // it was asked to stop
	dead        bool         // it failed after the supervisor gave up; or it is a nested supervisor that has ended
	toForget    bool         // to be forgotten when it has stopped
	held        bool         // it waits for the children before it, although it has a start request

	startRequest *request // waits for the child's start
	stopRequest  *request // waits for the child's stop
	stopErr      error    // the answer to stopRequest

	since time.Time // when its state changed
	last  error     // why it ended last
}

// pacing is when a child is started, and for how long its start or stop is
// waited for.
type pacing struct {
	limit  *time.Timer // of its start or stop
	pause  *time.Timer // wakes the supervisor when the child may be started
	after  time.Time   // it may not be started before
	streak int32       // failures in a row
	starts int32
}

// supervisor is the actor of a [Tree]. It takes one step at a time, starting or
// stopping one child, and continues when the child has answered.
type supervisor struct {
	conclusion

	tree    *Tree
	self    *actor.PID
	spec    Spec
	base    context.Context // carries the values of the services' contexts
	log     *slog.Logger
	nested  bool
	started func(error)

	children []*childState // in the order of their start
	byPID    map[string]*childState
	numbered int // numbers the children of simple_one_for_one
	restarts []time.Time
	story    []Failure

	up           bool  // all children have been started once
	broken       error // why the start failed
	queue        []*request
	starting     *childState // its start report is awaited
	stopsPending int         // children that were asked to stop and have not stopped yet
}

// conclusion is the progress of a supervisor's end, and its cause.
type conclusion struct {
	ending        bool
	ended         bool  // its actor is ending
	gaveUp        bool  // it restarts no further child
	doomed        bool  // its significant children ended before all children were started
	stopFromAbove bool  // the supervisor above has asked it to stop
	result        error // why it ends, if it ends by itself
	by            time.Time
}

func newSupervisor(system *actor.System, spec Spec, base context.Context) *supervisor { //nolint:revive // base is stored for its values
	spec.Children = slices.Clone(spec.Children) // the caller may change its slice
	s := &supervisor{
		tree: &Tree{name: spec.Name, system: system, stopped: make(chan struct{})},
		spec: spec, base: base, log: spec.Log, byPID: map[string]*childState{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for i := range spec.Children {
		c := &spec.Children[i]
		s.children = append(s.children, &childState{child: c, id: c.Name})
	}
	return s
}

// Receive handles a message to the supervisor.
func (s *supervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.self = ctx.Self()
		for _, c := range s.children {
			c.toStart, c.since = true, time.Now()
		}
		s.step(ctx)
	case *incarnation:
		s.handleReady(ctx, m)
	case limitPassed:
		s.handleLimit(ctx, m.of)
	case wake:
		s.step(ctx)
	case stop:
		s.handleStop(ctx, m)
	case *request:
		s.handleRequest(ctx, m)
	case cancel:
		s.handleCancel(ctx, m)
	case *actor.Terminated:
		s.handleTerminated(ctx, m.Who)
	case *actor.Stopping:
		s.handleStopping(ctx)
	case *actor.Stopped:
		s.close()
	}
}

// HandleFailure handles the failure of a child, which protoactor has suspended.
func (s *supervisor) HandleFailure(system *actor.System, sv actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	c := s.byPID[child.Id]
	if c == nil {
		actor.Stop(system, child)
		return
	}
	err, ok := reason.(error)
	switch panicked, isPanic := reason.(*actor.Panic); {
	case isPanic:
		err = &CrashError{Child: c.id, Value: panicked.Value, Stack: panicked.Stack}
	case !ok:
		err = errors.New(plain.Text(reason))
	}
	c.dead = c.tree != nil // its children have all ended; it waits to be stopped
	s.failed(c, err)
	if c.tree != nil && (c.stopSent || s.gaveUp) {
		actor.Stop(system, child)
	}
	s.step(sv.(actor.Context))
}

// step takes the next steps until it has to wait. It stops the last child that
// must be stopped, or else starts the next child that must be started, or else
// performs the next request.
func (s *supervisor) step(ctx actor.Context) {
	for s.starting == nil && !s.ended {
		if s.stopsPending == 0 || s.ending && s.spec.Strategy == SimpleOneForOne {
			if c := s.lastGoing(); c != nil {
				s.sendStop(ctx, c)
				continue
			}
		}
		switch c := s.nextDue(); {
		case s.stopsPending > 0:
			return
		case s.ending:
			s.end(ctx)
		case c != nil:
			s.launch(ctx, c)
		default:
			s.noteAllUp()
			if !s.ending && !s.performNext() {
				return
			}
		}
	}
}

func (s *supervisor) lastGoing() *childState {
	for _, c := range slices.Backward(s.children) {
		if c.toStop && !c.stopSent {
			return c
		}
	}
	return nil
}

// nextDue returns the child to start next: the first one, if the later ones
// depend on it, or else the child that has waited longest. Otherwise a child
// that always fails would keep later children from being started. A child that
// pauses holds up the children that depend on it, but not a later child that a
// caller waits for.
func (s *supervisor) nextDue() (next *childState) {
	if s.gaveUp || s.ending {
		return nil
	}
	independent, pausing := s.spec.Strategy.independent(), false // an earlier child pauses
	for _, c := range s.children {
		switch {
		case !c.toStart:
		case c.startRequest != nil && !c.held, !pausing && !time.Now().Before(c.after):
			if !independent {
				return c
			}
			if next == nil || c.due().Before(next.due()) {
				next = c
			}
		default:
			pausing = !independent
		}
	}
	return next
}

// due returns since when a child that does not run could be started.
func (c *childState) due() time.Time {
	if c.after.After(c.since) {
		return c.after
	}
	return c.since
}

func (c *childState) stopLimit() {
	if c.limit != nil {
		c.limit.Stop()
		c.limit = nil
	}
}

func (c *childState) stopPause() {
	c.after = time.Time{}
	if c.pause != nil {
		c.pause.Stop()
		c.pause = nil
	}
}
