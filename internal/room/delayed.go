package room

import (
	"container/heap"
	"math/bits"
	"math/rand/v2"
	"time"

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

// postpone puts a command aside until its next try. Meanwhile it holds a slot, so retries are never refused: a room
// that is full of them takes nothing else. It reports false if the room is halted. The caller has the
// lock and has checked that the command may be tried again.
func (r *Room) postpone(e command.Envelope, at place) bool {
	if r.halted.Load() {
		return false
	}
	r.c.retries++
	e.SetPack(min(e.Pack(), 1)) // it was one of a pack
	e.Prove(false)
	pause := r.cfg.Retry.pause(e.Tries(), rand.Float64())
	if pause <= 0 {
		r.comeBack(&e, at)
		return true
	}
	r.delayed.seq++
	heap.Push(&r.delayed, due{r.Host().Now() + int64(pause), r.delayed.seq, e, at})
	if r.delayed.heap[0].seq == r.delayed.seq {
		r.alarm(pause)
	}
	return true
}

// pause is how long to wait after so many tries: the backoff doubles up to its
// maximum, then up to jitter of it is taken off or put on. Die is in [0, 1).
func (p Retry) pause(tries int, die float64) time.Duration {
	d := p.Max
	if doublings := max(tries-1, 0); doublings < bits.LeadingZeros64(uint64(p.Backoff))-1 {
		d = min(p.Backoff<<doublings, p.Max)
	}
	if p.Backoff == 0 {
		d = 0
	}
	return d + time.Duration(p.Jitter*(2*die-1)*float64(d))
}

// comeBack queues a command whose next try is due. If others wait for a slot it goes behind them, and
// gives up its own: commands that fail again and again keep no other from ever being tried. The caller releases
// the slot.
func (r *Room) comeBack(e *command.Envelope, at place) {
	if r.yields() {
		r.waiters.join(entrant{e: *e, at: at, retry: true}, false, false)
		return
	}
	r.push(e, at)
}

// yields reports whether a command that is due gives up its slot. Under a limit of a policy it does not: it counts
// against the limit wherever it is, so it would wait for one that waits for it.
func (r *Room) yields() bool {
	others := r.waiters.Len() > 0 || len(r.blocked) > 0
	return others && r.ceiling == 0 && int(r.waiters.retries) < max(mostYielding, r.knobs.Capacity)
}

// recall queues the commands that gave up their slot.
func (r *Room) recall() {
	for w := r.waiters.first; w != nil && r.waiters.retries > 0; {
		next := w.after
		if w.retry {
			r.enqueue(w)
		}
		w = next
	}
}

// postponed is how many commands wait for their next try, those among them that have given up their slot.
func (r *Room) postponed() int { return r.delayed.Len() + int(r.waiters.retries) }

// alarm sets the clock for the next retry.
func (r *Room) alarm(in time.Duration) { r.set(&r.timer, in, (*Room).resume) }

// resume has those commands come back whose time has come.
func (r *Room) resume() {
	r.mu.Lock()
	now := r.Host().Now()
	for len(r.delayed.heap) > 0 && r.delayed.heap[0].at <= now {
		d := heap.Pop(&r.delayed).(due)
		r.comeBack(&d.e, d.p)
	}
	if len(r.delayed.heap) > 0 {
		r.alarm(time.Duration(r.delayed.heap[0].at - now))
	}
	next := r.rouse()
	rooms, woken := r.relieve(), r.release()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(rooms)
}
