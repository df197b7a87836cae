package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

func TestAUnitGivenToAStoppedTaskIsNotLost(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		sem := scheduler.NewSemaphore(0)
		var err error
		b.Go(func(c coroutine.Context) { err = sem.Acquire(c) })
		b.untilFalse()
		sem.Release() // from now on the task owns the unit
		b.Close()
		require.ErrorIs(t, err, coroutine.ErrStopped)
		assert.NoError(t, sem.Acquire(coroutine.Blocking(b.t.Context())), "it was given back")
	})
}

func TestATaskThatIsStoppedWhileItWaitsGetsNoUnit(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		sem := scheduler.NewSemaphore(0)
		b.Go(func(c coroutine.Context) {
			require.ErrorIs(t, sem.Acquire(c), coroutine.ErrStopped)
			assert.ErrorIs(t, sem.Acquire(c), coroutine.ErrStopped, "it does not wait again")
		})
		b.untilFalse()
		b.Close()
		sem.Release()
		assert.NoError(t, sem.Acquire(coroutine.Blocking(b.t.Context())))
	})
}

func TestASignalGivenToAStoppedTaskWakesTheNext(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var cond scheduler.Cond
		b.Go(func(c coroutine.Context) { assert.ErrorIs(t, cond.Wait(c), coroutine.ErrStopped) })
		b.untilFalse()
		woken := make(chan error)
		go func() { woken <- cond.Wait(coroutine.Blocking(b.t.Context())) }()
		synctest.Wait()
		cond.Signal()
		b.Close()
		assert.NoError(t, <-woken)
	})
}

func TestAFunctionThatIsAwaitedMayRelease(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		sem := scheduler.NewSemaphore(0)
		b.tasks(func(c coroutine.Context) {
			b.ok(sem.Acquire(c))
			b.say("got")
		}, func(c coroutine.Context) {
			_, err := coroutine.Await(c, func(context.Context) (int, error) {
				time.Sleep(time.Second)
				sem.Release()
				return 0, nil
			})
			b.ok(err)
			b.say("awaited")
		})
		b.loop()
		assert.Equal(t, "got awaited", b.said())
	})
}

func TestATaskThatAwaitsAfterBeingBlockedIsNotADeadlock(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		sem := scheduler.NewSemaphore(0)
		b.tasks(func(c coroutine.Context) {
			b.ok(sem.Acquire(c))
			_, err := coroutine.Await(c, func(context.Context) (int, error) { time.Sleep(time.Second); return 0, nil })
			b.ok(err)
		}, func(coroutine.Context) { sem.Release() })
		b.loop()
		assert.Equal(t, time.Second, b.now())
	})
}

func TestCodeOutsideAHandlerCanWait(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		sem := scheduler.NewSemaphore(0)
		got := make(chan error)
		go func() { got <- sem.Acquire(coroutine.Blocking(b.t.Context())) }()
		synctest.Wait()
		b.Go(func(coroutine.Context) { sem.Release() })
		b.loop()
		assert.NoError(t, <-got)
	})
}

func TestASecondReleaseOfABinarySemaphoreDoesNotAdmitASecondTask(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		sem := scheduler.NewBinarySemaphore(0)
		sem.Release()
		sem.Release() // it is free already
		inside, most := 0, 0
		for range 3 {
			b.Go(func(c coroutine.Context) {
				b.ok(sem.Acquire(c))
				inside++
				most = max(most, inside)
				b.ok(coroutine.Yield(c))
				inside--
				sem.Release()
			})
		}
		b.loop()
		sem.Release()
		assert.Equal(t, 1, most)
	})
}

func TestACountingSemaphoreCountsEachRelease(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3} {
		inBubble(t, scheduler.Config{}, func(b *bubble) {
			sem := scheduler.NewSemaphore(n)
			sem.Release()
			sem.Release()
			got := 0
			b.Go(func(c coroutine.Context) {
				for sem.Acquire(c) == nil {
					got++
				}
			})
			b.untilFalse()
			assert.Equal(t, n+2, got)
		})
	}
}

func TestStopBeforeLoopTakesEffect(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		b.Stop()
		b.Go(func(coroutine.Context) { b.say("ran") })
		b.loop()
		assert.Empty(t, b.log)
		b.loop()
		assert.Equal(t, "ran", b.said())
	})
}

func TestStopWakesALoopThatWaits(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		_, _ = b.source(nothing)
		go func() { time.Sleep(time.Second); b.Stop() }()
		b.loop()
		assert.Equal(t, time.Second, b.now())
	})
}

func TestATaskMayBeStartedFromAnywhere(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		_, r := b.source(nothing)
		go func() {
			time.Sleep(time.Second)
			b.Go(func(coroutine.Context) { b.say("ran"); r.Close() })
		}()
		b.loop()
		assert.Equal(t, "ran", b.said())
		assert.Equal(t, time.Second, b.now())
	})
}

func TestTheSnapshotShowsTheState(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		notify, _ := b.source(nothing)
		b.Go(func(c coroutine.Context) { _ = scheduler.NewSemaphore(0).Acquire(c) })
		b.Go(func(c coroutine.Context) { _ = coroutine.Sleep(c, time.Hour) })
		b.untilFalse()
		notify(1, 2, 3)
		b.Step(0)
		assert.Equal(t, scheduler.Snapshot{
			Waits: 3, Ready: 2, Sources: 1, Tasks: 2, Blocked: 1, Coroutines: 3, Idle: 1,
		}, b.Snapshot())
	})
}
