package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/handling"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage/reason"
)

var (
	// errDismissed tells a waiter to submit its command again, because the
	// inbox has changed before a slot was free.
	errDismissed = errors.New("stage: dismissed")
	// errAskSubmitter says that the submitter's context has to be asked whose
	// it is. That may run user code, so it is done without the lock, and only
	// where it matters.
	errAskSubmitter = errors.New("stage: the submitter is not known")
	// errLook says that commands which have lapsed may hold the slots. They are
	// ended without the lock.
	errLook = errors.New("stage: commands may have lapsed")
)

// submission has the data about a submitted command that the envelope does not
// have.
type submission struct {
	at      place
	refused error         // by the admission rules; nil: it is not
	why     reason.Reason // the reason under which that is counted
	ended   error         // why the submitter's context has ended; nil: it has not
	by      submitter
}

// submitter describes a submitter, as known from its context: whether it is a
// handler, and whether it may wait.
type submitter struct {
	asked      bool   // the rest is known
	suspends   bool   // it is a handler that holds no worker while it waits
	drained    bool   // it is a handler at work, and its stage is being drained
	forbidWait string // why a handler would wait here for itself; "": it would not
}

// Submit takes a command from outside. The inbox has accepted the command if
// and only if the error is nil; an inbox that drops accepts a command even if
// that is the one dropped. Waiting ends with ctx; if ctx has ended already,
// nothing is accepted.
func (in *Inbox) Submit(ctx context.Context, e *command.Envelope) error {
	if in.checksAdmission(ctx) {
		return in.submitChecked(ctx, e)
	}
	if !ended(ctx) {
		var fx effects
		if !in.mu.TryLock() { // LockForSubmitter, inlined
			in.mu.WaitForTurn()
		}
		entered := in.state.phase() == open && in.state.enterFree(e, place{}, &fx)
		in.unlock(&fx)
		if entered {
			return nil
		}
	}
	return in.submit(ctx, e, submission{})
}

// SubmitSince is Submit of a command that has waited elsewhere since a time,
// which counts for the stage's time to live; zero means since now. Beyond that
// time to live it does not matter for how long.
func (in *Inbox) SubmitSince(ctx context.Context, e *command.Envelope, since time.Time) error {
	if in.state.cfg.TTL > 0 && !since.IsZero() {
		waited := min(max(time.Since(since), 0), in.state.cfg.TTL+time.Millisecond)
		e.Enter(command.At(in.state.now() - int64(waited)))
	}
	return in.Submit(ctx, e)
}

// SubmitFree takes as many of n commands from outside as there are free slots
// for, in order, and returns how many. It takes none if there is anything to
// check, to wait for, or to refuse: [Inbox.Submit] deals with that. Load is
// called under the lock.
func (in *Inbox) SubmitFree(ctx context.Context, from *command.Origin, n int, load func(i int) any) int {
	if in.checksAdmission(ctx) || ended(ctx) {
		return 0
	}
	var fx effects
	in.mu.LockForSubmitter()
	n = min(n, in.state.freeForSubmitters())
	for i := range n {
		in.state.push(&command.Envelope{Load: load(i), From: from}, place{})
	}
	in.state.counts.Submitted += uint64(n)
	if n > 0 {
		in.state.checkFull(&fx)
		in.state.callWorker(&fx)
	}
	in.unlock(&fx)
	return n
}

// freeForSubmitters is how many slots are free for which no other command
// waits.
func (s *state) freeForSubmitters() int {
	if s.phase() != open || s.knobs.Disabled || s.waiters.Len() > 0 || len(s.senders.forSlots) > 0 {
		return 0
	}
	return max(s.free(), 0)
}

// submitChecked is Submit where there are admission rules or a discipline.
func (in *Inbox) submitChecked(ctx context.Context, e *command.Envelope) error {
	why, entered, refused := in.checkAdmission(ctx, e)
	if entered {
		defer in.Pipeline().entry.Entered()
	}
	return in.submit(ctx, e, submission{at: in.state.queue.place(e.Load), why: why, refused: refused})
}

// submit takes a command, or refuses it and counts why.
func (in *Inbox) submit(ctx context.Context, e *command.Envelope, sub submission) error {
	for {
		sub.ended = command.Ended(ctx)
		var fx effects
		in.mu.LockForSubmitter()
		w, err := in.state.enter(e, &sub, &fx)
		in.unlock(&fx)
		switch {
		case w != nil:
			err = in.await(ctx, w)
			if err == nil {
				return nil
			}
			if !errors.Is(err, errDismissed) {
				return in.refuseCancelled(in.state.waitError(ctx, err))
			}
			sub = submission{at: sub.at} // the inbox may refuse the command now, or may have free slots
		case err == errAskSubmitter: //nolint:errorlint // it is never wrapped
			sub.by = in.submitterOf(ctx)
		case err == errLook: //nolint:errorlint // it is never wrapped either
			in.endLapsed()
		default:
			return err
		}
	}
}

// enter takes a command from outside, refuses it, or puts it into the line for
// a free slot.
func (s *state) enter(e *command.Envelope, sub *submission, fx *effects) (*waiter, error) {
	if s.phase() != open {
		switch {
		case s.halted.Load() || s.phase().inUse() || sub.by.asked && !sub.by.drained:
			return nil, s.refuse(reason.Closed, s.closedError())
		case !sub.by.asked:
			return nil, errAskSubmitter
		}
	}
	switch {
	case sub.ended != nil:
		return nil, s.refuse(reason.Cancelled, fmt.Errorf("stage %q: not submitted: %w", s.cfg.Name, sub.ended))
	case sub.refused != nil:
		return nil, s.refuse(sub.why, sub.refused)
	case s.knobs.Disabled:
		return nil, s.refuse(reason.Disabled, s.wrap(s.disabledError()))
	case s.enterFree(e, sub.at, fx):
		return nil, nil //nolint:nilnil // accepted, and there is nothing to wait for
	default:
		return s.enterFull(e, sub, fx)
	}
}

// Submit takes the command of the letter that has the hold, or another one in
// its place. It comes before all others of its key when the hold has ended, and
// needs no slot: the commands behind it wait for it. Neither do the rules of
// policies apply, by which the command was let in before. A command of another
// key is submitted as any other.
func (p *Park) Submit(ctx context.Context, e *command.Envelope) error {
	at := p.in.state.queue.place(e.Load)
	ended := command.Ended(ctx)
	var fx effects
	p.in.mu.LockForSubmitter()
	entered, err := p.in.state.enterFirst(p, e, at, ended, &fx)
	p.in.unlock(&fx)
	if !entered && err == nil {
		return p.in.Submit(ctx, e)
	}
	return err
}

// enterFirst takes the command, unless it has another key, or refuses it.
func (s *state) enterFirst(p *Park, e *command.Envelope, at place, ended error, fx *effects) (entered bool, err error) {
	switch {
	case s.phase() != open:
		return false, s.refuse(reason.Closed, s.closedError())
	case ended != nil:
		return false, s.refuse(reason.Cancelled, fmt.Errorf("stage %q: not submitted: %w", s.cfg.Name, ended))
	case s.knobs.Disabled:
		return false, s.refuse(reason.Disabled, s.wrap(s.disabledError()))
	case line.ParksOf(s.queue.line).Find(at.rank) != p.lane || p.ended.Load():
		return false, nil
	}
	s.note(e)
	line.ParksOf(s.queue.line).PushFirst(p.lane, *e)
	s.counts.Submitted++
	s.checkFull(fx)
	return true, nil
}

// enterFree takes a command from outside if there is a free slot for which no
// other command waits, and a place of its key.
func (s *state) enterFree(e *command.Envelope, at place, fx *effects) bool {
	if s.knobs.Disabled || s.waiters.n > 0 || len(s.senders.forSlots) > 0 || s.free() <= 0 {
		return false
	}
	if l := s.queue.bound; l == nil {
		s.push(e, at)
	} else if !s.enterLane(l, e, at) {
		return false
	}
	s.counts.Submitted++
	if s.queue.slotted() >= s.knobs.Capacity {
		s.checkFull(fx)
	}
	s.callWorker(fx)
	return true
}

// enterFull does what the overflow rule says with a command from outside that
// finds no free slot.
func (s *state) enterFull(e *command.Envelope, sub *submission, fx *effects) (*waiter, error) {
	switch {
	case s.looksFor(1), s.isKeyFull(sub.at) && s.mayLook():
		return nil, errLook
	case s.cfg.Overflow == Reject:
		return nil, s.refuse(reason.Full, s.wrap(s.fullError(sub.at)))
	case s.cfg.Overflow != Wait:
		s.counts.Submitted++
		s.dropFor(*e, sub.at, fx)
		s.callWorker(fx)
		return nil, nil //nolint:nilnil // accepted
	case !sub.by.asked:
		return nil, errAskSubmitter
	case sub.by.forbidWait != "":
		return nil, s.refuse(reason.Full, fmt.Errorf("stage %q: submitted by a handler %s: %w", s.cfg.Name, sub.by.forbidWait, ErrFullLoop))
	}
	return s.awaitSlot(entrant{e: *e, at: sub.at}, sub.by.suspends, false), nil
}

// refuse counts a command that is not accepted, and returns the error.
func (s *state) refuse(why reason.Reason, err error) error {
	s.counts.addRejected(why, 1)
	return err
}

// refuseCancelled counts a command whose submitter's context ended while it
// waited.
func (in *Inbox) refuseCancelled(err error) error {
	return ask(in, func(s *state) error { return s.refuse(reason.Cancelled, err) })
}

// Mistyped counts a message that is no command for this stage.
func (in *Inbox) Mistyped() {
	in.mu.Lock()
	defer in.mu.Unlock()
	_ = in.state.refuse(reason.Type, nil)
}

// RefuseNew reports a command that a handler could not emit within a loop. It
// was not accepted, so the accounts count it as rejected, and it leaves a
// letter.
func (in *Inbox) RefuseNew(load any, err error) {
	in.mu.Lock()
	_ = in.state.refuse(reason.MaxInFlight, nil)
	in.mu.Unlock()
	in.Pipeline().ReportLost(Ending{Inbox: in, Cmd: link.Bare(load), Reason: reason.MaxInFlight, Err: err})
}

// await waits until the inbox has queued a command that is in line. It returns
// errDismissed if the inbox has changed, so that the caller has to try again,
// or why ctx ended.
func (in *Inbox) await(ctx context.Context, w *waiter) error {
	gaveUp := handling.Until(ctx, w.ready)
	var fx effects
	in.mu.LockForSubmitter()
	defer in.unlock(&fx)
	switch {
	case w.lined:
		keyed := w.lane != nil
		in.state.leaveLine(w)
		in.state.waiters.keep(w)
		if keyed { // another command may have its place
			in.state.grantSlots(&fx)
		}
		return gaveUp
	case gaveUp == nil: // otherwise the signal is on its way, and the waiter is of no more use
		in.state.waiters.keep(w)
	}
	if w.queued { // even if ctx has ended meanwhile: a worker may have the command already
		return nil
	}
	return errDismissed
}

// handler is what the context of a handler of some pipeline says about the
// handler.
type handler interface {
	Inbox() *Inbox
	Shared() bool // its worker is one of a shared pool
	Attempt() int
}

// handlerOf returns the handler whose context it is, nil if it is none's.
func handlerOf(ctx context.Context) handler {
	h, _ := ctx.Value(link.EmitterKey{}).(handler)
	return h
}

// holder is a handler whose command holds a lane.
type holder interface {
	handler
	Hold() line.Hold
}

// CallsItself reports whether ctx belongs to a handler of the inbox that may
// suspend and that works on the same key as the called command. The command
// would wait for the end of the handler, and the handler for the end of the
// command.
func (in *Inbox) CallsItself(ctx context.Context, load any) bool {
	if !in.Config().HoldsLanes() {
		return false
	}
	h, ok := ctx.Value(link.EmitterKey{}).(holder)
	return ok && h.Inbox() == in && h.Attempt() > 0 && h.Hold().Rank() == in.state.queue.place(load).rank
}

// submitterOf asks a context whose it is. The lock is not held.
func (in *Inbox) submitterOf(ctx context.Context) submitter {
	by := submitter{asked: true, suspends: handling.Suspends(ctx)}
	h := handlerOf(ctx)
	if h == nil {
		return by
	}
	by.drained = h.Attempt() > 0 && !h.Inbox().Phases().InUse()
	edge, ours := in.Pipeline().Reach(h.Inbox(), in)
	switch {
	case ours && edge.Back: // its stage lies behind this one
		by.forbidWait = "on a back edge"
	case ours && h.Shared() && !by.suspends: // other stages need its worker, this one perhaps
		by.forbidWait = "whose worker is shared"
	}
	return by
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }

// disabledError returns why the inbox takes nothing: a policy says so, or the
// stage runs in another process.
func (s *state) disabledError() error { return cmp.Or(s.cfg.Elsewhere, ErrDisabled) }

// closedError returns why the inbox is not open: it never ran, it drains and
// may be opened again, or it is closed.
func (s *state) closedError() error {
	switch {
	case !s.opened:
		return s.wrap(ErrNotRunning)
	case !s.phase().inUse():
		return s.wrap(ErrDraining)
	default:
		return s.wrap(ErrClosed)
	}
}
