package worker

import (
	"context"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
)

// runEmitter is a run as its handler sees it.
type runEmitter Run

// Inbox returns the inbox of the handler's stage.
func (m *runEmitter) Inbox() *inbox.Inbox { return m.stage.Inbox }

// AsMember returns the worker that runs it as its inbox sees it.
func (m *runEmitter) AsMember() *inbox.Member { return &m.owner.Member }

// Shared reports whether the worker that runs it is one of a shared pool.
func (m *runEmitter) Shared() bool { return m.shared.Load() }

// Quality returns the quality that the stage's handlers are asked for.
func (m *runEmitter) Quality() float64 { return m.stage.Inbox.Settings().Quality() }

// Attempt returns the number of the present try, or 0 if it is over.
func (m *runEmitter) Attempt() int {
	m.emitting.Lock()
	defer m.emitting.Unlock()
	if m.over {
		return 0
	}
	return m.envelope.Tries() + 1
}

// Hold returns the hold of the command on the lane of its key; none if the
// stage is not keyed.
func (m *runEmitter) Hold() line.Hold { return m.hold }

// Defer has the worker that ends the run call s.Settled.
func (m *runEmitter) Defer(s link.Settler, use any) bool {
	m.emitting.Lock()
	defer m.emitting.Unlock()
	if m.over || !s.Deferred(use) {
		return false
	}
	m.emits.deferred = append(m.emits.deferred, settling{s, use})
	return true
}

// Derive gives the command other values for its further tries, and for the
// commands that result from it.
func (m *runEmitter) Derive(derive func(values context.Context) context.Context) bool {
	m.emitting.Lock()
	defer m.emitting.Unlock()
	if m.over {
		return false
	}
	m.result, m.derived = (*Run)(m).originLocked().Derived(derive), m.result == nil || m.derived
	return true
}

// PassOn makes further results of the command the results of a group of
// commands.
func (m *runEmitter) PassOn(of *command.Group) {
	m.emitting.Lock()
	defer m.emitting.Unlock()
	m.result, m.derived = of.Origin(&m.envelope), false
}

// Emit holds a command until the run has succeeded. If the handler has emitted
// many, Emit sends all of them on at once, and waits for free slots.
func (m *runEmitter) Emit(ctx context.Context, to *behaviour.Inlet, load any) error {
	return reported(m.emit(ctx, to, load), to, load)
}

func (m *runEmitter) emit(ctx context.Context, to *behaviour.Inlet, load any) error {
	run := (*Run)(m)
	run.emitting.Lock()
	defer run.emitting.Unlock()
	if run.over {
		return behaviour.ErrNoWorker
	}
	out, err := newOutbox(run.stage.Inbox, to)
	if err != nil {
		return err
	}
	if out.isFull(run.stage.Inbox) {
		return out.to.LoopFull()
	}
	run.emits.hold(emission{out, load, run.originLocked()})
	if len(run.emits.held) <= mostHeld || run.stage.Inbox.Config().Ordered {
		return nil
	}
	ctx, release := run.wait.start(ctx)
	defer release()
	if err := run.emits.send(ctx, run.sendOne); err != nil {
		run.emits.unhold()
		return err
	}
	return nil
}

// sendOne sends one emitted command and waits until it is queued.
func (run *Run) sendOne(ctx context.Context, m emission) error {
	_, suspends := ctx.(behaviour.Suspender) // then it holds no worker while it waits
	e := command.Emitted(m.load, m.from, run.stage.Inbox.Place)
	return m.to.hand(ctx, e, run.stage.Inbox, run.shared.Load() && !suspends)
}

// Owes reports whether suspended handlers of the stage hold commands that they
// emitted to another one, or results of the stage, if it is ordered, wait until
// they may leave for it. Commands of workers are not counted; see the inbox's
// Mark.
func (s *Stage) Owes(to *behaviour.Inlet) bool {
	if s.Inbox.Results().LeadTo(to) {
		return true
	}
	if s.Runs == nil {
		return false
	}
	owes := false
	s.Runs.Each(func(t *coro.Task) { owes = owes || t.Tag.(*Run).owes(to) })
	return owes
}

// owes reports whether the run holds something for an inlet. While its handler
// emits it may.
func (run *Run) owes(to *behaviour.Inlet) bool {
	if run.custody.gone() {
		return false
	}
	if !run.emitting.TryLock() {
		return true
	}
	defer run.emitting.Unlock()
	return slices.ContainsFunc(run.emits.held, func(m emission) bool { return m.to.to.Inlet() == to })
}
