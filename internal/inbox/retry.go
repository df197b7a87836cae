package inbox

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/internal/command"
)

// mostYielding is how many commands may have given up their slot while they wait for their next try, in a small stage; in a
// larger one it is its capacity. Beyond that they keep it.
const mostYielding = 1024

// delayed holds the commands that wait for a retry, the next one first.
type delayed struct {
	heap []due
	seq  uint64 // keeps those due at the same instant in order
}

type due struct {
	at  int64
	seq uint64
	e   command.Envelope
	p   place
}

func (d *delayed) Len() int { return len(d.heap) }

func (d *delayed) Less(i, j int) bool {
	a, b := d.heap[i], d.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (d *delayed) Swap(i, j int) { d.heap[i], d.heap[j] = d.heap[j], d.heap[i] }

// Push is for package heap.
func (d *delayed) Push(x any) { d.heap = append(d.heap, x.(due)) }

// Pop is for package heap.
func (d *delayed) Pop() any {
	last := d.heap[len(d.heap)-1]
	d.heap[len(d.heap)-1] = due{}
	d.heap = d.heap[:len(d.heap)-1]
	return last
}

func (d *delayed) clear() []command.Envelope {
	es := make([]command.Envelope, 0, len(d.heap))
	for len(d.heap) > 0 {
		es = append(es, heap.Pop(d).(due).e)
	}
	return es
}

// postpone keeps a command until its next try. Meanwhile it holds a slot, so retries are never refused: an inbox that is
// full of them takes nothing else. It returns false if the inbox is halted. The caller has checked that the command may be
// tried again.
func (s *state) postpone(e command.Envelope, at place) bool {
	if s.halted.Load() {
		return false
	}
	s.counts.retries++
	e.SetPack(min(e.Pack(), 1)) // it leaves its pack; a pack of one stays
	e.Prove(false)
	pause := s.cfg.Retry.pause(e.Tries(), rand.Float64())
	if pause <= 0 {
		s.requeueRetry(&e, at)
		return true
	}
	s.delayed.seq++
	heap.Push(&s.delayed, due{s.now() + int64(pause), s.delayed.seq, e, at})
	if s.delayed.heap[0].seq == s.delayed.seq {
		s.setAlarm(retryAlarm, pause)
	}
	return true
}

// pause is how long to wait after so many tries. The backoff doubles up to its maximum; then a share of it, at most Jitter, is
// subtracted or added. Die is random, in [0, 1).
func (p Retry) pause(tries int, die float64) time.Duration {
	return backoff.Pause(p.Backoff, p.Max, tries, p.Jitter*(2*die-1))
}

// requeueRetry queues a command whose next try is due. If other commands wait for a slot it goes behind them, and gives up
// its own: commands that fail again and again keep no other from ever being tried. The caller grants the slot.
func (s *state) requeueRetry(e *command.Envelope, at place) {
	if s.yieldsSlot() {
		s.waiters.join(entrant{e: *e, at: at, retry: true}, false, false)
		return
	}
	s.push(e, at)
}

// yieldsSlot reports whether a command that is due gives up its slot. Under a limit of a policy it does not: it counts against
// the limit wherever it is, so it would wait for a command that waits for it.
func (s *state) yieldsSlot() bool {
	others := s.waiters.Len() > 0 || len(s.forSlots) > 0
	return others && s.ceiling == 0 && int(s.waiters.retries) < max(mostYielding, s.knobs.Capacity)
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

// postponed is how many commands wait for their next try, including those that have given up their slot.
func (s *state) postponed() int { return s.delayed.Len() + int(s.waiters.retries) }

// retriesDue queues the commands whose next try is due.
func (s *state) retriesDue(fx *effects) {
	now := s.now()
	for len(s.delayed.heap) > 0 && s.delayed.heap[0].at <= now {
		d := heap.Pop(&s.delayed).(due)
		s.requeueRetry(&d.e, d.p)
	}
	if len(s.delayed.heap) > 0 {
		s.setAlarm(retryAlarm, time.Duration(s.delayed.heap[0].at-now))
	}
	s.changed(fx)
}
