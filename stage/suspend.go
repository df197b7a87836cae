package stage

import (
	"sync"

	"github.com/golda-dev/golda/behaviour"
)

// signal is how who ends a command wakes the handler that waits for it, without a goroutine or a
// channel between them. The zero chime is ready.
type signal struct {
	mu   sync.Mutex // guards all below
	rung bool
	wake func()
}

// ring is for a ticket.
func (b *signal) ring(any, error) {
	b.mu.Lock()
	b.rung = true
	wake := b.wake
	b.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// await suspends a handler until it has rung. If it has already the handler goes on at once.
func (b *signal) await(c behaviour.Suspender) error {
	b.mu.Lock()
	rung := b.rung
	b.mu.Unlock()
	if rung {
		return nil
	}
	return c.Suspend(func(wake func()) {
		b.mu.Lock()
		b.wake = wake
		rung := b.rung
		b.mu.Unlock()
		if rung {
			wake()
		}
	})
}
