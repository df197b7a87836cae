package inbox

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

// postpone puts a command aside until its next try. Meanwhile it holds a slot, so retries are never refused: an inbox
// that is full of them takes nothing else. It reports false if the inbox is halted. The caller has the
// lock and has checked that the command may be tried again.
func (in *Inbox) postpone(e command.Envelope, at place) bool {
	if in.halted.Load() {
		return false
	}
	in.counts.retries++
	e.SetPack(min(e.Pack(), 1)) // it was one of a pack
	e.Prove(false)
	pause := in.cfg.Retry.pause(e.Tries(), rand.Float64())
	if pause <= 0 {
		in.requeueRetry(&e, at)
		return true
	}
	in.delayed.seq++
	heap.Push(&in.delayed, due{in.Pipeline().Now() + int64(pause), in.delayed.seq, e, at})
	if in.delayed.heap[0].seq == in.delayed.seq {
		in.setRetryTimer(pause)
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

// requeueRetry queues a command whose next try is due. If others wait for a slot it goes behind them, and
// gives up its own: commands that fail again and again keep no other from ever being tried. The caller releases
// the slot.
func (in *Inbox) requeueRetry(e *command.Envelope, at place) {
	if in.yields() {
		in.waiters.join(entrant{e: *e, at: at, retry: true}, false, false)
		return
	}
	in.push(e, at)
}

// yields reports whether a command that is due gives up its slot. Under a limit of a policy it does not: it counts
// against the limit wherever it is, so it would wait for one that waits for it.
func (in *Inbox) yields() bool {
	others := in.waiters.Len() > 0 || len(in.blocked) > 0
	return others && in.ceiling == 0 && int(in.waiters.retries) < max(mostYielding, in.knobs.Capacity)
}

// recallRetries queues the commands that gave up their slot.
func (in *Inbox) recallRetries() {
	for w := in.waiters.first; w != nil && in.waiters.retries > 0; {
		next := w.after
		if w.retry {
			in.enqueue(w)
		}
		w = next
	}
}

// postponed is how many commands wait for their next try, those among them that have given up their slot.
func (in *Inbox) postponed() int { return in.delayed.Len() + int(in.waiters.retries) }

// setRetryTimer sets the clock for the next retry.
func (in *Inbox) setRetryTimer(d time.Duration) { in.set(&in.retryTimer, d, (*Inbox).retriesDue) }

// retriesDue has those commands come back whose time has come.
func (in *Inbox) retriesDue() {
	in.mu.Lock()
	now := in.Pipeline().Now()
	for len(in.delayed.heap) > 0 && in.delayed.heap[0].at <= now {
		d := heap.Pop(&in.delayed).(due)
		in.requeueRetry(&d.e, d.p)
	}
	if len(in.delayed.heap) > 0 {
		in.setRetryTimer(time.Duration(in.delayed.heap[0].at - now))
	}
	next := in.wakeOne()
	inboxes, woken := in.unstallBehind(), in.grantSlots()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(inboxes)
}
