package inbox

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/gate"
	"github.com/golda-dev/golda/stage/reason"
)

// SetAdmission sets the rules by which the inbox admits submitted commands.
func (in *Inbox) SetAdmission(a controller.Admission) {
	if !in.rules.Any() && a == (controller.Admission{}) {
		return // as it is for most
	}
	in.rules.Set(a, in.state.now())
	var fx effects
	in.mu.Lock()
	in.state.slots.ceiling = a.Limit
	if a.Limit > 0 {
		in.state.recallRetries(&fx)
	}
	in.state.changed(&fx)
	in.unlock(&fx)
}

// checksAdmission reports whether a command must be checked before it is taken:
// by the rules, the bound of the entries, the bound of loops, or a discipline
// that asks for keys. Most inboxes check nothing.
func (in *Inbox) checksAdmission(ctx context.Context) bool {
	pl := in.Pipeline()
	return in.state.queue.ranker.Load() != nil || pl != nil && (in.rules.Any() || pl.entry.Any() || in.submitsInLoop(ctx))
}

// checkAdmission checks a command by the rules of the pipeline and of the
// inbox, and waits at the pipeline's entry. Entered says that
// [gate.Entry.Entered] must be called.
func (in *Inbox) checkAdmission(ctx context.Context, e *command.Envelope) (why reason.Reason, entered bool, refused error) {
	pl := in.Pipeline()
	if pl == nil || ended(ctx) {
		return "", false, nil // it is refused for that, and no rule need be asked
	}
	if in.submitsInLoop(ctx) && !pl.Allow() { // before the next check: a stage that is drained accepts commands of its own handlers
		return reason.MaxInFlight, false, in.LoopFull()
	}
	if !in.IsOpen() {
		return "", false, nil
	}
	for _, rules := range [...]*gate.Rules{&pl.entry.Rules, &in.rules} {
		if why, err := rules.Admit((*door)(in), *e); err != nil {
			return why, false, in.state.wrap(err)
		}
	}
	return in.waitToEnter(ctx)
}

// waitToEnter waits at the pipeline's entry. Callers that wait are found by the
// name of this method, see package stacks.
//
//go:noinline
func (in *Inbox) waitToEnter(ctx context.Context) (why reason.Reason, entered bool, err error) {
	pl := in.Pipeline()
	entered, why, err = pl.entry.Enter(ctx, (*door)(in), gate.Flight{InFlight: pl.InFlight, Held: pl.Held})
	switch why {
	case reason.Full:
		err = fmt.Errorf("stage %q: %w: %w", in.state.cfg.Name, err, ErrFull)
	case reason.Closed:
		err = in.state.wrap(ErrClosed)
	case reason.Cancelled:
		err = in.state.waitError(ctx, err)
	}
	return why, entered, err
}

// SetAdmission sets the rules by which the pipeline admits commands that are
// submitted to any of its inboxes.
func (pl *Pipeline) SetAdmission(a controller.Admission) {
	pl.entry.Set(a, pl.Now())
	pl.entry.Notify()
}

// door is an inbox as its gates see it.
type door Inbox

// Filled is for [gate.Door].
func (d *door) Filled() (queued, capacity int) {
	in := (*Inbox)(d)
	return in.Len(), in.Knobs().Capacity
}

// Clock is for [gate.Door].
func (d *door) Clock() int64 { return (*Inbox)(d).state.now() }

// MayWait reports true if the overflow rule is [Wait], unless the caller is a
// handler.
func (d *door) MayWait(ctx context.Context) bool {
	return handlerOf(ctx) == nil && (*Inbox)(d).Waits()
}

// Wait is for [gate.Door].
func (d *door) Wait(ctx context.Context, closed <-chan struct{}) error { return Until(ctx, closed) }

// IsOpen is for [gate.Door].
func (d *door) IsOpen() bool { return (*Inbox)(d).IsOpen() }
