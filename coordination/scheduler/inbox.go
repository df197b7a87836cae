package scheduler

import (
	"sync"

	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/ring"
)

// entry is one thing that a Step processes. One of its fields is set, except
// that an event also has its registration.
type entry struct {
	task  *coro.Task    // resume it
	job   *job          // start it
	reg   *Registration // the registration of the event or of the end
	event any
	end   *ending
}

// ending reports that a source has no more events, and why.
type ending struct{ err error }

// inbox collects entries from any goroutine until the scheduler takes them. Its
// size is bounded by its origins: each source by Config.Backlog, and each task
// is there at most once.
type inbox struct {
	wakeup chan struct{} // notification channel of capacity one

	mu      sync.Mutex // guards the fields below
	entries []entry
	closed  bool
}

// put adds an entry and notifies the scheduler, unless the inbox is closed.
func (b *inbox) put(e entry) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.entries = append(b.entries, e)
	b.mu.Unlock()
	b.notify()
	return true
}

func (b *inbox) notify() {
	select {
	case b.wakeup <- struct{}{}:
	default: // a notification is pending already
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

// close moves the last entries to the queue and refuses further ones.
func (b *inbox) close(queue *ring.Ring[entry]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue.PushAll(b.entries)
	b.entries, b.closed = nil, true
}
