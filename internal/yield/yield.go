// Package yield lets other goroutines run, as long as that is quick.
//
// Who looks around once more before it goes to sleep, or before it has itself woken, spares both
// sides a parking and a waking. But runtime.Gosched goes to the end of the line of the whole
// program: where the processors have more to do than they can, it may take a second, with a command
// waiting for the worker that yielded. So some yields are timed, and after one that took long
// nobody yields for a while.
package yield

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// long is half of what the runtime lets a goroutine run while others wait: it takes
	// longer only behind one that does so. That of a thousand callers who are served, one after
	// another, before it is one's turn again, is shorter.
	long = 5 * time.Millisecond
	// few and many are how often at least and at most nobody yields after one that took long.
	few, many = 16, 512
	// timed is in how many yields one is timed, as long as none took long: the clock costs
	// as much as the yield.
	timed = 8
)

var base = time.Now()

// yielding is how the program yields. All goroutines wait in one line, so there is one for all.
var yielding = courtesy{yield: runtime.Gosched, dice: rand.Uint32}

// Once lets others run, once, unless that took too long lately. Anybody may call it.
func Once() { yielding.once() }

// courtesy is how those who yield remember how long it took.
type courtesy struct {
	yield func()
	dice  func() uint32

	left  atomic.Int32 // so many more times it is not done
	skips atomic.Int32 // how many times it was not done after the last that took long; 0: forgotten
}

func (c *courtesy) once() {
	skips := c.skips.Load()
	if skips == 0 && c.dice()%timed != 0 {
		c.yield()
		return
	}
	if c.left.Load() > 0 {
		c.left.Add(-1)
		return
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
}
