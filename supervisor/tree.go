package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/act"
)

// ErrKilled is the reason of a child that ended without a word: somebody
// stopped it who should not have.
var ErrKilled = errors.New("supervisor: child ended without being told to")

// Child describes one child of a [Tree].
type Child struct {
	Name string
	// Spawn starts an incarnation under a name of its own. Ready is called
	// once, by anybody, when it is ready or cannot be.
	Spawn func(by act.Spawner, name string, ready func(error)) (*act.PID, error)
	// Patience is how long the child may take to stop.
	Patience time.Duration
}

// Spec describes a supervisor.
type Spec struct {
	Name      string
	Strategy  Strategy
	Intensity Intensity
	Children  []Child // in the order of their start
	// Restarted is told of each restart of a child, before it happens.
	Restarted func(child string, reason error)
	// GaveUp is told once that the supervisor will restart nobody any more.
	// The children still live; Stop ends them.
	GaveUp func(*EscalationError)
}

// Tree is a running supervisor.
type Tree struct {
	system  *act.System
	pid     *act.PID
	started chan error
	stopped chan struct{}
	left    []string // children that did not stop; written before stopped is closed
}

// Start starts the children in order and returns when the last is ready. If one
// cannot start, or ctx ends first, those that were begun are stopped in reverse
// order and the error is returned.
func Start(ctx context.Context, system *act.System, spec Spec) (*Tree, error) {
	t := &Tree{system: system, started: make(chan error, 1), stopped: make(chan struct{})}
	k := &keeper{tree: t, spec: spec, kids: make([]kid, len(spec.Children))}
	pid, err := act.Spawn(system.Root, spec.Name, act.NewMailbox(nil), func() act.Actor { return k })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Name, err)
	}
	t.pid = pid
	select {
	case err = <-t.started:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		if left := t.Stop(); len(left) > 0 {
			err = fmt.Errorf("%w (and %q did not stop)", err, left)
		}
		return nil, err
	}
	return t, nil
}

// PID is the supervisor's address.
func (t *Tree) PID() *act.PID { return t.pid }

// Stop stops the children in reverse order, awaits each, and returns the names
// of those that did not stop in time. It may be called more than once.
func (t *Tree) Stop() (left []string) { return t.stop(stop{}) }

// StopWithin is Stop with a limit for all children together, beside their own: a
// child whose turn comes later has what is left, and a moment at least.
func (t *Tree) StopWithin(d time.Duration) (left []string) { return t.stop(stop{time.Now().Add(d)}) }

func (t *Tree) stop(m stop) []string {
	t.system.Root.Send(t.pid, m)
	<-t.stopped
	return t.left
}

// moment is how long a child has to stop when the time for all is used up.
const moment = 100 * time.Millisecond

// stop asks the supervisor to end, by then if that is set.
type stop struct{ by time.Time }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (stop) IgnoreDeadLetterLogging() {}

// ready tells that a child is ready, or why not. Turn tells late answers of an
// earlier incarnation from those awaited.
type ready struct {
	turn int
	err  error
}

// late tells that the time limit of a step has passed.
type late struct{ turn int }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (late) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (ready) IgnoreDeadLetterLogging() {}

// kid is a child as the supervisor sees it.
type kid struct {
	pid   *act.PID // nil if there is no incarnation
	due   bool     // is to be started
	going bool     // is to be stopped
}

// keeper is the supervisor's actor. It takes one step at a time, starting or
// stopping one child, and goes on when the child has answered.
type keeper struct {
	tree     *Tree
	spec     Spec
	kids     []kid
	restarts []time.Time
	up       bool  // all children were ready once
	broken   error // why the children could not all start at first
	ending   bool
	gaveUp   bool

	turn  int // counts steps
	at    int // the child of the present step, if busy
	busy  bool
	limit *time.Timer // of the present step, if it has one
	by    time.Time   // when all children are to have stopped, if that is set
}

// Receive handles a message to the supervisor.
func (k *keeper) Receive(ctx act.Context) {
	switch m := ctx.Message().(type) {
	case *act.Started:
		for i := range k.kids {
			k.kids[i].due = true
		}
		k.step(ctx)
	case ready:
		k.ready(ctx, m)
	case late:
		k.late(ctx, m)
	case stop:
		if k.by.IsZero() {
			k.by = m.by
		}
		k.end(ctx)
	case *act.Terminated:
		k.gone(ctx, m.Who)
	case *act.Stopping:
		k.ending = true // told by us, or killed from outside: nobody is started any more
	case *act.Stopped:
		if !k.up {
			k.tree.started <- cmp.Or(k.broken, ErrKilled)
		}
		close(k.tree.stopped)
	}
}

// HandleFailure hears that a child has failed; it is suspended now.
func (k *keeper) HandleFailure(system *act.System, sv act.Supervisor, child *act.PID, _ *act.RestartStatistics, reason, _ any) {
	i := k.find(child)
	if i < 0 {
		act.Stop(system, child)
		return
	}
	err, ok := reason.(error)
	if !ok {
		err = fmt.Errorf("panic: %v", reason)
	}
	k.failed(sv.(act.Context), i, err)
}

func (k *keeper) find(pid *act.PID) int {
	return slices.IndexFunc(k.kids, func(c kid) bool { return c.pid != nil && c.pid.Id == pid.Id })
}

// failed decides who is restarted because child i failed.
func (k *keeper) failed(ctx act.Context, i int, reason error) {
	if k.ending || k.gaveUp || k.kids[i].going {
		return // it will be stopped anyway
	}
	if !k.up {
		k.broken = fmt.Errorf("%s: %w", k.spec.Children[i].Name, reason)
		k.end(ctx)
		return
	}
	var many bool
	k.restarts, many = k.spec.Intensity.add(k.restarts, time.Now())
	if many {
		k.gaveUp = true
		k.spec.GaveUp(&EscalationError{
			Supervisor: k.spec.Name, Child: k.spec.Children[i].Name,
			Restarts: len(k.restarts) - 1, Within: k.spec.Intensity.Within, Reason: reason,
		})
		return
	}
	k.spec.Restarted(k.spec.Children[i].Name, reason)
	from, to := k.spec.Strategy.affected(i, len(k.kids))
	for j := from; j < to; j++ {
		k.kids[j].going = k.kids[j].pid != nil
		k.kids[j].due = true
	}
	k.step(ctx)
}

// step begins the next step, if none is under way: it stops the last child that
// is to be stopped, or else starts the first that is to be started.
func (k *keeper) step(ctx act.Context) {
	for !k.busy {
		if i := k.last(func(c kid) bool { return c.going }); i >= 0 {
			k.begin(i)
			k.stopChild(ctx, i)
			return
		}
		i := slices.IndexFunc(k.kids, func(c kid) bool { return c.due })
		switch {
		case k.ending:
			k.busy = true
			ctx.Stop(ctx.Self())
		case i >= 0 && !k.gaveUp:
			k.begin(i)
			k.startChild(ctx, i)
		default:
			if !k.up {
				k.up = true
				k.tree.started <- nil
			}
			return
		}
	}
}

func (k *keeper) last(is func(kid) bool) int {
	for i, c := range slices.Backward(k.kids) {
		if is(c) {
			return i
		}
	}
	return -1
}

func (k *keeper) begin(i int) {
	k.turn++
	k.at, k.busy = i, true
}

func (k *keeper) startChild(ctx act.Context, i int) {
	k.kids[i].due = false
	turn, self, root := k.turn, ctx.Self(), ctx.ActorSystem().Root
	name := act.Unique(ctx.ActorSystem(), k.spec.Children[i].Name)
	pid, err := k.spawn(ctx, i, name, func(err error) { root.Send(self, ready{turn, err}) })
	if err != nil {
		root.Send(self, ready{turn, err})
		return
	}
	k.kids[i].pid = pid
}

// spawn calls a child's Spawn. It is foreign code in the supervisor's own
// goroutine, so a panic in it is an error like any other.
func (k *keeper) spawn(ctx act.Context, i int, name string, ready func(error)) (pid *act.PID, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case error:
			err = fmt.Errorf("panic in Spawn: %w", v)
		default:
			err = fmt.Errorf("panic in Spawn: %v", v)
		}
	}()
	return k.spec.Children[i].Spawn(ctx, name, ready)
}

func (k *keeper) stopChild(ctx act.Context, i int) {
	turn, self, root := k.turn, ctx.Self(), ctx.ActorSystem().Root
	k.limit = time.AfterFunc(k.patience(i), func() { root.Send(self, late{turn}) })
	act.Stop(ctx.ActorSystem(), k.kids[i].pid)
}

// patience is how long child i may take to stop.
func (k *keeper) patience(i int) time.Duration {
	d := k.spec.Children[i].Patience
	if k.by.IsZero() {
		return d
	}
	return min(d, max(time.Until(k.by), moment))
}

// ready hears the answer of the child that was started last.
func (k *keeper) ready(ctx act.Context, m ready) {
	if !k.busy || m.turn != k.turn {
		return
	}
	k.busy = false
	if m.err != nil {
		k.failed(ctx, k.at, m.err)
	}
	k.step(ctx)
}

// gone hears that a child's actor has ended.
func (k *keeper) gone(ctx act.Context, who *act.PID) {
	i := k.find(who)
	if i < 0 {
		return
	}
	k.kids[i].pid = nil
	expected := k.kids[i].going
	k.kids[i].going = false
	if k.busy && k.at == i {
		k.busy = false
		if k.limit != nil {
			k.limit.Stop()
		}
	}
	if !expected {
		k.failed(ctx, i, ErrKilled)
	}
	k.step(ctx)
}

// late gives up waiting for the child that is being stopped.
func (k *keeper) late(ctx act.Context, m late) {
	if !k.busy || m.turn != k.turn || k.kids[k.at].pid == nil {
		return
	}
	k.tree.left = append(k.tree.left, k.spec.Children[k.at].Name)
	act.Abandon(ctx.ActorSystem(), ctx.Self(), k.kids[k.at].pid)
}

// end stops all children, and then the supervisor.
func (k *keeper) end(ctx act.Context) {
	if k.ending {
		return
	}
	k.ending = true
	for i := range k.kids {
		k.kids[i].due = false
		k.kids[i].going = k.kids[i].pid != nil
	}
	if k.busy && k.kids[k.at].going {
		k.busy = false // a child that is starting is stopped without an answer
	}
	k.step(ctx)
}
