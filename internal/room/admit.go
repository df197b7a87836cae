package room

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/plain"
)

// errDismissed tells a waiter that the room was closed before a seat came free.
var errDismissed = errors.New("stage: dismissed")

// Submit takes a command from outside. It is accepted if and only if the error
// is nil; a room that drops accepts a command even if it is the one dropped.
// Waiting ends with ctx; if that has ended already, nothing is accepted.
func (r *Room) Submit(ctx context.Context, e *command.Envelope) error {
	if r.asks() {
		return r.submitAsked(ctx, e)
	}
	return r.submit(ctx, e, place{}, 0, nil)
}

// SubmitAll takes n commands from outside, in order, as if each were submitted, and
// returns how many were accepted: all, or those before the one that was refused with the
// error. As many as find room are taken at once. They have the same origin.
func (r *Room) SubmitAll(ctx context.Context, from *command.Origin, n int, cmd func(i int) any) (int, error) {
	for i := 0; i < n; i++ {
		i += r.pour(ctx, from, i, n, cmd)
		if i == n {
			break
		}
		if err := r.Submit(ctx, &command.Envelope{Cmd: cmd(i), From: from}); err != nil {
			return i, err
		}
	}
	return n, nil
}

// pour takes as many of the commands from one number to before another as find room, and returns how many,
// unless there is anything to ask, to wait for, or to refuse: one that is submitted alone hears of it.
func (r *Room) pour(ctx context.Context, origin *command.Origin, from, to int, cmd func(i int) any) int {
	if r.asks() || ended(ctx) {
		return 0
	}
	r.mu.Lock()
	if !r.open || r.knobs.Disabled || r.waiters.Len() > 0 || len(r.blocked) > 0 {
		r.mu.Unlock()
		return 0
	}
	n := max(min(to-from, r.free()), 0)
	for i := range n {
		r.push(&command.Envelope{Cmd: cmd(from + i), From: origin}, place{})
	}
	r.c.submitted += uint64(n)
	r.brimming()
	s := r.rouse()
	r.mu.Unlock()
	if s != nil {
		s.Wake()
	}
	return n
}

// asks reports whether anything is to be asked about a command before it is taken: the
// doors, the bound of the entries, or a discipline. Most rooms ask nothing.
func (r *Room) asks() bool {
	h := r.Host()
	return r.queue.keyed.Load() != nil || h != nil && (r.door.set.Load() != nil || h.door.set.Load() != nil || h.bound.Load() > 0)
}

// submitAsked is Submit where somebody is to be asked.
func (r *Room) submitAsked(ctx context.Context, e *command.Envelope) error {
	why, entered, no := r.knock(ctx, e.Cmd)
	if entered {
		defer r.Host().in()
	}
	return r.submit(ctx, e, r.queue.place(e.Cmd), why, no)
}

// submit takes a command, unless it is refused already, in which case it is counted.
func (r *Room) submit(ctx context.Context, e *command.Envelope, at place, why int, no error) error {
	gone := ctx.Err() != nil
	r.mu.Lock()
	if !r.open && !r.admitsHandler(ctx) {
		return r.refuse(rejectedClosed, r.shut())
	}
	if gone {
		return r.refuse(rejectedCancelled, fmt.Errorf("stage %q: not submitted: %w", r.cfg.Name, context.Cause(ctx)))
	}
	if no != nil {
		return r.refuse(why, no)
	}
	if r.knobs.Disabled {
		return r.refuse(rejectedDisabled, fmt.Errorf("stage %q: %w", r.cfg.Name, ErrDisabled))
	}
	if r.free() <= 0 || r.waiters.Len() > 0 || len(r.blocked) > 0 {
		if r.cfg.Overflow != Wait {
			return r.overflow(e, at)
		}
		return r.queueUp(ctx, e, at)
	}
	r.c.submitted++
	r.push(e, at)
	if r.queue.fresh() >= r.knobs.Capacity {
		r.brimming()
	}
	s := r.rouse()
	r.mu.Unlock()
	if s != nil {
		s.Wake()
	}
	return nil
}

// queueUp submits a command that has to wait for a free slot. It is called with the lock and lets go of it.
func (r *Room) queueUp(ctx context.Context, e *command.Envelope, at place) error {
	if why := r.mayNotWait(ctx); why != "" {
		return r.refuse(rejectedFull, fmt.Errorf("stage %q: submitted by a handler %s: %w", r.cfg.Name, why, ErrFull))
	}
	err := r.await(ctx, entrant{e: *e, at: at}, false)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errDismissed):
		return r.submit(ctx, e, at, 0, nil) // the room may refuse it now, or may have free slots
	default:
		r.mu.Lock()
		return r.refuse(rejectedCancelled, r.waited(err))
	}
}

// knock asks the doors of the house and of the room, if there is anything to ask.
func (r *Room) knock(ctx context.Context, cmd any) (why int, entered bool, no error) {
	h := r.Host()
	if h == nil || !r.IsOpen() || ended(ctx) {
		return 0, false, nil // it is refused for that, and nobody need be asked
	}
	look := func() (queued, capacity int) { return r.Len(), r.Knobs().Capacity }
	if why, err := h.door.ask(h, cmd, look); err != nil {
		return why, false, plain.Wrap(fmt.Sprintf("stage %q", r.cfg.Name), err)
	}
	if why, err := r.door.ask(h, cmd, look); err != nil {
		return why, false, plain.Wrap(fmt.Sprintf("stage %q", r.cfg.Name), err)
	}
	return r.enter(ctx)
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }

// mayNotWait tells why ctx is that of a handler that would wait here for itself, ""
// if it is not: its room lies behind this one, or its worker is one of a crew, which
// other rooms need, this one perhaps.
func (r *Room) mayNotWait(ctx context.Context) string {
	from, ok := ctx.Value(behaviour.EmitterKey{}).(interface {
		Room() *Room
		Shared() bool
	})
	if !ok {
		return ""
	}
	back, ours := r.Host().Reach(from.Room(), r)
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
func (r *Room) refuse(why int, err error) error {
	r.c.losses().rejected[why]++
	r.mu.Unlock()
	return err
}

func (r *Room) waited(err error) error { return &WaitError{Stage: r.cfg.Name, Err: err} }

// WaitError is why a command was not accepted whose submitter's context ended before the room had a free slot.
type WaitError struct {
	Stage string
	Err   error
}

// Error says which stage, and why the context ended.
func (e *WaitError) Error() string { return fmt.Sprintf("stage %q: not submitted: %v", e.Stage, e.Err) }

// Unwrap returns why the context ended.
func (e *WaitError) Unwrap() error { return e.Err }

// shut tells a closed room from one that never ran, and from one that drains and may be
// open again some day. The caller has the lock.
func (r *Room) shut() error {
	if !r.opened {
		return fmt.Errorf("stage %q: %w", r.cfg.Name, ErrNotRunning)
	}
	if !r.InUse() && !r.halted.Load() {
		return fmt.Errorf("stage %q: %w", r.cfg.Name, ErrDraining)
	}
	return fmt.Errorf("stage %q: %w", r.cfg.Name, ErrClosed)
}

// await waits until the room has queued a command, which waits in line for a free slot, at the head of the
// line if first. It returns an error if the command was not queued: errDismissed if the room has changed so that
// the caller has to look again, or that of ctx. It is called with the lock and lets go of it.
func (r *Room) await(ctx context.Context, x entrant, first bool) error {
	w := r.waiters.join(x, suspends(ctx), first)
	r.mu.Unlock()
	gaveUp := Until(ctx, w.ready)
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.waiters.done(w)
	switch {
	case w.queued: // even if ctx has ended meanwhile: a worker may have the command already
		return nil
	case w.lined:
		r.waiters.leave(w)
		return gaveUp
	default:
		return errDismissed
	}
}

// Mistyped counts a message that is no command for this room.
func (r *Room) Mistyped() {
	r.mu.Lock()
	_ = r.refuse(rejectedType, nil)
}

// overflow deals with a command from outside that finds the room full and not
// waiting. It is called with the lock and lets go of it.
func (r *Room) overflow(e *command.Envelope, at place) error {
	if r.cfg.Overflow == Reject {
		return r.refuse(rejectedFull, fmt.Errorf("stage %q: %w", r.cfg.Name, ErrFull))
	}
	r.c.submitted++
	v := r.drop(*e, at)
	s := r.rouse()
	r.mu.Unlock()
	if s != nil {
		s.Wake()
	}
	r.let(v)
	return nil
}

// victim is a command that was let go for want of room.
type victim struct {
	e   command.Envelope
	why Reason
	err error
}

// drop makes room for e, or lets e go, as the overflow rule says.
func (r *Room) drop(e command.Envelope, at place) victim {
	if r.cfg.Overflow == DropNewest || r.queue.fresh() == 0 {
		r.c.losses().shed[shedNewest]++
		return victim{e, ReasonNewest, ErrShed}
	}
	oldest := r.queue.drop()
	r.unpack([]command.Envelope{oldest})
	r.push(&e, at)
	r.c.losses().shed[shedOldest]++
	return victim{oldest, ReasonOldest, ErrShed}
}

// let tells of a victim, without the lock.
func (r *Room) let(v victim) {
	r.bury([]command.Envelope{v.e}, v.why, plain.Wrap(fmt.Sprintf("stage %q", r.cfg.Name), v.err))
}

// Hand takes commands that the worker at s brings from a room of the same
// house, and returns how many: all of them, unless the room is full and waits.
// On a way back, one that closes a loop, it never waits: the commands are in the
// house already, and the entry is where it is kept from filling up. With park,
// a worker that cannot leave all its commands is parked behind those that are
// already, and woken when there are seats for it.
//
// Now is the present reading of the host's clock, 0 if nobody has read it.
func (r *Room) Hand(s *Seat, es []command.Envelope, now int64, back, park bool) int {
	at := r.queue.places(es)
	r.mu.Lock()
	return r.hand(s, es, at, now, back, park)
}

// hand is Hand, called with the lock, which it lets go of.
func (r *Room) hand(s *Seat, es []command.Envelope, at places, now int64, back, park bool) int {
	if r.halted.Load() {
		return r.turnAway(es)
	}
	if s != nil && r.bars(s.home, back) && !r.knobs.Disabled {
		r.holdBack(s, len(es), back, park)
		return 0
	}
	taken := len(es)
	place, known := r.unpark(s)
	if r.knobs.Disabled {
		return r.turnDown(es)
	}
	switch {
	case back:
	case place > 0:
		taken = 0 // others were here before
	default:
		taken = min(taken, max(r.free(), 0))
	}
	r.c.received += uint64(taken)
	r.clock(es[:taken], now)
	r.queue.pushAll(es[:taken], at)
	var victims []victim
	if taken < len(es) && r.cfg.Overflow != Wait {
		victims = r.dropAll(es[taken:], at.rest(taken))
		taken = len(es)
	}
	if taken < len(es) && (park || known) {
		r.blocked = slices.Insert(r.blocked, place, parked{seat: s, n: len(es) - taken})
		s.ready.Store(!park)
	}
	r.brimming()
	idle := r.rouse()
	r.mu.Unlock()
	if len(victims) > 0 {
		s = nil // nobody waits until they are let go: that may take its time
	}
	s.call(idle)
	for _, v := range victims {
		r.let(v)
	}
	return taken
}

// clock notes when commands of another room came: all of them, if each may soon be the oldest or a batch's first,
// else one in so many.
func (r *Room) clock(es []command.Envelope, now int64) {
	if now == 0 {
		if r.cfg.TTL == 0 {
			return
		}
		now = r.Host().Now()
	}
	every := min(max(r.limit/command.Seen, 1), command.Seen)
	if r.knobs.Linger > 0 || r.cfg.TTL > 0 || r.queue.line != nil {
		every = 1
	}
	m := command.At(now)
	for i := (len(es) - 1) % every; i >= 0 && i < len(es); i += every { // the last too: it stands for those before it
		es[i].Enter(m)
	}
}

// turnAway ends commands that come to a halted room. It is called with the
// lock and lets go of it.
func (r *Room) turnAway(es []command.Envelope) int {
	r.c.received += uint64(len(es))
	r.c.losses().dead[deadStopped] += uint64(len(es))
	r.mu.Unlock()
	r.bury(es, ReasonStopped, r.stopped())
	return len(es)
}

// stopped is what those are told whose commands a halted room ends.
func (r *Room) stopped() error { return fmt.Errorf("stage %q: %w", r.cfg.Name, ErrStopped) }

// turnDown sheds commands that come to a room that takes none. It is called with the
// lock and lets go of it.
func (r *Room) turnDown(es []command.Envelope) int {
	r.c.received += uint64(len(es))
	r.c.losses().shed[shedDisabled] += uint64(len(es))
	r.settled()
	r.mu.Unlock()
	for _, e := range es {
		r.let(victim{e, ReasonDisabled, ErrDisabled})
	}
	return len(es)
}

// dropAll deals with commands of other rooms that find this one full and not
// waiting. They were accepted long ago, so a refusal is an end: they are shed.
func (r *Room) dropAll(es []command.Envelope, at places) []victim {
	victims := make([]victim, 0, len(es))
	r.c.received += uint64(len(es))
	for i, e := range es {
		if r.cfg.Overflow == Reject {
			r.c.losses().shed[shedFull]++
			victims = append(victims, victim{e, ReasonFull, ErrFull})
			continue
		}
		victims = append(victims, r.drop(e, at.at(i)))
	}
	return victims
}

// Send queues a command that a handler of the same pipeline emits or forwards, and waits until ctx ends for
// a free slot, before all commands that wait outside. A command that is emitted is counted for the emitter, the
// room of the handler, at the instant at which it is queued. Emitter is nil if the command is counted already.
// On a way back, and for a shared worker, which may be the only one to make room, there is always a slot.
func (r *Room) Send(ctx context.Context, e command.Envelope, emitter *Room, back, shared bool) error {
	es := []command.Envelope{e}
	at := r.queue.places(es)
	r.mu.Lock()
	if err := r.awaitUse(ctx, back, shared); err != nil {
		r.mu.Unlock()
		return err
	}
	for r.cfg.Overflow == Wait && !r.halted.Load() && !r.knobs.Disabled {
		if r.free() > 0 || shared || back {
			break
		}
		err := r.await(ctx, entrant{e: e, at: at.at(0), inside: true, emitter: emitter}, true)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errDismissed) {
			return r.waited(err)
		}
		r.mu.Lock() // dismissed, because the room closed to those outside; this one is inside
	}
	emitter.emits()
	// A room that waits takes the command in any case; one that drops may find itself full.
	r.hand(nil, es, at, 0, back || r.cfg.Overflow == Wait, false)
	return nil
}

// emits counts a command that a handler of the room emits, at the instant at which another room queues it: the
// caller has the lock of that one. Nil counts nothing.
func (r *Room) emits() {
	if r != nil {
		r.sent.Add(1)
	}
}
