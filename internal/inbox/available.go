package inbox

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/command"
)

// checkFull notes that the inbox has become full, once until half of it is free
// again.
func (s *state) checkFull(fx *effects) {
	if s.slots.full || s.takenSlots() < s.knobs.Capacity {
		return
	}
	s.slots.full, fx.full, fx.some = true, true, true
}

// checkQuiet notes that a drain may be waiting for the inbox, if the inbox is
// empty, or has only commands that wait for others.
func (s *state) checkQuiet(fx *effects) {
	pl := s.pipeline.Load()
	if pl == nil || !pl.Draining.Load() && s.phase() < draining || s.load() > s.mayBeHeld() {
		return
	}
	fx.quiet, fx.some = true, true
}

// lookAtEntries has the submitters that wait at the pipeline's entry check
// again whether they may enter. A submitter that is not counted yet looks at
// the inbox after this transition.
func (s *state) lookAtEntries(fx *effects) {
	if pl := s.pipeline.Load(); pl != nil && pl.entry.Waited() {
		fx.entries, fx.some = true, true
	}
}

// callWorker wakes one idle worker of the stage, or starts one, unless a worker
// is already on its way. A shared pool gets a token instead. Even then a worker
// of the stage's own is called if it still carries commands: it has an
// instance, and no other worker can hand these commands over.
func (s *state) callWorker(fx *effects) {
	if s.visits.binding != nil {
		s.addTokens(fx)
		if s.slots.carried == 0 {
			return
		}
	}
	full := s.instances.Busy() >= s.knobs.Instances
	switch {
	case !s.workers.Callable(),
		full && s.slots.carried == 0 || s.available() == 0 || s.leftToOne(): // none is needed
		return
	}
	m := s.workers.Call(s.canWork)
	if m == nil && s.visits.binding == nil && !full && s.instances.Available(s.knobs.Instances) && s.workers.CallUnstarted() {
		m = &Member{Wake: s.self.StartWorker}
	}
	fx.wakeWorker(m)
}

// mayCome reports whether a worker has an instance that it counts for, or
// another may be used.
func (s *state) mayCome(m *Member) bool {
	return m.InUse() || s.instances.Busy() < s.knobs.Instances
}

// canWork reports whether a worker that is called would find work: it has an
// instance, or will get one, and may take one of the available commands.
func (s *state) canWork(m *Member) bool {
	return s.mayCome(m) && (m.Owns() || s.instances.Available(s.knobs.Instances)) && (!s.isLaden(m) || s.runnable() > 0)
}

// A queue that one worker finishes in no time is left to that worker while it
// is at work: to wake another costs as much as the work, and they only get in
// each other's way. The inbox knows how long the handlers took so far, which
// may be wrong of the next command. So a queue is left to one worker for long
// only if that worker gets on.
const (
	// soon is how long the work may take that is left to one worker: no longer
	// than it takes another to come, on a machine that is busy.
	soon = quantum / 5
	// stillness is for how long a worker to which a queue is left may complete
	// nothing.
	stillness = time.Millisecond
)

// mostAbandoned is how many abandoned handlers may still run. Each holds a
// goroutine and its command; beyond that number the inbox gives out no command
// until a handler has returned.
const mostAbandoned = 1024

// available is how many commands could be given out now, if there were enough
// workers. While the inbox is paused, or all instances are taken, or commands
// wait for the inbox's rate, only commands that were started before may be
// given out. A halted inbox gives out nothing.
func (s *state) available() int {
	if s.queue.woken != nil {
		return s.availableWoken()
	}
	if s.knobs.Paused {
		return 0
	}
	if s.queue.rates != nil {
		s.advanceKeys()
	}
	if s.pace.rate != nil {
		return s.rated(s.takeable())
	}
	return s.takeable()
}

// advanceKeys lists what the rates of keys allow by now. If they allow nothing
// it sets an alarm.
func (s *state) advanceKeys() {
	now := s.now()
	if due, alarm := s.queue.rates.Advance(now); alarm {
		s.setAlarm(keyAlarm, time.Duration(due-now))
	}
}

func (s *state) availableWoken() int {
	switch {
	case s.halted.Load():
		return 0
	case s.knobs.Paused:
		return s.runnable()
	}
	if s.queue.rates != nil {
		s.advanceKeys()
	}
	switch {
	case s.pace.rate != nil:
		return s.runnable() + s.rated(s.startable())
	default:
		return s.runnable() + s.startable()
	}
}

// startable is how many commands could be started, if the inbox were not paused
// and had no rate.
func (s *state) startable() int {
	if s.queue.woken == nil {
		return s.takeable()
	}
	free := s.knobs.Instances - s.counts.inHand - s.runnable()
	return max(min(s.takeable(), free), 0)
}

// takeable is how many of the queued commands a worker could take now. While
// too many abandoned handlers run, it is none.
func (s *state) takeable() int {
	if s.counts.abandoned >= mostAbandoned {
		return 0
	}
	if s.queue.plain {
		return s.queue.ring.Len()
	}
	return s.queue.line.Takeable()
}

// demand is how many commands could be given out, if the inbox were not paused.
func (s *state) demand(now int64) int {
	n := s.startable()
	if s.pace.rate != nil {
		n = min(n, s.pace.rate.Permits(now))
	}
	return s.runnable() + n
}

// rated is how many of n commands may be started for the inbox's rate. If there
// are too few permits it sets an alarm.
func (s *state) rated(n int) int {
	if n == 0 {
		if s.pace.rate.Waits() { // for commands that have ended
			s.pace.rate.End(s.now())
		}
		return 0
	}
	now, want := s.now(), s.atLeast(n)
	if permits := s.pace.rate.Permits(now); permits >= want {
		s.pace.rate.End(now)
		return min(n, permits)
	}
	if due := s.pace.rate.DueAt(want); s.pace.rate.Wait(now, due) {
		s.setAlarm(rateAlarm, time.Duration(due-now))
	}
	return 0
}

// atLeast is how many permits there must be for n commands to be started. A
// batch that lingers does so for its permits, too: as many as come meanwhile.
// Otherwise a stage that always has work would be given batches of one.
func (s *state) atLeast(n int) int {
	if s.knobs.Linger <= 0 {
		return 1
	}
	return max(min(n, s.knobs.Batch, s.pace.rate.Within(s.knobs.Linger)), 1)
}

// unstartedOf is how many commands of a batch have not been started before.
func unstartedOf(batch []command.Envelope) (n int) {
	for i := range batch {
		if !batch[i].Woken() {
			n++
		}
	}
	return n
}

// unwoken returns the commands of a batch that have not been started before.
func unwoken(batch []command.Envelope) []command.Envelope {
	if unstartedOf(batch) == len(batch) {
		return batch
	}
	return slices.DeleteFunc(slices.Clone(batch), func(e command.Envelope) bool { return e.Woken() })
}

// returnPermits puts back the permits of n commands whose handlers were not
// called, with their places.
func (s *state) returnPermits(n int, of places) {
	if s.pace.rate != nil {
		s.pace.rate.Fill(s.now())
		s.pace.rate.GiveBack(n)
	}
	if s.queue.rates != nil {
		for _, r := range of.ranks {
			s.queue.rates.Refund(r)
		}
	}
}

// isLaden reports whether a worker of an inbox whose handlers suspend carries
// as many commands as it may, because the inboxes that they are for are full.
// Such a worker continues commands that were started, since there may be no
// other worker to do so, and starts none. In a keyed stage a worker that
// carries any commands starts none: the keys of carried commands wait until all
// of these have left.
func (s *state) isLaden(m *Member) bool {
	if s.cfg.Key != nil {
		return s.queue.woken != nil && m.Carried > 0
	}
	return s.queue.woken != nil && int(m.Carried) >= s.knobs.Capacity
}

// give moves available commands to a worker's batch. Fresh says whether some of
// them have not been started.
func (s *state) give(batch []command.Envelope, fresh bool) int {
	if s.queue.woken == nil {
		return s.queue.popInto(batch)
	}
	n := s.queue.woken.pop(batch, fresh)
	return n + s.queue.popInto(batch[n:])
}

// suspended is how many commands are suspended.
func (s *state) suspended() int { return max(s.counts.suspended, 0) }

// mayBeHeld is how many commands may wait for others of the inbox, which in a
// drain do not arrive any more.
func (s *state) mayBeHeld() int {
	if s.cfg.Holder == nil {
		return 0
	}
	return s.suspended()
}

// runnable is how many queued commands have been started.
func (s *state) runnable() int { return s.queue.woken.Len() }

// lingering reports whether workers wait until the queue has filled up.
func (s *state) lingering() bool {
	linger := min(s.knobs.Linger, MostLinger)
	if linger <= 0 || s.queue.Len() >= min(s.knobs.Batch, s.knobs.Capacity) || s.runnable() > 0 {
		return false
	}
	if s.pipeline.Load().Draining.Load() || s.phase() >= draining || s.senders.linedAtLanes+len(s.senders.forPlaces) > 0 {
		return false
	}
	waited, known := s.queue.line.Oldest().Waited(s.now())
	if !known || waited >= linger {
		return false
	}
	s.setAlarm(lingerAlarm, linger-waited)
	return true
}

// isLittle reports whether n commands are soon done, as far as is known.
func (s *state) isLittle(n int) bool {
	return s.pace.service > 0 && s.visits.binding == nil && s.queue.woken == nil && time.Duration(n)*s.pace.service <= soon
}

// leftToOne reports whether the queue is left to the worker that is at work.
func (s *state) leftToOne() bool {
	if s.counts.busy <= 0 || s.sole.over || !s.isLittle(s.available()) {
		return false
	}
	if !s.sole.watched {
		s.sole.watched, s.sole.done = true, s.counts.Handled()
		s.setAlarm(soleAlarm, stillness)
	}
	return true
}

// MostLinger is for how long a batch lingers at most: envelopes cannot say how
// long they have waited when it is more than a day and a half.
const MostLinger = 24 * time.Hour
