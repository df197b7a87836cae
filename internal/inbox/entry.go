package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/gate"
	"github.com/golda-dev/golda/internal/handling"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage/reason"
)

// SetAdmission sets the rules by which the inbox admits submitted commands.
func (st Settings) SetAdmission(a controller.Admission) {
	if !st.in.rules.Any() && a == (controller.Admission{}) {
		return // as it is for most
	}
	st.in.rules.Set(a, st.in.state.now())
	var fx effects
	st.in.mu.Lock()
	st.in.state.slots.ceiling = a.Limit
	if a.Limit > 0 {
		st.in.state.recallRetries(&fx)
	}
	st.in.state.changed(&fx)
	st.in.unlock(&fx)
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
	if !in.Phases().IsOpen() {
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
	entered, why, err = pl.entry.Enter(ctx, (*door)(in), pl.flight())
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

// flight counts the commands of the pipeline for its entry.
func (pl *Pipeline) flight() gate.Flight { return gate.Flight{InFlight: pl.InFlight, Held: pl.Held} }

// SetAdmission sets the rules by which the pipeline admits commands that are
// submitted to any of its inboxes.
func (pl *Pipeline) SetAdmission(a controller.Admission) {
	pl.entry.Set(a, pl.Now())
	pl.entry.Notify()
}

// Priorities returns the priorities of commands that the pipeline's rules have
// lately looked at.
func (pl *Pipeline) Priorities() []int { return pl.entry.Priorities() }

// Priorities returns the priorities of commands that the inbox's rules have
// lately looked at.
func (st Settings) Priorities() []int { return st.in.rules.Priorities() }

// door is an inbox as its gates see it.
type door Inbox

// Filled is for [gate.Door].
func (d *door) Filled() (queued, capacity int) {
	in := (*Inbox)(d)
	return in.Len(), in.Settings().Knobs().Capacity
}

// Clock is for [gate.Door].
func (d *door) Clock() int64 { return (*Inbox)(d).state.now() }

// Chance is for [gate.Door].
func (d *door) Chance() float64 { return (*Inbox)(d).Pipeline().chance() }

// MayWait reports true if the overflow rule is [Wait], unless the caller is a
// handler.
func (d *door) MayWait(ctx context.Context) bool {
	return handlerOf(ctx) == nil && (*Inbox)(d).Config().Waits()
}

// Wait is for [gate.Door].
func (d *door) Wait(ctx context.Context, closed <-chan struct{}) error {
	return handling.Until(ctx, closed)
}

// IsOpen is for [gate.Door].
func (d *door) IsOpen() bool { return (*Inbox)(d).Phases().IsOpen() }

// ErrMaxInFlight refuses a further command that a handler sends along an edge
// of a loop: the pipeline holds as many commands as it may.
var ErrMaxInFlight = errors.New("stage: too many commands in flight; see pipeline.MaxInFlight")

// Commands on back edges are accepted beyond the capacity of an inbox;
// otherwise the stages of the loop could wait for one another. So a loop whose
// handlers add commands could grow for ever. The pipeline's MaxInFlight bounds
// the commands that handlers emit or submit along any edge of the loop. A
// forwarded command is in flight already and adds nothing.

// Allow takes a command off the allowance. It reports false if the pipeline
// holds as many commands as it may. It must not be called with an inbox's lock.
func (pl *Pipeline) Allow() bool {
	return pl.MaxInFlight <= 0 || pl.loops.Take(pl.MaxInFlight, pl.InFlight)
}

// EdgesChanged notes that an edge was added or removed.
func (pl *Pipeline) EdgesChanged() { pl.edges.Add(1) }

// EdgesVersion changes with each edge that is added or removed.
func (pl *Pipeline) EdgesVersion() uint32 { return pl.edges.Load() }

// submitsInLoop reports whether ctx is the context of a handler whose stage is
// in a loop with this one.
func (in *Inbox) submitsInLoop(ctx context.Context) bool {
	pl := in.Pipeline()
	if !pl.looped.Load() {
		return false
	}
	h := handlerOf(ctx)
	return h != nil && pl.InLoop(h.Inbox(), in)
}

// BoundEntries makes commands from outside wait while half of MaxInFlight is in
// flight, so that loops have the other half. The capacity is the sum over all
// inboxes. If it is at most half of MaxInFlight, it is a bound by itself, and
// commands are not counted.
func (pl *Pipeline) BoundEntries(capacity int) {
	pl.looped.Store(true)
	if pl.MaxInFlight > 0 && capacity > pl.MaxInFlight/2 {
		pl.entry.Bound(max(pl.MaxInFlight/2, 1))
	} else {
		pl.entry.Bound(0)
	}
}

// LoopFull returns the error of a command that the pipeline has no place for.
func (in *Inbox) LoopFull() error {
	return plain.Wrap(fmt.Sprintf("stage %q", in.state.cfg.Name), fmt.Errorf("%w (%d)", ErrMaxInFlight, in.Pipeline().MaxInFlight))
}
