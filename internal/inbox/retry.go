package inbox

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/internal/command"
)

// mostYielding is how many commands may have given up their slot while they
// wait for their next try, in a small stage; in a larger one it is its
// capacity. Beyond that they keep it.
const mostYielding = 1024

// postpone keeps a command until its next try. Meanwhile it holds a slot, so
// retries are never refused: an inbox that is full of them takes nothing else.
// The caller has checked that the command may be tried again, and that the
// inbox is not halted.
//
// The pause is at least as long as asked.
func (s *state) postpone(e command.Envelope, at place, asked time.Duration) {
	s.counts.Retries++
	e.SetPack(min(e.Pack(), 1)) // it leaves its pack; a pack of one stays
	pause := max(s.cfg.Retry.pause(e.Tries()+e.Refusals(), rand.Float64()), asked)
	if pause <= 0 {
		s.requeueRetry(&e, at)
		return
	}
	s.queue.line.Block(at.rank)
	if !s.lapsing.watched {
		s.watchLapse(&e)
	}
	s.delayed.seq++
	heap.Push(&s.delayed, due{s.now() + int64(pause), s.delayed.seq, e, at})
	if s.delayed.heap[0].seq == s.delayed.seq {
		s.setAlarm(retryAlarm, pause)
	}
}

// pause is how long to wait after a number of tries and refusals. The backoff
// doubles up to its maximum; then a share of it, at most Jitter, is subtracted
// or added. Die is random, in [0, 1).
func (p Retry) pause(tries int, die float64) time.Duration {
	return backoff.Pause(p.Backoff, p.Max, tries, p.Jitter*(2*die-1))
}

// requeueRetry queues a command whose next try is due. If other commands wait
// for a slot, it is queued behind them and gives up its own: commands that fail
// again and again keep no other from ever being tried. The caller grants the
// slot.
func (s *state) requeueRetry(e *command.Envelope, at place) {
	if !s.lapsing.watched {
		s.watchLapse(e)
	}
	if s.queue.line.Unblock(*e, at.rank) {
		return
	}
	if s.yieldsSlot() {
		s.waiters.join(s.waiters.waiter(entrant{e: *e, at: at, retry: true}, false), false)
		return
	}
	s.push(e, at)
}

// yieldsSlot reports whether a command that is due gives up its slot. Under a
// limit of a policy it does not: it counts against the limit wherever it is, so
// it would wait for a command that waits for it.
func (s *state) yieldsSlot() bool {
	others := s.waiters.Len() > 0 || len(s.senders.forSlots) > 0
	return others && !s.queue.line.Awaited() && s.slots.ceiling == 0 && int(s.waiters.retries) < max(mostYielding, s.knobs.Capacity)
}

// recallRetries queues the commands that gave up their slot.
func (s *state) recallRetries(fx *effects) {
	for w := s.waiters.first; w != nil && s.waiters.retries > 0; {
		next := w.after
		if w.retry {
			s.enqueue(w, fx)
		}
		w = next
	}
}

// dismissWaiters has all submitters that wait for a slot submit again: the
// inbox has changed. Commands that wait in line for their next try are queued.
func (s *state) dismissWaiters(fx *effects) {
	s.recallRetries(fx)
	for w := s.waiters.first; w != nil; w = s.waiters.first {
		s.leaveLine(w)
		fx.signal(w)
	}
	s.dismissAtLanes(fx)
}
