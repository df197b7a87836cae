package gate

import (
	"sync"
	"sync/atomic"
)

// Allowance is how many commands handlers may still add to loops before the
// commands in flight are counted again. To count them takes the lock of every
// inbox, so each count covers many commands. The zero allowance is none: the
// commands are counted first.
type Allowance struct {
	left atomic.Int64

	counting sync.Mutex // one goroutine counts at a time
}

// refill is the part of the free places that one count gives out. The rest
// covers the commands that come along other edges before the next count.
const refill = 8

// Take takes a command off the allowance. It reports false if as many commands
// are in flight as may be.
func (a *Allowance) Take(most int, inFlight func() int) bool {
	for {
		left := a.left.Load()
		if left == 0 {
			return a.count(most, inFlight)
		}
		if a.left.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

// count counts the commands in flight and takes a command off a fresh
// allowance.
func (a *Allowance) count(most int, inFlight func() int) bool {
	a.counting.Lock()
	defer a.counting.Unlock()
	left := a.left.Swap(0)
	if left == 0 {
		free := int64(max(most-inFlight(), 0))
		left = min(free, max(free/refill, 1))
	}
	if left == 0 {
		return false
	}
	a.left.Store(left - 1)
	return true
}
