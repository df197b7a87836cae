package stagetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// Crowd makes the handlers of a stage overlap, so that the race detector finds
// state that they share without a lock. It is middleware of the stage: each
// handler waits until n of them are there, and then all go on at once. The
// stage needs n workers, and n commands at a time:
//
//	count := stage.Sink("count", count, stage.Workers(8, 8), stage.Middleware(stagetest.Crowd(t, 8)))
//	p := stagetest.Run(t, count)
//	_, err := count.SubmitAll(t.Context(), records...)
//
// A handler that has waited for a second goes on without the others; later ones
// wait no longer than ten milliseconds once there was a crowd, because the last
// commands are seldom a whole one. The test fails if n handlers never were
// there at once. A Crowd is for one stage. Handlers that suspend do not hold
// their workers, but handlers that wait for the crowd do.
func Crowd(tb testing.TB, n int) stage.MiddlewareFunc {
	tb.Helper()
	if n < 2 {
		tb.Fatalf("stagetest: Crowd(%d): a crowd is two or more", n)
	}
	c := &crowd{size: n, together: make(chan struct{})}
	tb.Cleanup(func() {
		if most, met := c.result(); !met {
			tb.Errorf("stagetest: Crowd(%d): at most %d handlers were there at once; "+
				"the stage needs stage.Workers(%d, %d) and as many commands", n, most, n, n)
		}
	})
	return func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		c.wait(ctx)
		return next(ctx, cmd)
	}
}

// How long a handler waits for others, before there was a crowd and after.
const (
	crowdFirst = time.Second
	crowdLater = 10 * time.Millisecond
)

// crowd is a barrier for handlers, which is used again and again.
type crowd struct {
	size int

	mu       sync.Mutex    // guards all fields below
	together chan struct{} // closed when the present handlers go on
	here     int           // how many wait for that
	most     int
	met      bool // there were enough of them
}

// wait waits until there are enough handlers.
func (c *crowd) wait(ctx context.Context) {
	c.mu.Lock()
	together, patience := c.together, crowdFirst
	if c.met {
		patience = crowdLater
	}
	c.here++
	c.most = max(c.most, c.here)
	if c.here == c.size {
		c.met = true
		c.goOn()
	}
	c.mu.Unlock()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-together:
	case <-late.C:
		c.leave(together)
	case <-ctx.Done():
		c.leave(together)
	}
}

// goOn lets the present handlers go on; mu is held.
func (c *crowd) goOn() {
	close(c.together)
	c.together, c.here = make(chan struct{}), 0
}

// leave lets the handlers of a crowd go on that is not complete: one of them
// has waited long enough.
func (c *crowd) leave(with chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if with == c.together {
		c.goOn()
	}
}

func (c *crowd) result() (most int, met bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most, c.met
}
