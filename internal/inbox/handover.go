package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/handling"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/stage/reason"
)

// Take books the work of a worker of an ordered stage, and appends the results
// that may leave the stage now to a slice. If there are any
// the worker is the only one that gets them, until it has handed all of them
// over and asks again.
func (r Results) Take(m *Member, t *Tally, into []line.Result) []line.Result {
	var fx effects
	r.in.mu.Lock()
	r.in.state.book(m, t, &fx)
	before := r.in.state.takeable()
	into = r.in.state.queue.line.Leave(m.Part, into)
	if r.in.state.takeable() > before {
		r.in.state.callWorker(&fx)
	}
	r.in.state.checkQuiet(&fx)
	r.in.unlock(&fx)
	return into
}

// Flush hands over the results that may leave a halted inbox, since there may
// be no worker to do so. The stages ahead take them, whether they have free
// slots or not.
func (r Results) Flush() {
	if !r.in.Config().Ordered {
		return
	}
	leaver := new(line.Part)
	for {
		r.in.mu.Lock()
		leaving := r.in.state.queue.line.Leave(leaver, nil)
		r.in.mu.Unlock()
		if len(leaving) == 0 {
			return
		}
		for _, r := range leaving {
			r.To.Inbox().(*Inbox).Senders().HandOver(nil, []command.Envelope{r.Envelope}, 0, true, false)
		}
	}
}

// HandOver takes commands that a worker brings from another stage of the
// pipeline, and returns how many: all of them, unless the inbox is full and its
// overflow rule is [Wait]. Along a back edge it never waits: the commands are
// in the pipeline already, and the entry keeps it from filling up. With park, a
// worker that cannot hand over all its commands is parked, behind the workers
// that are parked already, and woken when there are slots for it.
//
// Now is the present reading of the pipeline's clock, 0 if it was not read. M
// is nil if no worker waits.
func (sn Senders) HandOver(m *Member, es []command.Envelope, now int64, back, park bool) (taken int) {
	at := sn.in.state.queue.places(es)
	var fx effects
	sn.in.lockFor(len(es))
	taken = sn.in.state.receive(m, es, at, now, back, park, &fx)
	sn.in.unlock(&fx)
	at.recycle()
	return taken
}

// receive queues, drops or refuses commands that come from another stage, as
// the phase and the overflow rule say.
func (s *state) receive(m *Member, es []command.Envelope, at places, now int64, back, park bool, fx *effects) (taken int) {
	switch {
	case s.halted.Load():
		s.counts.Received += uint64(len(es))
		s.endStopped(es, fx)
		return len(es)
	case m != nil && s.bars(m.own, back) && !s.knobs.Disabled:
		s.holdBack(m, len(es), back, park, fx)
		return 0
	}
	var full *line.Lane // a lane without a place, for which n commands are left
	n := 0
	before, known, was := s.unparkKeeping(m)
	l := s.queue.bound
	switch {
	case s.knobs.Disabled:
		s.unreserve(was.lane, was.places)
		s.shedDisabled(es, fx)
		s.grantSlots(fx) // the slots that it was promised are for the next worker
		return len(es)
	case back && l != nil && m != nil && m.own == nil:
		taken = len(es)
		s.force(l, es, at, now, m.visit.at)
	case back:
		taken = len(es)
		s.admit(es, at, now)
	case before > 0: // other workers were here before
	case l != nil:
		taken, full, n = s.receiveByKey(l, es, at, now, s.free(), &was)
	default:
		taken = min(len(es), max(s.free(), 0))
		s.admit(es[:taken], at, now)
	}
	left := es[taken:]
	if len(left) > 0 && s.cfg.Overflow != Wait {
		s.overflow(left, at.rest(taken), fx)
		left = nil
	}
	if len(left) > 0 && (park || known) {
		if full == nil {
			s.senders.forSlots = slices.Insert(s.senders.forSlots, before, sender{m: m, n: len(left), lane: was.lane, places: was.places})
			was = sender{}
		} else {
			s.awaitPlaces(full, n, m, was.lane == full)
		}
		m.attendance.SetReady(!park)
	}
	s.checkFull(fx)
	s.callWorker(fx)
	s.unreserve(was.lane, was.places)
	if l != nil && (full != nil || l.HasVacated()) || known && s.waiters.n > 0 {
		s.grantSlots(fx) // slots that were promised and not used; or to a submitter behind a worker that has left the line
	}
	if m != nil && m.DefersWakes && fx.wake != nil && !fx.ends() {
		m.Called, fx.wake = fx.wake, m.Called // the caller wakes it; dead letters may take their time
	}
	return len(es) - len(left)
}

// receiveByKey queues the commands of a worker for which there are slots, and
// places of their keys, and moves the others to the end of es. P has the slots
// and places that the worker has been promised, and keeps the unused ones. The
// result is how many were taken, and the first lane without a place, with how
// many commands are left for it.
func (s *state) receiveByKey(l line.Places, es []command.Envelope, at places, now int64, free int, p *sender) (taken int, full *line.Lane, n int) {
	s.stamp(es, now)
	s.watchLapses(es)
	left := 0
	for i := range es {
		r := s.rankOf(at, i)
		if free > 0 {
			ln := l.Of(r)
			promised := ln == p.lane && p.places > 0
			if promised {
				p.places--
				l.Redeem(ln)
			}
			if promised || l.Lets(ln) {
				l.PushTo(ln, es[i])
				free--
				taken++
				continue
			}
			if full == nil {
				full = ln
			}
			if ln == full {
				n++
			}
		}
		es[left] = es[i]
		if i < len(at.ranks) {
			at.ranks[left] = r
		}
		left++
	}
	copy(es[taken:], es[:left])
	copy(at.ranks[min(taken, len(at.ranks)):], at.ranks[:min(left, len(at.ranks))])
	s.counts.Received += uint64(taken)
	if free <= 0 {
		full = nil
	}
	return taken, full, n
}

// rankOf returns the rank of one of many commands.
func (s *state) rankOf(at places, i int) (r line.Rank) {
	if at.of == s.queue.ranker.Load() {
		r = at.at(i).rank
	}
	return r
}

// force queues commands that a shared worker brings, which never waits. The
// pool takes no more from the inbox that sent them while one of their keys is
// over its bound.
func (s *state) force(l line.Places, es []command.Envelope, at places, now int64, from *Inbox) {
	s.counts.Received += uint64(len(es))
	s.stamp(es, now)
	s.watchLapses(es)
	for i := range es {
		ln := l.Of(s.rankOf(at, i))
		l.PushTo(ln, es[i])
		if over := (overKey{ln, from}); l.Places(ln) < 0 && from != nil && !slices.Contains(s.senders.overKeys, over) {
			s.waitsAt(ln).stalls = true
			s.senders.overKeys = append(s.senders.overKeys, over)
		}
	}
}

// holdBack parks a worker that cannot hand over in the present phase.
func (s *state) holdBack(m *Member, n int, back, park bool, fx *effects) {
	_, at := s.senders.barred.cut(m)
	known := at >= 0
	if !known {
		known = s.unpark(m) // others get the slots that it was promised
		at = len(s.senders.barred)
	}
	if park || known {
		s.senders.barred = slices.Insert(s.senders.barred, at, sender{m: m, n: n, back: back})
		m.attendance.SetReady(!park)
	}
	s.grantSlots(fx)
}

// admit queues commands of another stage.
func (s *state) admit(es []command.Envelope, at places, now int64) {
	s.counts.Received += uint64(len(es))
	s.stamp(es, now)
	s.watchLapses(es)
	s.queue.pushAll(es, at)
}

// stamp notes when commands of another stage arrived: for all of them, if each
// may soon be the oldest or a batch's first, else for some of them; see
// [command.Seen].
func (s *state) stamp(es []command.Envelope, now int64) {
	if now == 0 {
		if s.ttl() == 0 {
			return
		}
		now = s.now()
	}
	every := min(max(s.pace.limit/command.Seen, 1), command.Seen)
	if s.knobs.Linger > 0 || s.ttl() > 0 || !s.queue.plain {
		every = 1
	}
	moment := command.At(now)
	for i := (len(es) - 1) % every; i >= 0 && i < len(es); i += every { // the last too: it stands for those before it
		es[i].Enter(moment)
	}
}

// shedDisabled sheds commands that arrive at a disabled inbox.
func (s *state) shedDisabled(es []command.Envelope, fx *effects) {
	s.counts.Received += uint64(len(es))
	s.shed(es, reason.Disabled, s.disabledError(), fx)
	s.checkQuiet(fx)
}

// overflow deals with commands of another stage that find this inbox full and
// not waiting. They were accepted long ago, so a refusal is an end: they are
// shed.
func (s *state) overflow(es []command.Envelope, at places, fx *effects) {
	s.counts.Received += uint64(len(es))
	for i, e := range es {
		if s.cfg.Overflow == Reject {
			s.shedOne(e, reason.Full, s.fullError(at.at(i)), fx)
		} else {
			s.dropFor(e, at.at(i), fx)
		}
	}
}

// Send queues a command that a handler of the same pipeline emits or forwards,
// and waits until ctx ends for a free slot, before all commands that wait
// outside. A command that is emitted is counted for the emitter, the inbox of
// the handler, at the instant at which it is queued; emitter is nil if the
// command is counted already. Along a back edge the command always gets a slot.
// So does a command of a shared worker, which may be the only one to free
// slots.
func (sn Senders) Send(ctx context.Context, e command.Envelope, emitter *Inbox, back, shared bool) error {
	x := sending{es: []command.Envelope{e}, emitter: emitter, back: back, shared: shared}
	x.at = sn.in.state.queue.places(x.es)
	if !shared {
		x.from = handlerOf(ctx)
	}
	for {
		var fx effects
		sn.in.lockFor(1)
		step, w, err := sn.in.state.send(&x, handling.Suspends(ctx), &fx)
		unbarred := sn.in.state.senders.unbarred
		sn.in.unlock(&fx)
		switch step {
		case sent:
			return err
		case waitsForPhase:
			if err := handling.Until(ctx, unbarred); err != nil {
				return sn.in.state.waitError(ctx, err)
			}
		case waitsForSlot:
			if err := sn.in.await(ctx, w); !errors.Is(err, errDismissed) {
				if err != nil {
					return sn.in.state.waitError(ctx, err)
				}
				return nil
			}
			x.from = nil // the inbox has closed to submitters; this command is inside
		}
	}
}

// sending is a command that a handler sends.
type sending struct {
	es           []command.Envelope // the one command
	at           places
	emitter      *Inbox
	from         handler // nil: the phase does not bar it
	back, shared bool
}

// sendStep is what a handler that sends has to do next.
type sendStep int

const (
	sent          sendStep = iota // the command is queued, or refused with an error
	waitsForPhase                 // until unbarred is closed
	waitsForSlot
)

// send queues a command of a handler, or says what the handler has to wait for.
// A handler is barred as a worker that hands over is; along a back edge it is
// refused instead.
func (s *state) send(x *sending, suspends bool, fx *effects) (sendStep, *waiter, error) {
	if x.from != nil && s.bars(x.from.Inbox(), x.back) && !s.halted.Load() {
		if x.back {
			return sent, nil, fmt.Errorf("stage %q: on a back edge: %w", s.cfg.Name, ErrDraining)
		}
		if s.senders.unbarred == nil {
			s.senders.unbarred = make(chan struct{})
		}
		return waitsForPhase, nil, nil
	}
	if s.cfg.Overflow == Wait && !s.halted.Load() && !s.knobs.Disabled && !x.shared && !x.back &&
		(s.free() <= 0 || s.isKeyFull(x.at.at(0))) {
		w := s.awaitSlot(entrant{e: x.es[0], at: x.at.at(0), inside: true, emitter: x.emitter}, suspends, true)
		return waitsForSlot, w, nil
	}
	x.emitter.countEmitted()
	// An inbox whose rule is [Wait] takes the command in any case; one that
	// drops may find itself full.
	s.receive(nil, x.es, x.at, 0, x.back || s.cfg.Overflow == Wait, false, fx)
	return sent, nil, nil
}
