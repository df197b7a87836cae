// Package yield lets other goroutines run, as long as that is quick.
//
// A goroutine that checks for work once more before it parks, or before it is
// woken, or that finds a lock held for a moment, can save both sides a park and
// a wake. But runtime.Gosched goes to the end of the run queue of the whole
// program: on overloaded processors it may take a second, while a command waits
// for the worker that yielded. So some yields are timed, and after a slow one
// no goroutine yields for a while. A [Lock] is a mutex whose waiters yield before
// they park.
package yield

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// long is half of the time for which the runtime lets a goroutine run while
	// others wait: a yield takes longer only behind a goroutine that runs for
	// that time. Waiting behind a thousand callers that are served one after
	// another takes less.
	long = 5 * time.Millisecond
	// few and many are the least and the greatest number of yields that are
	// skipped after a slow one.
	few, many = 16, 512
	// One yield in timed is timed, as long as none was slow: reading the clock
	// costs as much as the yield.
	timed = 8
)

var base = time.Now()

// yielding is the state of the whole program. There is only one, because all
// goroutines wait in one run queue.
var yielding = courtesy{yield: runtime.Gosched, dice: rand.Uint32}

// Once yields once, unless a recent yield was slow. It reports whether it has
// yielded. Any goroutine may call it.
func Once() bool { return yielding.once() }

// courtesy decides whether to yield, from how long recent yields took.
type courtesy struct {
	yield func()
	dice  func() uint32

	left  atomic.Int32 // how many further yields are skipped
	skips atomic.Int32 // how many yields were skipped after the last slow one; 0: no recent slow one
}

func (c *courtesy) once() bool {
	skips := c.skips.Load()
	if skips == 0 && c.dice()%timed != 0 {
		c.yield()
		return true
	}
	if c.left.Load() > 0 {
		c.left.Add(-1)
		return false
	}
	began := time.Since(base)
	c.yield()
	switch took := time.Since(base) - began; {
	case took > long:
		skips = min(max(2*skips, few), many)
		c.left.Store(skips)
		c.skips.Store(skips)
	case skips > few:
		c.skips.Store(skips / 2)
	case skips > 0:
		c.skips.Store(0)
	}
	return true
}
