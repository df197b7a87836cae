package inbox

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/reason"
)

// SetAdmission sets the rules by which the inbox lets in what is submitted to it.
func (in *Inbox) SetAdmission(a controller.Admission) {
	if in.admission.set.Load() == nil && a == (controller.Admission{}) {
		return // as it is for most
	}
	in.admission.Set(a, in.now())
	var fx effects
	in.mu.Lock()
	in.ceiling = a.Limit
	if a.Limit > 0 {
		in.recallRetries(&fx)
	}
	in.changed(&fx)
	in.unlock(&fx)
}

// checksAdmission reports whether a command is to be checked before it is taken: by the rules, the bound of the entries, the
// bound of loops, or a discipline that asks for keys. Most inboxes check nothing.
func (in *Inbox) checksAdmission(ctx context.Context) bool {
	pl := in.Pipeline()
	return in.queue.ranker.Load() != nil ||
		pl != nil && (in.admission.set.Load() != nil || pl.admission.set.Load() != nil || pl.bound.Load() > 0 || in.submitsInLoop(ctx))
}

// checkAdmission checks a command by the rules of the pipeline and of the inbox, and waits at the pipeline's entry. Entered
// says that [Pipeline.entered] has to be called.
func (in *Inbox) checkAdmission(ctx context.Context, e *command.Envelope) (why reason.Reason, entered bool, refused error) {
	pl := in.Pipeline()
	if pl == nil || ended(ctx) {
		return "", false, nil // it is refused for that, and no rule need be asked
	}
	if in.submitsInLoop(ctx) && !pl.Allow() { // before the next check: a stage that is drained accepts what its handlers submit
		return reason.MaxInFlight, false, in.LoopFull()
	}
	if !in.IsOpen() {
		return "", false, nil
	}
	load := func() (queued, capacity int) { return in.Len(), in.Knobs().Capacity }
	if why, err := pl.admission.check(pl, e, load); err != nil {
		return why, false, in.wrap(err)
	}
	if why, err := in.admission.check(pl, e, load); err != nil {
		return why, false, in.wrap(err)
	}
	return in.waitToEnter(ctx)
}

// SetAdmission sets the rules by which the pipeline lets in what is submitted to any of its inboxes.
func (pl *Pipeline) SetAdmission(a controller.Admission) {
	pl.admission.Set(a, pl.Now())
	pl.notifyEntries()
}

// limit is how many commands may be in flight in the pipeline before those from outside wait, 0 for any number.
func (pl *Pipeline) limit() int {
	limit := int(pl.bound.Load())
	if w := pl.admission.set.Load(); w != nil && w.Limit > 0 && (limit == 0 || w.Limit < limit) {
		limit = w.Limit
	}
	return limit
}

// notifyEntries has the submitters that wait at the entry look again: something has ended.
func (pl *Pipeline) notifyEntries() {
	if pl.entrants.waiting.Load() == 0 {
		return
	}
	pl.entrants.mu.Lock()
	if pl.entrants.changed != nil {
		close(pl.entrants.changed)
		pl.entrants.changed = nil
	}
	pl.entrants.mu.Unlock()
}

// waitToEnter waits, if the inbox's overflow rule is to wait, until the pipeline is below its limit. The commands in flight
// are added up inbox by inbox, not at one instant: a limit is for memory and for time, and commands that are just on their
// way may exceed it.
func (in *Inbox) waitToEnter(ctx context.Context) (why reason.Reason, entered bool, err error) {
	pl := in.Pipeline()
	if pl.limit() == 0 {
		return "", false, nil
	}
	if pl.tryEnter() {
		return "", true, nil
	}
	if handlerOf(ctx) != nil || in.cfg.Overflow != Wait {
		return reason.Full, false, fmt.Errorf("stage %q: as many are in flight as may be: %w", in.cfg.Name, ErrFull)
	}
	pl.entrants.waiting.Add(1)
	defer pl.entrants.waiting.Add(-1)
	for {
		changed := pl.entrants.change()
		if pl.tryEnter() {
			return "", true, nil
		}
		if !in.IsOpen() {
			return reason.Closed, false, in.wrap(ErrClosed)
		}
		if err := Until(ctx, changed); err != nil {
			return reason.Cancelled, false, in.waitError(ctx, err)
		}
	}
}

// tryEnter lets one more command in, if the limit allows it. The command counts until it is in its inbox; see
// [Pipeline.entered].
func (pl *Pipeline) tryEnter() bool {
	pl.entrants.mu.Lock()
	defer pl.entrants.mu.Unlock()
	if limit := pl.limit(); limit > 0 {
		// What guards hold back waits for what is not let in yet, maybe: a limit that counted it could stand still for good.
		if n := pl.InFlight() + pl.entrants.entering; n >= limit && (pl.isBound(n) || n-pl.Held() >= limit) {
			return false
		}
	}
	pl.entrants.entering++
	return true
}

// isBound reports whether n commands are as many as may be in flight for the sake of loops, whether they are held back or not.
func (pl *Pipeline) isBound(n int) bool {
	bound := int(pl.bound.Load())
	return bound > 0 && n >= bound
}

// entered notes that a command that was let in is in its inbox, or was refused there.
func (pl *Pipeline) entered() {
	pl.entrants.mu.Lock()
	pl.entrants.entering--
	pl.entrants.mu.Unlock()
	pl.notifyEntries()
}
