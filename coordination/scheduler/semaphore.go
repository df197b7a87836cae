package scheduler

import (
	"fmt"

	"github.com/golda-dev/golda/coordination/coroutine"
)

// Semaphore is a counting semaphore for the handlers and tasks of one scheduler. Units
// are handed over first come, first served: a released unit goes to who has waited longest,
// and nobody who comes later can take it.
//
// Its methods may be called from any goroutine. But Loop sees a deadlock when all tasks are blocked:
// it does not know of a goroutine of yours that is about to release, unless a handler
// awaits it.
type Semaphore struct {
	waiters

	free int // guarded by mu; nobody waits while it is positive
}

// NewSemaphore returns a semaphore with n units; with one it is binary. It panics if n
// is negative.
func NewSemaphore(n int) *Semaphore {
	if n < 0 {
		panic(fmt.Sprintf("scheduler: NewSemaphore(%d): negative", n))
	}
	return &Semaphore{free: n}
}

// Acquire takes a unit, waiting until there is one (P). It does not suspend if there is one.
// If it returns an error, coroutine.ErrStopped, it has taken none.
func (m *Semaphore) Acquire(c coroutine.Context) error {
	m.mu.Lock()
	if m.free > 0 {
		m.free--
		m.mu.Unlock()
		return nil
	}
	called, err := m.wait(c)
	if err != nil && called {
		m.Release()
	}
	return err
}

// Release gives a unit back (V). It never suspends.
func (m *Semaphore) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.call() {
		m.free++
	}
}
