package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/plain"
)

// errDismissed tells a waiter that the inbox was closed before a seat came free.
var errDismissed = errors.New("stage: dismissed")

// Submit takes a command from outside. It is accepted if and only if the error
// is nil; an inbox that drops accepts a command even if it is the one dropped.
// Waiting ends with ctx; if that has ended already, nothing is accepted.
func (in *Inbox) Submit(ctx context.Context, e *command.Envelope) error {
	if in.checksAdmission() {
		return in.submitChecked(ctx, e)
	}
	return in.submit(ctx, e, place{}, 0, nil)
}

// SubmitAll takes n commands from outside, in order, as if each were submitted, and
// returns how many were accepted: all, or those before the one that was refused with the
// error. As many as find room are taken at once. They have the same origin.
func (in *Inbox) SubmitAll(ctx context.Context, from *command.Origin, n int, cmd func(i int) any) (int, error) {
	for i := 0; i < n; i++ {
		i += in.submitBatch(ctx, from, i, n, cmd)
		if i == n {
			break
		}
		if err := in.Submit(ctx, &command.Envelope{Cmd: cmd(i), From: from}); err != nil {
			return i, err
		}
	}
	return n, nil
}

// submitBatch takes as many of the commands from one number to before another as find room, and returns how many,
// unless there is anything to ask, to wait for, or to refuse: one that is submitted alone hears of it.
func (in *Inbox) submitBatch(ctx context.Context, origin *command.Origin, from, to int, cmd func(i int) any) int {
	if in.checksAdmission() || ended(ctx) {
		return 0
	}
	in.mu.Lock()
	if !in.open || in.knobs.Disabled || in.waiters.Len() > 0 || len(in.blocked) > 0 {
		in.mu.Unlock()
		return 0
	}
	n := max(min(to-from, in.free()), 0)
	for i := range n {
		in.push(&command.Envelope{Cmd: cmd(from + i), From: origin}, place{})
	}
	in.counts.submitted += uint64(n)
	in.checkFull()
	m := in.wakeOne()
	in.mu.Unlock()
	if m != nil {
		m.Wake()
	}
	return n
}

// checksAdmission reports whether anything is to be asked about a command before it is taken: the
// doors, the bound of the entries, or a discipline. Most inboxes ask nothing.
func (in *Inbox) checksAdmission() bool {
	pl := in.Pipeline()
	return in.queue.keyed.Load() != nil || pl != nil && (in.admission.set.Load() != nil || pl.admission.set.Load() != nil || pl.bound.Load() > 0)
}

// submitChecked is Submit where somebody is to be asked.
func (in *Inbox) submitChecked(ctx context.Context, e *command.Envelope) error {
	why, entered, no := in.checkAdmission(ctx, e.Cmd)
	if entered {
		defer in.Pipeline().entered()
	}
	return in.submit(ctx, e, in.queue.place(e.Cmd), why, no)
}

// submit takes a command, unless it is refused already, in which case it is counted.
func (in *Inbox) submit(ctx context.Context, e *command.Envelope, at place, why int, no error) error {
	gone := ctx.Err() != nil
	in.mu.Lock()
	if !in.open && !in.admitsHandler(ctx) {
		return in.refuse(rejectedClosed, in.closedError())
	}
	if gone {
		return in.refuse(rejectedCancelled, fmt.Errorf("stage %q: not submitted: %w", in.cfg.Name, context.Cause(ctx)))
	}
	if no != nil {
		return in.refuse(why, no)
	}
	if in.knobs.Disabled {
		return in.refuse(rejectedDisabled, fmt.Errorf("stage %q: %w", in.cfg.Name, ErrDisabled))
	}
	if in.free() <= 0 || in.waiters.Len() > 0 || len(in.blocked) > 0 {
		if in.cfg.Overflow != Wait {
			return in.overflow(e, at)
		}
		return in.submitInLine(ctx, e, at)
	}
	in.counts.submitted++
	in.push(e, at)
	if in.queue.fresh() >= in.knobs.Capacity {
		in.checkFull()
	}
	m := in.wakeOne()
	in.mu.Unlock()
	if m != nil {
		m.Wake()
	}
	return nil
}

// submitInLine submits a command that has to wait for a free slot. It is called with the lock and lets go of it.
func (in *Inbox) submitInLine(ctx context.Context, e *command.Envelope, at place) error {
	if why := in.mayNotWait(ctx); why != "" {
		return in.refuse(rejectedFull, fmt.Errorf("stage %q: submitted by a handler %s: %w", in.cfg.Name, why, ErrFull))
	}
	err := in.await(ctx, entrant{e: *e, at: at}, false)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errDismissed):
		return in.submit(ctx, e, at, 0, nil) // the inbox may refuse it now, or may have free slots
	default:
		in.mu.Lock()
		return in.refuse(rejectedCancelled, in.waitError(err))
	}
}

// checkAdmission asks the doors of the pipeline and of the inbox, if there is anything to ask.
func (in *Inbox) checkAdmission(ctx context.Context, cmd any) (why int, entered bool, no error) {
	pl := in.Pipeline()
	if pl == nil || !in.IsOpen() || ended(ctx) {
		return 0, false, nil // it is refused for that, and nobody need be asked
	}
	look := func() (queued, capacity int) { return in.Len(), in.Knobs().Capacity }
	if why, err := pl.admission.check(pl, cmd, look); err != nil {
		return why, false, plain.Wrap(fmt.Sprintf("stage %q", in.cfg.Name), err)
	}
	if why, err := in.admission.check(pl, cmd, look); err != nil {
		return why, false, plain.Wrap(fmt.Sprintf("stage %q", in.cfg.Name), err)
	}
	return in.waitToEnter(ctx)
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }

// mayNotWait tells why ctx is that of a handler that would wait here for itself, ""
// if it is not: its room lies behind this one, or its worker is one of a shared pool, which
// other inboxes need, this one perhaps.
func (in *Inbox) mayNotWait(ctx context.Context) string {
	from, ok := ctx.Value(behaviour.EmitterKey{}).(interface {
		Inbox() *Inbox
		Shared() bool
	})
	if !ok {
		return ""
	}
	back, ours := in.Pipeline().Reach(from.Inbox(), in)
	switch {
	case ours && back:
		return "on a way back"
	case ours && from.Shared() && !suspends(ctx):
		return "whose worker is shared"
	default:
		return ""
	}
}

// suspends reports whether who waits with ctx holds no worker.
func suspends(ctx context.Context) bool {
	_, ok := ctx.(behaviour.Suspender)
	return ok
}

// refuse counts a command that is not accepted and lets go of the lock.
func (in *Inbox) refuse(why int, err error) error {
	in.counts.losses().rejected[why]++
	in.mu.Unlock()
	return err
}

func (in *Inbox) waitError(err error) error { return &WaitError{Stage: in.cfg.Name, Err: err} }

// WaitError is why a command was not accepted whose submitter's context ended before the inbox had a free slot.
type WaitError struct {
	Stage string
	Err   error
}

// Error says which stage, and why the context ended.
func (e *WaitError) Error() string { return fmt.Sprintf("stage %q: not submitted: %v", e.Stage, e.Err) }

// Unwrap returns why the context ended.
func (e *WaitError) Unwrap() error { return e.Err }

// closedError tells a closed inbox from one that never ran, and from one that drains and may be
// open again some day. The caller has the lock.
func (in *Inbox) closedError() error {
	if !in.opened {
		return fmt.Errorf("stage %q: %w", in.cfg.Name, ErrNotRunning)
	}
	if !in.InUse() && !in.halted.Load() {
		return fmt.Errorf("stage %q: %w", in.cfg.Name, ErrDraining)
	}
	return fmt.Errorf("stage %q: %w", in.cfg.Name, ErrClosed)
}

// await waits until the inbox has queued a command, which waits in line for a free slot, at the head of the
// line if first. It returns an error if the command was not queued: errDismissed if the inbox has changed so that
// the caller has to look again, or that of ctx. It is called with the lock and lets go of it.
func (in *Inbox) await(ctx context.Context, x entrant, first bool) error {
	w := in.waiters.join(x, suspends(ctx), first)
	in.mu.Unlock()
	gaveUp := Until(ctx, w.ready)
	in.mu.Lock()
	defer in.mu.Unlock()
	defer in.waiters.done(w)
	switch {
	case w.queued: // even if ctx has ended meanwhile: a worker may have the command already
		return nil
	case w.lined:
		in.waiters.leave(w)
		return gaveUp
	default:
		return errDismissed
	}
}

// Mistyped counts a message that is no command for this room.
func (in *Inbox) Mistyped() {
	in.mu.Lock()
	_ = in.refuse(rejectedType, nil)
}

// overflow deals with a command from outside that finds the inbox full and not
// waiting. It is called with the lock and lets go of it.
func (in *Inbox) overflow(e *command.Envelope, at place) error {
	if in.cfg.Overflow == Reject {
		return in.refuse(rejectedFull, fmt.Errorf("stage %q: %w", in.cfg.Name, ErrFull))
	}
	in.counts.submitted++
	v := in.drop(*e, at)
	m := in.wakeOne()
	in.mu.Unlock()
	if m != nil {
		m.Wake()
	}
	in.reportVictim(v)
	return nil
}

// victim is a command that was let go for want of room.
type victim struct {
	e   command.Envelope
	why Reason
	err error
}

// drop makes room for e, or lets e go, as the overflow rule says.
func (in *Inbox) drop(e command.Envelope, at place) victim {
	if in.cfg.Overflow == DropNewest || in.queue.fresh() == 0 {
		in.counts.losses().shed[shedNewest]++
		return victim{e, ReasonNewest, ErrShed}
	}
	oldest := in.queue.drop()
	in.unpack([]command.Envelope{oldest})
	in.push(&e, at)
	in.counts.losses().shed[shedOldest]++
	return victim{oldest, ReasonOldest, ErrShed}
}

// reportVictim tells of a victim, without the lock.
func (in *Inbox) reportVictim(v victim) {
	in.deadLetter([]command.Envelope{v.e}, v.why, plain.Wrap(fmt.Sprintf("stage %q", in.cfg.Name), v.err))
}

// HandOver takes commands that the worker at s brings from an inbox of the same
// house, and returns how many: all of them, unless the inbox is full and waits.
// On a back edge, one that closes a loop, it never waits: the commands are in the
// house already, and the entry is where it is kept from filling up. With park,
// a worker that cannot leave all its commands is parked behind those that are
// already, and woken when there are seats for it.
//
// Now is the present reading of the pipeline's clock, 0 if nobody has read it.
func (in *Inbox) HandOver(m *Member, es []command.Envelope, now int64, back, park bool) int {
	at := in.queue.places(es)
	in.mu.Lock()
	return in.handOver(m, es, at, now, back, park)
}

// handOver is Hand, called with the lock, which it lets go of.
func (in *Inbox) handOver(m *Member, es []command.Envelope, at places, now int64, back, park bool) int {
	if in.halted.Load() {
		return in.refuseHalted(es)
	}
	if m != nil && in.blocks(m.own, back) && !in.knobs.Disabled {
		in.holdBack(m, len(es), back, park)
		return 0
	}
	taken := len(es)
	place, known := in.unpark(m)
	if in.knobs.Disabled {
		return in.shedDisabled(es)
	}
	switch {
	case back:
	case place > 0:
		taken = 0 // others were here before
	default:
		taken = min(taken, max(in.free(), 0))
	}
	in.counts.received += uint64(taken)
	in.stamp(es[:taken], now)
	in.queue.pushAll(es[:taken], at)
	var victims []victim
	if taken < len(es) && in.cfg.Overflow != Wait {
		victims = in.dropAll(es[taken:], at.rest(taken))
		taken = len(es)
	}
	if taken < len(es) && (park || known) {
		in.blocked = slices.Insert(in.blocked, place, parked{seat: m, n: len(es) - taken})
		m.ready.Store(!park)
	}
	in.checkFull()
	idle := in.wakeOne()
	in.mu.Unlock()
	if len(victims) > 0 {
		m = nil // nobody waits until they are let go: that may take its time
	}
	m.wakeOrDefer(idle)
	for _, v := range victims {
		in.reportVictim(v)
	}
	return taken
}

// stamp notes when commands of another inbox came: all of them, if each may soon be the oldest or a batch's first,
// else one in so many.
func (in *Inbox) stamp(es []command.Envelope, now int64) {
	if now == 0 {
		if in.cfg.TTL == 0 {
			return
		}
		now = in.Pipeline().Now()
	}
	every := min(max(in.limit/command.Seen, 1), command.Seen)
	if in.knobs.Linger > 0 || in.cfg.TTL > 0 || in.queue.line != nil {
		every = 1
	}
	m := command.At(now)
	for i := (len(es) - 1) % every; i >= 0 && i < len(es); i += every { // the last too: it stands for those before it
		es[i].Enter(m)
	}
}

// refuseHalted ends commands that come to a halted inbox. It is called with the
// lock and lets go of it.
func (in *Inbox) refuseHalted(es []command.Envelope) int {
	in.counts.received += uint64(len(es))
	in.counts.losses().dead[deadStopped] += uint64(len(es))
	in.mu.Unlock()
	in.deadLetter(es, ReasonStopped, in.stoppedError())
	return len(es)
}

// stoppedError is what those are told whose commands a halted inbox ends.
func (in *Inbox) stoppedError() error { return fmt.Errorf("stage %q: %w", in.cfg.Name, ErrStopped) }

// shedDisabled sheds commands that come to an inbox that takes none. It is called with the
// lock and lets go of it.
func (in *Inbox) shedDisabled(es []command.Envelope) int {
	in.counts.received += uint64(len(es))
	in.counts.losses().shed[shedDisabled] += uint64(len(es))
	in.notifyIfQuiet()
	in.mu.Unlock()
	for _, e := range es {
		in.reportVictim(victim{e, ReasonDisabled, ErrDisabled})
	}
	return len(es)
}

// dropAll deals with commands of other inboxes that find this one full and not
// waiting. They were accepted long ago, so a refusal is an end: they are shed.
func (in *Inbox) dropAll(es []command.Envelope, at places) []victim {
	victims := make([]victim, 0, len(es))
	in.counts.received += uint64(len(es))
	for i, e := range es {
		if in.cfg.Overflow == Reject {
			in.counts.losses().shed[shedFull]++
			victims = append(victims, victim{e, ReasonFull, ErrFull})
			continue
		}
		victims = append(victims, in.drop(e, at.at(i)))
	}
	return victims
}

// Send queues a command that a handler of the same pipeline emits or forwards, and waits until ctx ends for
// a free slot, before all commands that wait outside. A command that is emitted is counted for the emitter, the
// room of the handler, at the instant at which it is queued. Emitter is nil if the command is counted already.
// On a back edge, and for a shared worker, which may be the only one to make room, there is always a slot.
func (in *Inbox) Send(ctx context.Context, e command.Envelope, emitter *Inbox, back, shared bool) error {
	es := []command.Envelope{e}
	at := in.queue.places(es)
	in.mu.Lock()
	if err := in.awaitUse(ctx, back, shared); err != nil {
		in.mu.Unlock()
		return err
	}
	for in.cfg.Overflow == Wait && !in.halted.Load() && !in.knobs.Disabled {
		if in.free() > 0 || shared || back {
			break
		}
		err := in.await(ctx, entrant{e: e, at: at.at(0), inside: true, emitter: emitter}, true)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errDismissed) {
			return in.waitError(err)
		}
		in.mu.Lock() // dismissed, because the inbox closed to those outside; this one is inside
	}
	emitter.countEmitted()
	// An inbox that waits takes the command in any case; one that drops may find itself full.
	in.handOver(nil, es, at, 0, back || in.cfg.Overflow == Wait, false)
	return nil
}

// countEmitted counts a command that a handler of the inbox emits, at the instant at which another inbox queues it: the
// caller has the lock of that one. Nil counts nothing.
func (in *Inbox) countEmitted() {
	if in != nil {
		in.emittedSingly.Add(1)
	}
}
