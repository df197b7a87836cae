package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/act"
	"github.com/golda-dev/golda/internal/plain"
)

// stop asks the supervisor to end, by then if that is set.
type stop struct {
	by     time.Time
	parent bool // it is the supervisor above that asks
}

// late tells that the time limit of a child's start or stop has passed.
type late struct{ who *birth }

// wake tells that a pause is over.
type wake struct{}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (stop) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (late) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (wake) IgnoreDeadLetterLogging() {}

// birth is one incarnation of a child. It is also the message that tells that the
// incarnation has said whether it is ready.
type birth struct {
	kid     *kid
	said    atomic.Pointer[word] // nil until it has
	parting atomic.Pointer[word] // how it ended after it was told to
	lost    atomic.Bool          // it did not stop in time, and was abandoned
}

type word struct{ err error }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (*birth) IgnoreDeadLetterLogging() {}

// kid is a child as the supervisor sees it.
type kid struct {
	child *Child
	id    string

	pid   *act.PID // nil if there is no incarnation
	birth *birth   // the last incarnation
	tree  *Tree    // of the last incarnation, if it is a supervisor
	up    bool     // it is ready
	seen  bool     // it was ready once
	due   bool     // is to be started
	going bool     // is to be stopped
	told  bool     // was told to stop
	dead  bool     // it failed, and nobody cares any more; or a supervisor that has ended
	drop  bool     // is to be forgotten when it has stopped
	held  bool     // it waits for those that it depends on, though somebody waits for it

	limit  *time.Timer // of its start or stop
	pause  *time.Timer // wakes the supervisor when it may be started
	after  time.Time   // not to be started before
	streak int32       // failures in a row
	births int32

	waits   *request // who waits for it to be started
	parts   *request // who waits for it to be stopped
	partErr error    // what he is told then

	since time.Time // when its state changed
	last  error     // why it ended last
}

// keeper is the supervisor's actor. It takes one step at a time, starting or
// stopping one child, and goes on when the child has answered.
type keeper struct {
	tree    *Tree
	self    *act.PID
	spec    Spec
	base    context.Context // services' values
	log     *slog.Logger
	nested  bool
	started func(error)

	kids     []*kid // in the order of their start
	byPID    map[string]*kid
	hired    int // numbers the children of simple_one_for_one
	restarts []time.Time
	story    []Failure

	up       bool  // all children have been started once
	broken   error // why they could not
	ending   bool
	ended    bool  // it has told that it is over
	gaveUp   bool  // it restarts nobody any more
	doomed   bool  // its significant children have ended while others were not yet started
	ordered  bool  // the supervisor above has told it to stop
	result   error // why it ends, if by itself
	by       time.Time
	queue    []*request
	starting *kid // whose answer is awaited
	telling  int  // children that were told to stop and have not yet
}

func newKeeper(system *act.System, spec Spec, base context.Context) *keeper { //nolint:revive // base is kept, not obeyed
	spec.Children = slices.Clone(spec.Children) // the caller's may change
	k := &keeper{
		tree: &Tree{name: spec.Name, system: system, stopped: make(chan struct{})},
		spec: spec, base: base, log: spec.Log, byPID: map[string]*kid{},
	}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	for i := range spec.Children {
		c := &spec.Children[i]
		k.kids = append(k.kids, &kid{child: c, id: c.Name})
	}
	return k
}

// Receive handles a message to the supervisor.
func (k *keeper) Receive(ctx act.Context) {
	switch m := ctx.Message().(type) {
	case *act.Started:
		k.self = ctx.Self()
		for _, c := range k.kids {
			c.due, c.since = true, time.Now()
		}
		k.step(ctx)
	case *birth:
		k.heard(ctx, m)
	case late:
		k.late(ctx, m.who)
	case wake:
		k.step(ctx)
	case stop:
		k.stop(ctx, m)
	case *request:
		k.asked(ctx, m)
	case cancel:
		k.cancelled(ctx, m)
	case *act.Terminated:
		k.gone(ctx, m.Who)
	case *act.Stopping:
		k.stopping(ctx)
	case *act.Stopped:
		k.close()
	}
}

// HandleFailure hears that a child has failed; it is suspended now.
func (k *keeper) HandleFailure(system *act.System, sv act.Supervisor, child *act.PID, _ *act.RestartStatistics, reason, _ any) {
	c := k.byPID[child.Id]
	if c == nil {
		act.Stop(system, child)
		return
	}
	err, ok := reason.(error)
	switch panicked, isPanic := reason.(*act.Panic); {
	case isPanic:
		err = &CrashError{Child: c.id, Value: panicked.Value, Stack: panicked.Stack}
	case !ok:
		err = errors.New(plain.Text(reason))
	}
	c.dead = c.tree != nil // a supervisor whose children are all gone; it waits to be let go
	k.failed(c, err)
	if c.tree != nil && (c.told || k.gaveUp) {
		act.Stop(system, child)
	}
	k.step(sv.(act.Context))
}

// step does what can be done now: it stops the last child that is to be stopped, or
// else starts the first that is to be started, or else does what was asked for.
func (k *keeper) step(ctx act.Context) {
	for k.starting == nil && !k.ended {
		if k.telling == 0 || k.ending && k.spec.Strategy == SimpleOneForOne {
			if c := k.lastGoing(); c != nil {
				k.tell(ctx, c)
				continue
			}
		}
		switch c := k.firstDue(); {
		case k.telling > 0:
			return
		case k.ending:
			k.end(ctx)
		case c != nil:
			k.launch(ctx, c)
		default:
			k.settled()
			if !k.ending && !k.serve() {
				return
			}
		}
	}
}

func (k *keeper) lastGoing() *kid {
	for _, c := range slices.Backward(k.kids) {
		if c.going && !c.told {
			return c
		}
	}
	return nil
}

// firstDue is the child to be started next. One that has to pause holds up those that
// depend on it, but not a further one that somebody waits for.
func (k *keeper) firstDue() *kid {
	if k.gaveUp || k.ending {
		return nil
	}
	pausing := false // one before it pauses
	for _, c := range k.kids {
		switch {
		case !c.due:
		case c.waits != nil && !c.held, !pausing && !time.Now().Before(c.after):
			return c
		default:
			pausing = !k.spec.Strategy.independent()
		}
	}
	return nil
}

func (c *kid) stopLimit() {
	if c.limit != nil {
		c.limit.Stop()
		c.limit = nil
	}
}

func (c *kid) stopPause() {
	c.after = time.Time{}
	if c.pause != nil {
		c.pause.Stop()
		c.pause = nil
	}
}
