package scheduler

import "github.com/golda-dev/golda/coordination/coroutine"

// Cond is a condition for which handlers and tasks of one scheduler wait. It has no memory: a signal
// for which nobody waits is lost. Nor does it hold a lock, since nothing else runs
// between a test and the Wait that follows it. The zero Cond is ready for use.
//
// What was said of a Semaphore's methods and of deadlock holds for these.
type Cond struct{ waiters }

// Wait waits for a signal. When it returns, others may have run since the signal, so the
// condition is tested again. If it returns an error, coroutine.ErrStopped or that of the context that ended the wait
// (coroutine.WithContext), a signal that was meant for it has woken the next.
func (d *Cond) Wait(c coroutine.Context) error {
	d.mu.Lock()
	called, err := d.wait(c)
	if err != nil && called {
		d.Signal() // it was meant for somebody
	}
	return err
}

// Signal wakes who has waited longest.
func (d *Cond) Signal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.call()
}

// SignalAll wakes all who wait, in the order in which they came.
func (d *Cond) SignalAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.call() {
	}
}
