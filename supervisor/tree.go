package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/golda-dev/golda/internal/act"
	"github.com/golda-dev/golda/internal/need"
)

// Tree is a running supervisor.
type Tree struct {
	name    string
	system  *act.System
	pid     *act.PID
	stopped chan struct{}

	// Written before stopped is closed.
	left   []string // children that did not stop
	result error
	last   Info
}

// Start starts the children in order and returns when the last is ready. If one
// cannot start, or ctx ends first, those that were begun are stopped in reverse
// order and the error is returned. Once the supervisor has started ctx no longer
// matters, but for its values, which services' contexts carry.
//
// The system is where the actors live that the supervisor and its children are; if it
// is nil the supervisor has one of its own.
func Start(ctx context.Context, system *System, spec Spec) (*Tree, error) {
	need.Context(ctx, "supervisor: Start")
	if err := spec.check(); err != nil {
		return nil, err
	}
	if system == nil {
		if spec.Log == nil {
			spec.Log = slog.Default()
		}
		system = act.NewSystem(spec.Log)
	}
	if spec.Name == "" {
		spec.Name = act.Unique(system, "supervisor")
	}
	started := make(chan error, 1)
	k := newKeeper(system, spec, context.WithoutCancel(ctx))
	k.started = func(err error) { started <- err }
	pid, err := act.Spawn(system.Root, spec.Name, act.NewMailbox(nil), func() act.Actor { return k })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Name, err)
	}
	t := k.tree
	t.pid = pid
	select {
	case err = <-started:
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

// Run starts a supervisor, lets it run until ctx ends or it ends by itself, and
// stops it. It returns nil if all ended well, even if that was before all had started,
// and otherwise what Start or [Tree.Wait] say.
func Run(ctx context.Context, spec Spec) error {
	need.Context(ctx, "supervisor: Run")
	t, err := Start(ctx, nil, spec)
	switch {
	case err == nil:
	case ctx.Err() != nil && err == context.Cause(ctx): //nolint:errorlint // if there were more to tell it would be wrapped
		return nil
	default:
		return err
	}
	select {
	case <-ctx.Done():
		t.Stop()
	case <-t.stopped:
	}
	return t.Wait()
}

// Name is the supervisor's name, behind those of the supervisors above.
func (t *Tree) Name() string { return t.name }

// PID is the supervisor's address.
func (t *Tree) PID() *PID { return t.pid }

// Done is closed when the supervisor and its children have ended.
func (t *Tree) Done() <-chan struct{} { return t.stopped }

// Wait waits until the supervisor and its children have ended. It returns nil if that
// was asked for, by Stop or by an [AutoShutdown] after children that ended well;
// an [*EscalationError]; a [*ShutdownError]; a [*LeftError]; or [ErrKilled].
func (t *Tree) Wait() error {
	<-t.stopped
	return t.result
}

// Stop stops the children in reverse order, awaits each, and returns the names
// of those that did not stop in time. It may be called more than once.
func (t *Tree) Stop() (left []string) { return t.stop(stop{}) }

// StopWithin is Stop with a limit for all children together, beside their own: a
// child whose turn comes later has what is left, and a moment at least.
func (t *Tree) StopWithin(d time.Duration) (left []string) {
	return t.stop(stop{by: time.Now().Add(d)})
}

func (t *Tree) stop(m stop) []string {
	t.system.Root.Send(t.pid, m)
	<-t.stopped
	return t.left
}

// Add is OTP's start_child: it starts a further child, after all others, and
// returns when it is ready. The child's id is its name, with a number if the strategy
// is [SimpleOneForOne]. If it cannot start, with a [*StartError], or ctx ends first, it
// is as if it had never been. A child of that name makes it [ErrAlreadyStarted] if it
// runs, and [ErrAlreadyPresent] if not.
func (t *Tree) Add(ctx context.Context, child Child) (id string, err error) {
	need.Context(ctx, "supervisor: Add")
	return t.ask(ctx, &request{do: add, child: child})
}

// Terminate is OTP's terminate_child: it stops a child and awaits its end, or its
// patience's. The child is kept, and may be started again by [Tree.Restart] or on
// behalf of another, unless it is temporary or the strategy is [SimpleOneForOne]. To
// terminate a child that does not run is no error; one that did not stop in time is down,
// and the error a [*LeftError]. If a sibling crashes before the child has stopped, the child is not started
// on its behalf.
func (t *Tree) Terminate(id string) error {
	_, err := t.ask(context.Background(), &request{do: terminate, id: id})
	return err
}

// Restart is OTP's restart_child: it starts a child that was terminated, or has
// ended well. If that fails, or ctx ends first, the child stays down; if ctx has ended already it is not started at all.
func (t *Tree) Restart(ctx context.Context, id string) error {
	need.Context(ctx, "supervisor: Restart")
	_, err := t.ask(ctx, &request{do: restart, id: id})
	return err
}

// Delete is OTP's delete_child: it forgets a child that does not run.
func (t *Tree) Delete(id string) error {
	_, err := t.ask(context.Background(), &request{do: remove, id: id})
	return err
}

// Remove terminates a child and forgets it.
func (t *Tree) Remove(id string) error {
	err := t.Terminate(id)
	if _, left := errors.AsType[*LeftError](err); err != nil && !left {
		return err
	}
	gone := t.Delete(id)
	if errors.Is(gone, ErrNotFound) || errors.Is(gone, ErrSimple) {
		gone = nil // forgotten already
	}
	return cmp.Or(err, gone)
}

// Sub returns the supervisor that is the child of that name at present. After a
// restart it is another one.
func (t *Tree) Sub(id string) (*Tree, bool) {
	for _, c := range t.look().Children {
		if c.Name == id && c.tree != nil {
			return c.tree, true
		}
	}
	return nil, false
}

// ask has the supervisor do something, and waits for its answer. What ctx ends
// is not done.
func (t *Tree) ask(ctx context.Context, r *request) (string, error) {
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s: %w", t.name, context.Cause(ctx))
	}
	r.answer = make(chan answer, 1)
	t.system.Root.Send(t.pid, r)
	select {
	case a := <-r.answer:
		return a.id, a.err
	case <-t.stopped:
		return t.answered(r)
	case <-ctx.Done():
	}
	t.system.Root.Send(t.pid, cancel{r, context.Cause(ctx)})
	select {
	case a := <-r.answer:
		return a.id, a.err
	case <-t.stopped:
		return t.answered(r)
	}
}

// answered is the answer of a supervisor that has stopped; it may have given one before.
func (t *Tree) answered(r *request) (string, error) {
	select {
	case a := <-r.answer:
		return a.id, a.err
	default:
		return "", fmt.Errorf("%s: %w", t.name, cmp.Or(t.result, ErrStopped))
	}
}
