package scheduler_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

// The statements of Moura's appendix A on cooperative tasks, figure by figure, with the errata of docs/coordination.md.

func (b *bubble) said() string { return strings.Join(b.log, " ") }

func TestS001_01_RoundRobinNoPreemption(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		for _, name := range []string{"A", "B", "C"} {
			b.Go(func(c coroutine.Context) {
				for range 3 {
					b.say(name)
					b.ok(coroutine.Yield(c))
				}
			})
		}
		b.loop()
		assert.Equal(t, "A B C A B C A B C", b.said())
	})
}

func TestS001_02_PoolReuse(t *testing.T) {
	inBubble(t, scheduler.Config{MaxPool: 2}, func(b *bubble) {
		for range 5 {
			b.Go(func(coroutine.Context) {})
			b.loop()
		}
		created := []int{b.Snapshot().Coroutines}
		for range 2 {
			for range 3 {
				b.Go(func(c coroutine.Context) { b.ok(coroutine.Yield(c)) })
			}
			b.loop()
			created = append(created, b.Snapshot().Coroutines)
		}
		assert.Equal(t, []int{1, 3, 4}, created)
		assert.Equal(t, 2, b.Snapshot().Idle)
	})
}

func TestS001_03_PooledCoroutineAfterPanic(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		n := 0
		b.tasks(goesBoom, func(coroutine.Context) { runtime.Goexit() }, func(coroutine.Context) { n++ })
		b.loop()
		assert.Equal(t, 1, n)
		faults := b.takeFaults()
		require.Len(t, faults, 2)
		var p *coroutine.PanicError
		require.ErrorAs(t, faults[0], &p)
		assert.Equal(t, "boom", p.Value)
		assert.Contains(t, string(p.Stack), "scheduler_test.goesBoom")
		assert.ErrorIs(t, faults[1], coroutine.ErrGoexit)
	}) // a leaked goroutine would fail the bubble
}

func goesBoom(coroutine.Context) { panic("boom") }

func TestS001_04_BlocksOnlyWhenAllWaitForIO(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		await := func(name string, d time.Duration) func(coroutine.Context) {
			return func(c coroutine.Context) {
				_, err := coroutine.Await(c, func(context.Context) (int, error) { time.Sleep(d); return 0, nil })
				b.ok(err)
				b.say(name + "@" + b.now().String())
			}
		}
		b.tasks(await("slow", 100*time.Millisecond), await("fast", 50*time.Millisecond), func(c coroutine.Context) {
			for range 3 {
				b.ok(coroutine.Yield(c))
			}
			b.say("cpu@" + b.now().String())
		})
		b.loop()
		assert.Equal(t, "cpu@0s fast@50ms slow@100ms", b.said())
	})
}

func TestS001_05_BinarySemaphore(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		sem := scheduler.NewSemaphore(1)
		inside, most, entered := 0, 0, 0
		task := func(c coroutine.Context) {
			b.ok(sem.Acquire(c))
			entered++
			inside++
			most = max(most, inside)
			b.ok(coroutine.Yield(c))
			inside--
			sem.Release()
		}
		b.tasks(task, task)
		b.loop()
		assert.Equal(t, 1, most, "figure A.3 as printed lets 2 in")
		assert.Equal(t, 2, entered)
	})
}

func TestS001_06_BlockedTaskLeavesTheLiveList(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		sem := scheduler.NewSemaphore(0)
		b.tasks(func(c coroutine.Context) {
			b.say("P")
			b.ok(sem.Acquire(c))
			b.say("got")
		}, func(c coroutine.Context) {
			for range 5 {
				b.say("t")
				b.ok(coroutine.Yield(c))
			}
			b.say("V")
			sem.Release()
			b.ok(coroutine.Yield(c))
			b.say("end")
		})
		b.loop()
		assert.Equal(t, "P t t t t t V got end", b.said())
	})
}

func TestS001_07_SemaphoreFirstComeFirstServed(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		sem := scheduler.NewSemaphore(1)
		task := func(name string, turns int) func(coroutine.Context) {
			return func(c coroutine.Context) {
				for range turns {
					b.ok(sem.Acquire(c))
					b.say(name)
					b.ok(coroutine.Yield(c))
					sem.Release()
				}
			}
		}
		b.tasks(task("A", 3), task("B", 1))
		b.loop()
		assert.Equal(t, "A B A A", b.said(), "the figure has A A A B")
	})
}

func TestS001_08_CountingSemaphore(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		sem := scheduler.NewSemaphore(2)
		inside, most := 0, 0
		for range 5 {
			b.Go(func(c coroutine.Context) {
				b.ok(sem.Acquire(c))
				inside++
				most = max(most, inside)
				b.ok(coroutine.Sleep(c, time.Second))
				inside--
				sem.Release()
			})
		}
		b.loop()
		assert.Equal(t, 2, most)
		assert.Equal(t, 3*time.Second, b.now())
	})
}

func TestS001_09_Condition(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var cond scheduler.Cond
		b.Go(func(coroutine.Context) { cond.Signal() }) // no task waits: the signal is lost
		for _, name := range []string{"1", "2", "3", "4"} {
			b.Go(func(c coroutine.Context) {
				b.ok(cond.Wait(c))
				b.say(name)
			})
		}
		b.Go(func(c coroutine.Context) {
			b.say("s")
			cond.Signal()
			b.ok(coroutine.Yield(c))
			b.say("a")
			cond.SignalAll()
		})
		b.loop()
		assert.Equal(t, "s 1 a 2 3 4", b.said())
	})
}

func TestS001_10_EndAndDeadlock(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		b.Go(func(coroutine.Context) {})
		b.loop()
		assert.Zero(t, b.now(), "the figure waits for an empty set")

		var err error
		deferred := false
		b.Go(func(c coroutine.Context) {
			defer func() { deferred = true }()
			err = scheduler.NewSemaphore(0).Acquire(c)
		})
		require.ErrorIs(t, b.Loop(), scheduler.ErrDeadlock)
		assert.Zero(t, b.now())
		assert.False(t, deferred)
		b.Close()
		require.ErrorIs(t, err, coroutine.ErrStopped)
		assert.True(t, deferred)
	})
}
