package scheduler

import (
	"fmt"

	"github.com/golda-dev/golda/coordination/coroutine"
)

// Semaphore is a counting semaphore for the handlers and tasks of one
// scheduler. Units are handed over first come, first served: a released unit
// goes to the handler that has waited longest, and a later one cannot take it.
//
// Its methods may be called from any goroutine. But Loop reports a deadlock
// when all tasks are blocked: it does not know about another goroutine that is
// about to release, unless a handler awaits that goroutine.
type Semaphore struct {
	waiters

	binary bool
	free   int // guarded by mu; no handler waits while it is positive
}

// NewSemaphore returns a semaphore with n units. It counts: each Release
// without a waiter adds a unit, also beyond n, so a semaphore that starts with
// no units may count the items that producers have made. With one unit it
// admits one handler at a time as long as each Release follows an Acquire;
// [NewBinarySemaphore] does so in any case. It panics if n is negative.
func NewSemaphore(n int) *Semaphore {
	if n < 0 {
		panic(fmt.Sprintf("scheduler: NewSemaphore(%d): negative", n))
	}
	return &Semaphore{free: n}
}

// NewBinarySemaphore returns a semaphore that never has more than one unit: a
// Release while it is free changes nothing, since it sets the value (figure
// A.3) and does not count. It starts with n units, 0 or 1, and panics on any
// other number.
func NewBinarySemaphore(n int) *Semaphore {
	if n != 0 && n != 1 {
		panic(fmt.Sprintf("scheduler: NewBinarySemaphore(%d): neither 0 nor 1", n))
	}
	return &Semaphore{free: n, binary: true}
}

// Acquire takes a unit and waits until there is one (P). It does not suspend if
// there is one already. If it returns an error it has taken none: the error is
// coroutine.ErrStopped, or the error of the context that ended the wait
// (coroutine.WithContext).
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

// TryAcquire takes a unit if there is one, and reports whether it did. It never
// suspends.
func (m *Semaphore) TryAcquire() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.free == 0 {
		return false
	}
	m.free--
	return true
}

// Release returns a unit (V): to the handler that has waited longest, if one
// waits. It never suspends.
func (m *Semaphore) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.wakeFirstLocked():
	case m.binary:
		m.free = 1
	default:
		m.free++
	}
}
