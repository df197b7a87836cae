package pool

import (
	"slices"
	"sync/atomic"

	"github.com/golda-dev/golda/controller"
)

// Binding binds an inbox to the pool whose workers visit it, from
// [Pool.Bind] to End. An inbox that comes back has a binding of its own for
// that.
type Binding[M, I any] struct {
	inbox    I
	place    int
	pool     *Pool[M, I]
	empties  *atomic.Uint64 // the inbox's count of visits that found nothing to do
	priority atomic.Int64
	note     atomic.Uint64 // in a polled pool, one more than the era of a token that no worker has taken; 0: there is none

	// The pool's lock guards these.
	era   uint32 // the last one that the pool knows of
	ended bool
}

// Inbox returns the inbox.
func (b *Binding[M, I]) Inbox() I { return b.inbox }

// SetPriority sets the priority of tokens that are delivered from now on, in a
// pool whose queue is in the order of priorities. The caller begins an era.
func (b *Binding[M, I]) SetPriority(priority int) { b.priority.Store(int64(priority)) }

// Deliver gives the pool n tokens of the inbox, and wakes a worker for each. If
// it is the first delivery of its era, all older tokens are void: then n may be
// 0. Tokens of an era that has ended are dropped, as are tokens of a binding
// that has. No lock is held.
func (b *Binding[M, I]) Deliver(era uint32, n int32) {
	b.pool.mu.Lock()
	var called woken[M]
	if newer := int32(era - b.era); !b.ended && newer >= 0 { // the number of the era may wrap round
		if newer > 0 {
			b.void()
			b.era = era
		}
		called = b.pool.add(b, n)
	}
	b.pool.mu.Unlock()
	b.pool.wake(&called)
}

// void drops the tokens in the pool.
func (b *Binding[M, I]) void() {
	b.pool.ready.drop(b)
	b.takeNote()
}

// takeNote takes the token of a polled pool. It needs no lock.
func (b *Binding[M, I]) takeNote() (era uint32, ok bool) {
	if b.note.Load() == 0 {
		return 0, false
	}
	note := b.note.Swap(0)
	if note == 0 {
		return 0, false
	}
	b.pool.noted.Add(-1)
	return uint32(note - 1), true
}

// End takes the inbox out of the pool, with its tokens. The inbox has ceased to
// give tokens. No lock is held.
func (b *Binding[M, I]) End() {
	p := b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	b.ended = true
	b.void()
	p.bound = slices.DeleteFunc(p.bound, func(o *Binding[M, I]) bool { return o == b })
	p.reroute()
}

// add adds tokens of the present era, and calls a worker for each. The mode of
// the pool says where to, even if the inbox counted the tokens for another
// mode: then the inbox is about to begin an era.
func (p *Pool[M, I]) add(b *Binding[M, I], n int32) (called woken[M]) {
	switch how := p.Dispatch(); {
	case n == 0:
	case how == controller.Polled:
		if b.note.Swap(uint64(b.era)+1) == 0 {
			p.noted.Add(1)
		}
		called.add(p.set.CallAny())
	default:
		priority := int64(0)
		if how == controller.SharedPriority {
			priority = b.priority.Load()
		}
		for range n {
			p.ready.push(b, b.era, priority)
			called.add(p.set.CallAny())
		}
	}
	return called
}

// woken are the workers that a transition of the pool has called. Most
// transitions call one at most.
type woken[M any] struct {
	first *M
	rest  []*M
}

// add adds a worker; nil is none.
func (x *woken[M]) add(m *M) {
	switch {
	case m == nil:
	case x.first == nil:
		x.first = m
	default:
		x.rest = append(x.rest, m)
	}
}

// wake wakes the workers. No lock is held.
func (p *Pool[M, I]) wake(x *woken[M]) {
	if x.first != nil {
		p.events.Wake(x.first)
	}
	for _, m := range x.rest {
		p.events.Wake(m)
	}
}
