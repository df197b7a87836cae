package scheduler_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

// The statements of the text on the event scheduler, point by point (docs/coordination.md).

func TestS000_01_StepHandlesAtMostOneEvent(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		n := 0
		notify, _ := b.source(func(coroutine.Context, any) { n++ })
		notify(1, 2, 3)
		var handled []bool
		var counts []int
		for range 4 {
			handled = append(handled, b.Step(0))
			counts = append(counts, n)
		}
		assert.Equal(t, []bool{true, true, true, false}, handled)
		assert.Equal(t, []int{1, 2, 3, 3}, counts)
	})
}

func TestS000_02_ReadyQueueRefilledOnlyWhenEmpty(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var waits []int
		notify, _ := b.source(func(_ coroutine.Context, ev any) { b.say(fmt.Sprint(ev)) })
		step := func() {
			assert.True(t, b.Step(0))
			waits = append(waits, b.Snapshot().Waits)
		}
		notify(1, 2)
		step()
		notify(3)
		step()
		step()
		assert.Equal(t, []int{1, 1, 2}, waits)
		assert.Equal(t, []string{"1", "2", "3"}, b.log)
	})
}

func TestS000_03_EventGoesToItsHandler(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		handler := func(name string) scheduler.Handler {
			return func(_ coroutine.Context, ev any) { b.say(name + ":" + ev.(string)) }
		}
		notifyA, _ := b.source(handler("ha"))
		notifyB, _ := b.source(handler("hb"))
		notifyA("a1")
		notifyB("b1")
		notifyA("a2")
		b.untilFalse()
		assert.Equal(t, []string{"ha:a1", "hb:b1", "ha:a2"}, b.log)
	})
}

func TestS000_04_NoBusyWait(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var at time.Duration
		b.Register(scheduler.SourceFunc(func(_ context.Context, notify func(any)) error {
			time.Sleep(5 * time.Second)
			notify("late")
			return nil
		}), func(coroutine.Context, any) { at = b.now() })
		assert.True(t, b.Step(time.Hour))
		assert.Equal(t, 5*time.Second, at)
		assert.Equal(t, 5*time.Second, b.now())
		assert.Equal(t, 1, b.Snapshot().Waits)

		assert.False(t, b.Step(time.Minute))
		assert.Equal(t, 5*time.Second+time.Minute, b.now())
	})
}

func TestS000_05_SynchronousSourceOnItsOwnThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var faults []error
		s := scheduler.New(scheduler.Config{Error: func(err error) { faults = append(faults, err) }})
		begin := time.Now()
		never := make(chan struct{})
		s.Register(scheduler.SourceFunc(func(context.Context, func(any)) error {
			<-never // it even ignores its context
			return nil
		}), func(coroutine.Context, any) { t.Error("an event") })
		n := 0
		s.Register(scheduler.Every(time.Second), func(coroutine.Context, any) {
			if n++; n == 3 {
				s.Stop()
			}
		})
		require.NoError(t, s.Loop())
		assert.Equal(t, 3*time.Second, time.Since(begin))
		assert.Equal(t, 3, n)

		s.Close() // reports it, and does not wait for ever
		assert.Equal(t, 4*time.Second, time.Since(begin))
		require.Len(t, faults, 1)
		require.ErrorContains(t, faults[0], "TestS000_05")
		require.ErrorContains(t, faults[0], "did not end within 1s of Close")
		close(never)
	})
}

// lazy is a poller that uses its whole limit and finds nothing.
type lazy struct{ polling, most *atomic.Int32 }

func (l lazy) Poll(limit time.Duration) (event any, ok bool, err error) {
	l.most.Store(max(l.most.Load(), l.polling.Add(1)))
	defer l.polling.Add(-1)
	time.Sleep(limit)
	return nil, false, nil
}

func TestS000_06_PollersSerialAndBounded(t *testing.T) {
	inBubble(t, scheduler.Config{PollBudget: 10 * time.Millisecond}, func(b *bubble) {
		l := lazy{new(atomic.Int32), new(atomic.Int32)}
		for range 2 {
			b.Register(l, func(coroutine.Context, any) { t.Error("an event") })
		}
		var at time.Duration
		b.Register(scheduler.After(23*time.Millisecond), func(coroutine.Context, any) { at = b.now() })
		assert.True(t, b.Step(time.Second))
		assert.Equal(t, 30*time.Millisecond, at)
		assert.EqualValues(t, 1, l.most.Load(), "polls at once")
	})
}

func TestS000_07_TimerNeverEarlyMayBeLate(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var at time.Duration
		b.Go(func(coroutine.Context) { time.Sleep(50 * time.Millisecond) }) // holds the scheduler
		b.Register(scheduler.After(10*time.Millisecond), func(coroutine.Context, any) { at = b.now() })
		b.loop()
		assert.Equal(t, 50*time.Millisecond, at)
	})
	t.Run("on the real clock", func(t *testing.T) {
		s := scheduler.New(scheduler.Config{})
		defer s.Close()
		n := 0
		for i := range 500 {
			d := time.Duration(i%50) * time.Millisecond
			begin := time.Now()
			s.Register(scheduler.After(d), func(coroutine.Context, any) {
				n++
				assert.GreaterOrEqual(t, time.Since(begin), d)
			})
		}
		require.NoError(t, s.Loop())
		assert.Equal(t, 500, n)
	})
}

func TestS000_08_SuspendInNestedCall(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var nested func(c coroutine.Context, depth int)
		nested = func(c coroutine.Context, depth int) {
			local := 11 * depth
			if depth > 1 {
				nested(c, depth-1)
			} else {
				b.say("suspend")
				b.ok(coroutine.Sleep(c, time.Second))
				b.say("resumed")
			}
			b.say(strconv.Itoa(local))
		}
		b.Go(func(c coroutine.Context) { nested(c, 3) })
		b.Go(func(coroutine.Context) { b.say("other") })
		b.loop()
		assert.Equal(t, []string{"suspend", "other", "resumed", "11", "22", "33"}, b.log)
	})
}

func TestS000_09_TokenResumedByNextEvent(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var r *scheduler.Registration
		var notify func(...any)
		notify, r = b.source(func(c coroutine.Context, ev any) {
			next, err := r.Next(c)
			b.ok(err)
			b.say(fmt.Sprintf("%v+%v", ev, next))
		})
		notify(1, 2, 3, 4)
		assert.Equal(t, 4, b.untilFalse())
		assert.Equal(t, []string{"1+2", "3+4"}, b.log)
	})
}

func TestS000_10_LoopUntilStop(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		n := 0
		notify, _ := b.source(func(coroutine.Context, any) {
			if n++; n == 3 {
				b.Stop()
			}
		})
		notify(1, 2, 3, 4, 5)
		b.loop()
		assert.Equal(t, 3, n)
		assert.True(t, b.Step(0))
		assert.Equal(t, 4, n)
	})
}

func TestS000_11_RegisterFromHandler(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var at []time.Duration
		var handler scheduler.Handler
		handler = func(coroutine.Context, any) {
			if at = append(at, b.now()); len(at) < 3 {
				b.Register(scheduler.After(time.Second), handler)
			}
		}
		b.Register(scheduler.After(time.Second), handler)
		b.loop()
		assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, at)
	})
}
