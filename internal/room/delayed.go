package room

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/internal/command"
)

// delayedRoom is how many commands may wait for a retry in a small stage; in a
// larger one it is its capacity. What does not fit is not tried again.
const delayedRoom = 1024

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

// postpone puts a command aside until its next try, or behind all others if
// there is no pause. It reports false if no more may wait. The caller has the
// lock and has checked that the command may be tried again.
func (r *Room) postpone(e command.Envelope, at place) bool {
	if r.halted.Load() || r.delayed.Len() >= max(delayedRoom, r.knobs.Capacity) {
		return false
	}
	r.c.retries++
	e.SetPack(min(e.Pack(), 1)) // it was one of a pack
	e.Prove(false)
	pause := r.cfg.Retry.pause(e.Tries(), rand.Float64())
	if pause <= 0 {
		r.push(&e, at)
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
	d := p.Backoff
	for i := 1; i < tries && d < p.Max; i++ {
		d *= 2
	}
	d = min(d, p.Max)
	return d + time.Duration(p.Jitter*(2*die-1)*float64(d))
}

// alarm sets the clock for the next retry.
func (r *Room) alarm(in time.Duration) { r.set(&r.timer, in, (*Room).resume) }

// resume queues the commands whose time has come.
func (r *Room) resume() {
	r.mu.Lock()
	now := r.Host().Now()
	for len(r.delayed.heap) > 0 && r.delayed.heap[0].at <= now {
		d := heap.Pop(&r.delayed).(due)
		r.push(&d.e, d.p)
	}
	if len(r.delayed.heap) > 0 {
		r.alarm(time.Duration(r.delayed.heap[0].at - now))
	}
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}
