package inbox

import (
	"slices"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/reason"
)

// grantSlots gives the free slots to their waiters. Parked workers wait until
// half of the inbox is free, so that each waking moves many commands. If
// submitters wait too, the two take turns: neither can starve the other. So do
// inboxes behind; see unstallBehind, which is called before.
//
// A command of a submitter is queued at once, so that its slot is never held
// for a goroutine that has still to run.
func (s *state) grantSlots(fx *effects) {
	s.grantPlaces(fx)
	free := s.free()
	if len(s.senders.forSlots) == 1 && s.senders.forSlots[0].places > 0 && s.waiters.n == 0 && free > 0 { // it has waited for places only
		n := min(free, s.senders.forSlots[0].places)
		fx.wakeWorker(s.promise(n))
		free -= n
	}
	if len(s.senders.forSlots)+len(s.visits.behind) > 0 && free < s.half() {
		return
	}
	entered := false
	for free > 0 {
		if s.waiters.first != nil && (len(s.senders.forSlots) == 0 || s.slots.outside) {
			s.enqueue(s.waiters.first, fx)
			s.slots.outside = false
			entered = true
			free--
			continue
		}
		if len(s.senders.forSlots) == 0 {
			break
		}
		n := min(free, s.senders.forSlots[0].n)
		fx.wakeWorker(s.promise(n))
		free -= n
	}
	if entered {
		s.checkFull(fx)
		s.callWorker(fx)
	}
}

// enqueue queues a command that waits in line.
func (s *state) enqueue(w *waiter, fx *effects) {
	s.waiters.leave(w)
	if w.lane != nil {
		s.queue.bound.Redeem(w.lane) // the command gets it
		w.lane = nil
	}
	s.push(&w.e, w.at)
	w.queued = true
	switch {
	case w.retry:
		return
	case w.inside:
		s.counts.Received++
		w.emitter.countEmitted()
	default:
		s.counts.Submitted++
	}
	fx.signal(w)
}

// promise reserves n slots for the worker that has been parked for longest.
func (s *state) promise(n int) *Member {
	p := s.senders.forSlots[0]
	s.senders.forSlots = slices.Delete(s.senders.forSlots, 0, 1)
	p.n = n
	s.slots.promises = append(s.slots.promises, p)
	s.slots.reserved += int32(n)
	s.slots.outside = true
	p.m.attendance.SetReady(true)
	return p.m
}

// unpark removes a worker from the lines here and releases the slots and places
// that it was promised.
func (s *state) unpark(m *Member) (known bool) {
	_, known, p := s.unparkKeeping(m)
	s.unreserve(p.lane, p.places)
	return known
}

// unparkKeeping removes a worker from the lines here and releases the slots
// that it was promised; the caller takes them at once. It returns whether the
// worker waited here, and its position in the line for slots if it must wait
// again. That is the front, if the worker was promised slots or barred; its old
// position, if it was not woken, as with a new actor of an old worker; and the
// end, if it did not wait here, or waited for places. The places in was stay
// reserved.
func (s *state) unparkKeeping(m *Member) (at int, known bool, was sender) {
	if was, at = s.slots.promises.cut(m); at >= 0 {
		s.slots.reserved -= int32(was.n)
		return 0, true, was
	}
	if _, at = s.senders.barred.cut(m); at >= 0 {
		return 0, true, sender{}
	}
	if was, at = s.senders.forSlots.cut(m); at >= 0 {
		return at, true, was
	}
	if i := s.senders.forPlaces.find(m); i >= 0 {
		s.leaveLane(i)
		return len(s.senders.forSlots), true, was
	}
	return len(s.senders.forSlots), false, was
}

// InLine reports whether a worker waits here to hand over.
func (sn Senders) InLine(m *Member) bool {
	return ask(sn.in, func(s *state) bool { return s.senders.has(m) })
}

// Withdraw removes a worker that continues with other work from the line.
// Others get the slots that it was promised.
func (sn Senders) Withdraw(m *Member) {
	var fx effects
	sn.in.mu.Lock()
	sn.in.state.unpark(m)
	sn.in.state.grantSlots(&fx)
	sn.in.unlock(&fx)
}

// releaseSenders wakes all parked workers of an inbox that is halted.
func (s *state) releaseSenders(fx *effects) {
	for len(s.senders.forPlaces) > 0 {
		p := s.senders.forPlaces[0]
		s.leaveLane(0)
		s.senders.barred = append(s.senders.barred, sender{m: p.m})
	}
	for _, p := range slices.Concat(s.senders.barred, s.senders.forSlots) {
		p.m.attendance.SetReady(true)
		fx.wakeWorker(p.m)
	}
	for _, p := range s.slots.promises {
		s.slots.reserved -= int32(p.n)
	}
	for _, p := range slices.Concat(s.senders.forSlots, s.slots.promises) {
		s.unreserve(p.lane, p.places)
	}
	s.unstallOver(nil, fx)
	s.senders.barred, s.senders.forSlots, s.slots.promises = nil, nil, nil
	s.unbar(fx)
}

// unbar makes barred handlers that emit try again.
func (s *state) unbar(fx *effects) {
	if s.senders.unbarred != nil {
		fx.unbar(s.senders.unbarred)
		s.senders.unbarred = nil
	}
}

// Parked returns the workers that hold commands for the inbox and wait to hand
// them over.
func (sn Senders) Parked() []*Member {
	return ask(sn.in, func(s *state) []*Member { return s.senders.all() })
}

// dropFor makes a slot for e, or drops e itself, as the overflow rule says.
// Packs stay whole: only the command in front is ever dropped from the queue.
func (s *state) dropFor(e command.Envelope, at place, fx *effects) {
	if s.cfg.Overflow == DropNewest || s.queue.line.Droppable() == 0 {
		s.shedOne(e, reason.Newest, ErrShedNewest, fx)
		return
	}
	oldest, ok := s.dropOldest(at)
	if !ok {
		s.shedOne(e, reason.Newest, ErrShedNewest, fx)
		return
	}
	s.queue.unpack(oldest)
	s.push(&e, at)
	s.shedOne(oldest, reason.Oldest, ErrShed, fx)
}

// dropOldest removes the oldest command of the queue, or of a key that has no
// place. It returns false if that has none which waits.
func (s *state) dropOldest(at place) (oldest command.Envelope, ok bool) {
	if !s.isKeyFull(at) {
		return s.queue.line.Drop(), true
	}
	return s.queue.bound.DropOf(s.queue.bound.Find(at.rank))
}

// unstallBehind unstalls the inboxes behind that wait for free slots here, if
// half of the slots is free.
func (s *state) unstallBehind(fx *effects) {
	if !s.slots.full && len(s.visits.behind) == 0 || s.queue.slotted() > max(s.knobs.Capacity-s.delayed.Len(), 0)/2 || s.isFull() {
		return
	}
	s.slots.full = false
	behind := s.visits.behind
	s.visits.behind = nil
	if s.waiters.Len() > 0 {
		s.visits.passes = slices.Clone(behind)
	}
	if s.phase() >= barring {
		behind = slices.DeleteFunc(behind, func(other *Inbox) bool {
			barred := s.bars(other, false)
			if barred {
				s.visits.behind = append(s.visits.behind, other)
			}
			return barred
		})
	}
	fx.unstall(behind...)
}

// isFull reports whether commands hold all slots of the inbox, and inboxes
// behind wait for them. Slots that are promised do not count: no transition
// would unstall the inboxes behind when they are free.
func (s *state) isFull() bool {
	full := s.takenSlots() >= s.knobs.Capacity || s.slots.ceiling > 0 && s.limited() >= s.slots.ceiling
	return full && s.cfg.Overflow == Wait && !s.halted.Load()
}

// usePass uses up the pass of an inbox behind. It returns false if that has
// none.
func (s *state) usePass(behind *Inbox) bool {
	i := slices.Index(s.visits.passes, behind)
	if i >= 0 {
		s.visits.passes = slices.Delete(s.visits.passes, i, i+1)
	}
	return i >= 0
}

func (s *state) carry(m *Member, n int32) {
	s.slots.carried += n - m.Carried
	m.Carried = n
}

// changed is called after commands, slots or instances were added or removed.
// It collects the effects that may be possible now: it calls a worker if there
// is work, grants free slots to their waiters, and lets inboxes behind resume.
func (s *state) changed(fx *effects) {
	s.callWorker(fx)
	s.unstallBehind(fx)
	s.grantSlots(fx)
}
