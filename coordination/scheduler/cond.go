package scheduler

import "github.com/golda-dev/golda/coordination/coroutine"

// Cond is a condition for which handlers and tasks of one scheduler wait. It
// has no memory: a signal without a waiter is lost. Nor does it hold a lock,
// since no other code runs between a test of the condition and the Wait that
// follows it. The zero Cond is ready for use.
//
// The rules of [Semaphore] for calls from other goroutines and for deadlocks
// apply here, too.
type Cond struct{ waiters }

// Wait waits for a signal. When it returns, other handlers may have run since
// the signal, so test the condition again. If Wait returns an error,
// coroutine.ErrStopped or the error of the context that ended the wait
// (coroutine.WithContext), a signal that was meant for it has woken the next
// waiter.
func (d *Cond) Wait(c coroutine.Context) error {
	d.mu.Lock()
	called, err := d.wait(c)
	if err != nil && called {
		d.Signal() // pass the signal on to the next waiter
	}
	return err
}

// Signal wakes the handler that has waited longest.
func (d *Cond) Signal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wakeFirstLocked()
}

// SignalAll wakes all waiters, in the order in which they came.
func (d *Cond) SignalAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.wakeFirstLocked() {
	}
}
