package scheduler

import (
	"sync"

	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/ring"
)

// entry is one thing that a Step may do, or learn on its way. One of its fields is set,
// but for an event, which has its registration.
type entry struct {
	task  *coro.Task    // go on with it
	job   *job          // begin it
	reg   *Registration // its event, or its end
	event any
	end   *ending
}

// ending tells that a source has no more events, and why.
type ending struct{ err error }

// inbox is where entries come in, from any goroutine, until they are looked at. What
// is in it is bounded by what it comes from: each source by Config.Backlog, and each
// task is there once.
type inbox struct {
	bell chan struct{} // has room for one ring

	mu      sync.Mutex // guards what follows
	entries []entry
	closed  bool
}

// put adds an entry and rings, unless the inbox is closed.
func (b *inbox) put(e entry) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.entries = append(b.entries, e)
	b.mu.Unlock()
	b.ring()
	return true
}

func (b *inbox) ring() {
	select {
	case b.bell <- struct{}{}:
	default: // somebody will look anyway
	}
}

// empty moves all entries to the end of the queue.
func (b *inbox) empty(queue *ring.Ring[entry]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue.PushAll(b.entries)
	clear(b.entries)
	b.entries = b.entries[:0]
}

func (b *inbox) isEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.entries) == 0
}

// close is the last time that it is emptied.
func (b *inbox) close(queue *ring.Ring[entry]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue.PushAll(b.entries)
	b.entries, b.closed = nil, true
}
