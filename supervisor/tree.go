package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/link"
)

// Tree is a running supervisor.
type Tree struct {
	name    string
	system  *actor.System
	pid     *actor.PID
	stopped chan struct{}

	// Written before stopped is closed.
	left   []string // children that did not stop
	result error
	last   Info
}

// Start starts the children in order and returns when the last is ready. If a
// child cannot start, or ctx ends first, Start stops the children that were
// started, in reverse order, and returns the error. Once the supervisor has
// started, the end of ctx no longer matters; the contexts of services carry its
// values.
//
// The supervisor and its children are actors of the given system. If system is
// nil, the supervisor has a system of its own.
func Start(ctx context.Context, system *actor.System, spec Spec) (*Tree, error) {
	link.CheckContext(ctx, "supervisor: Start")
	if err := spec.check(); err != nil {
		return nil, err
	}
	if system == nil {
		if spec.Log == nil {
			spec.Log = slog.Default()
		}
		system = actor.NewSystem(spec.Log)
	}
	if spec.Name == "" {
		spec.Name = actor.Unique(system, "supervisor")
	}
	started := make(chan error, 1)
	s := newSupervisor(system, spec, context.WithoutCancel(ctx))
	s.started = func(err error) { started <- err }
	pid, err := actor.Spawn(system.Root, spec.Name, actor.NewMailbox(nil), func() actor.Actor { return s })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Name, err)
	}
	t := s.tree
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

// Run starts a supervisor, lets it run until ctx ends or the supervisor ends by
// itself, and stops it. It returns nil if all ended well, even if ctx ended
// before all had started, and otherwise the error of Start or [Tree.Wait].
func Run(ctx context.Context, spec Spec) error {
	link.CheckContext(ctx, "supervisor: Run")
	t, err := Start(ctx, nil, spec)
	switch {
	case err == nil:
	case ctx.Err() != nil && err == context.Cause(ctx): //nolint:errorlint // a further problem would wrap it
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

// Name returns the supervisor's name, prefixed with the names of the
// supervisors above.
func (t *Tree) Name() string { return t.name }

// PID returns the supervisor's address.
func (t *Tree) PID() *actor.PID { return t.pid }

// Done returns a channel that is closed when the supervisor and its children
// have ended.
func (t *Tree) Done() <-chan struct{} { return t.stopped }

// Wait waits until the supervisor and its children have ended. It returns nil
// if the end was asked for, by Stop or by an [AutoShutdown] after children that
// ended well. Otherwise it returns an [*EscalationError], a [*ShutdownError], a
// [*LeftError] or [ErrKilled].
func (t *Tree) Wait() error {
	<-t.stopped
	return t.result
}

// Stop stops the children in reverse order, waits for each, and returns the
// names of the children that did not stop in time. It may be called more than
// once.
func (t *Tree) Stop() (left []string) { return t.stop(stop{}) }

// StopWithin is Stop with a limit for all children together, in addition to
// their own limits. A child that is stopped later has the time that is left,
// but at least a moment (100ms).
func (t *Tree) StopWithin(d time.Duration) (left []string) {
	return t.stop(stop{by: time.Now().Add(d)})
}

func (t *Tree) stop(m stop) []string {
	t.system.Root.Send(t.pid, m)
	<-t.stopped
	return t.left
}

// Add is OTP's start_child: it starts a further child, after all others, and
// returns when the child is ready. The child's id is its name, with a number if
// the strategy is [SimpleOneForOne]. If the child cannot start (the error is a
// [*StartError]), or ctx ends first, the child is not added. If there is a
// child of that name, the error is [ErrAlreadyStarted] if it runs, and
// [ErrAlreadyPresent] if not.
func (t *Tree) Add(ctx context.Context, child Child) (id string, err error) {
	link.CheckContext(ctx, "supervisor: Add")
	return t.do(ctx, &request{do: add, child: child})
}

// Terminate is OTP's terminate_child: it stops a child and waits for its end,
// at most for its patience. The child is kept and may be started again, by
// [Tree.Restart] or on behalf of another child, unless it is temporary or the
// strategy is [SimpleOneForOne]. Terminating a child that does not run is no
// error. A child that did not stop in time is down, and the error is a
// [*LeftError]. If a sibling crashes before the child has stopped, the child is
// not started on its behalf.
func (t *Tree) Terminate(id string) error {
	_, err := t.do(context.Background(), &request{do: terminate, id: id})
	return err
}

// Restart is OTP's restart_child: it starts a child that was terminated or has
// ended well. If the start fails, or ctx ends first, the child stays down. If
// ctx has already ended, the child is not started at all.
func (t *Tree) Restart(ctx context.Context, id string) error {
	link.CheckContext(ctx, "supervisor: Restart")
	_, err := t.do(ctx, &request{do: restart, id: id})
	return err
}

// Delete is OTP's delete_child: it forgets a child that does not run.
func (t *Tree) Delete(id string) error {
	_, err := t.do(context.Background(), &request{do: remove, id: id})
	return err
}

// Remove terminates a child and forgets it.
func (t *Tree) Remove(id string) error {
	err := t.Terminate(id)
	if _, left := errors.AsType[*LeftError](err); err != nil && !left {
		return err
	}
	gone := t.Delete(id)
	if errors.Is(gone, ErrNotFound) || errors.Is(gone, errSimple) {
		gone = nil // forgotten already
	}
	return cmp.Or(err, gone)
}

// Sub returns the supervisor that is currently the child of that name. After a
// restart it is another one.
func (t *Tree) Sub(id string) (*Tree, bool) {
	for _, c := range t.inspect().Children {
		if c.Name == id && c.tree != nil {
			return c.tree, true
		}
	}
	return nil, false
}

// do sends a request to the supervisor and waits for the answer. If ctx ends
// first, the request is cancelled.
func (t *Tree) do(ctx context.Context, r *request) (string, error) {
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s: %w", t.name, context.Cause(ctx))
	}
	r.answer = make(chan answer, 1)
	t.system.Root.Send(t.pid, r)
	select {
	case a := <-r.answer:
		return a.id, a.err
	case <-t.stopped:
		return t.lastAnswer(r)
	case <-ctx.Done():
	}
	t.system.Root.Send(t.pid, cancel{r, context.Cause(ctx)})
	select {
	case a := <-r.answer:
		return a.id, a.err
	case <-t.stopped:
		return t.lastAnswer(r)
	}
}

// lastAnswer returns the answer of a supervisor that has stopped: the answer
// that it sent before its end, or an error.
func (t *Tree) lastAnswer(r *request) (string, error) {
	select {
	case a := <-r.answer:
		return a.id, a.err
	default:
		return "", fmt.Errorf("%s: %w", t.name, cmp.Or(t.result, ErrStopped))
	}
}
