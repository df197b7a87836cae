package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

func TestJoinWaitsForATaskAndReturnsHowItEnded(t *testing.T) {
	ends := map[string]struct {
		end  func()
		want error
	}{
		"returns":      {func() {}, nil},
		"panics":       {func() { panic("boom") }, &coroutine.PanicError{}},
		"calls Goexit": {runtime.Goexit, coroutine.ErrGoexit},
	}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			inBubble(t, scheduler.Config{}, func(b *bubble) {
				task := b.Go(func(c2 coroutine.Context) {
					b.ok(coroutine.Sleep(c2, time.Second))
					c.end()
				})
				check := func(err error) {
					if p := (&coroutine.PanicError{}); errors.As(c.want, &p) {
						assert.ErrorAs(t, err, &p)
						return
					}
					assert.ErrorIs(t, err, c.want)
				}
				for i := range 3 {
					b.Go(func(c coroutine.Context) {
						check(task.Join(c))
						b.say(fmt.Sprint(i, "@", b.now()))
						check(task.Join(c)) // at once
					})
				}
				b.untilFalse()
				done := task.Done()
				assert.NotPanics(t, func() {
					select {
					case <-done:
						t.Error("has not ended")
					default:
					}
				})
				require.NoError(t, task.Err())
				b.loop()
				<-done
				<-task.Done()
				check(task.Err())
				check(task.Join(coroutine.Blocking(b.t.Context())))
				assert.Equal(t, "0@1s 1@1s 2@1s", b.said())
				b.takeFaults()
			})
		})
	}
}

func TestTasksThatJoinOneAnotherAreADeadlock(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var x, y *scheduler.Task
		x = b.Go(func(c coroutine.Context) { _ = y.Join(c) })
		y = b.Go(func(c coroutine.Context) { _ = x.Join(c) })
		require.ErrorIs(t, b.Loop(), scheduler.ErrDeadlock)
		b.Close()
		require.NoError(t, x.Err(), "it was stopped, and returned")
	})
}

func TestATaskThatJoinsItselfGetsAnError(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var self *scheduler.Task
		self = b.Go(func(c coroutine.Context) {
			assert.EqualError(t, self.Join(c), "scheduler: Join: a task waits for its own end")
		})
		b.loop()
	})
}

func TestATaskThatNeverStartedEndsWithItsScheduler(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		task := b.Go(func(coroutine.Context) { t.Error("ran") })
		joined := make(chan error, 1)
		go func() { joined <- task.Join(coroutine.Blocking(b.t.Context())) }()
		synctest.Wait()
		b.Close()
		require.ErrorIs(t, <-joined, scheduler.ErrClosed)
		require.ErrorIs(t, task.Err(), scheduler.ErrClosed)
		late := b.Go(func(coroutine.Context) { t.Error("ran") })
		<-late.Done()
		require.ErrorIs(t, late.Err(), scheduler.ErrClosed)
		b.takeFaults()
	})
}

func TestATaskOfAnotherSchedulerMayBeJoined(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		other := scheduler.New(scheduler.Config{})
		defer other.Close()
		task := other.Go(func(c coroutine.Context) { _ = coroutine.Sleep(c, time.Second) })
		go func() { _ = other.Loop() }()
		b.Go(func(c coroutine.Context) {
			b.ok(task.Join(c))
			b.say(b.now().String())
		})
		b.loop() // no deadlock: the other scheduler continues
		assert.Equal(t, "1s", b.said())
		synctest.Wait()
	})
}

func TestTryAcquireTakesAUnitOnlyIfThereIsOne(t *testing.T) {
	sem := scheduler.NewSemaphore(2)
	assert.True(t, sem.TryAcquire())
	assert.True(t, sem.TryAcquire())
	assert.False(t, sem.TryAcquire())
	sem.Release()
	assert.True(t, sem.TryAcquire())
}

// waits are all kinds of waits, by name.
func waits(b *bubble) map[string]func(c coroutine.Context) error {
	sem, cond := scheduler.NewSemaphore(0), &scheduler.Cond{}
	_, r := b.source(nothing)
	task := b.Go(func(c coroutine.Context) { _ = coroutine.Sleep(c, time.Hour) })
	return map[string]func(c coroutine.Context) error{
		"Acquire": sem.Acquire,
		"Wait":    cond.Wait,
		"Next":    func(c coroutine.Context) error { _, err := r.Next(c); return err },
		"Join":    task.Join,
		"Sleep":   func(c coroutine.Context) error { return coroutine.Sleep(c, time.Hour) },
		"Suspend": func(c coroutine.Context) error { return c.Suspend(func(func()) {}) },
		"Await": func(c coroutine.Context) error {
			_, err := coroutine.Await(c, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				time.Sleep(time.Millisecond) // the wait does not wait for it
				return 0, nil
			})
			return err
		},
	}
}

func TestEveryWaitEndsWithTheContextItIsBoundTo(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		gone := errors.New("gone")
		left := 0
		for name, wait := range waits(b) {
			left++
			b.Go(func(c coroutine.Context) {
				defer func() {
					if left--; left == 0 {
						b.Stop()
					}
				}()
				begin := time.Now()
				ctx, cancel := context.WithTimeout(c, time.Second)
				defer cancel()
				err := wait(coroutine.WithContext(ctx, c))
				require.ErrorIs(t, err, context.DeadlineExceeded, name)
				require.NotErrorIs(t, err, coroutine.ErrStopped, name)
				require.Equal(t, time.Second, time.Since(begin), name)
				require.ErrorIs(t, wait(coroutine.WithContext(ctx, c)), context.DeadlineExceeded, name)

				// A cause, through another bound context.
				caused, cancelCause := context.WithCancelCause(context.Background())
				time.AfterFunc(time.Second, func() { cancelCause(gone) })
				inner := coroutine.WithContext(caused, c)
				outer, cancelOuter := context.WithTimeout(c, time.Minute)
				defer cancelOuter()
				err = wait(coroutine.WithContext(outer, inner))
				require.ErrorIs(t, err, gone, name)
				require.ErrorIs(t, err, context.Canceled, name)
				require.Equal(t, 2*time.Second, time.Since(begin), name)
				require.NoError(t, coroutine.Yield(c), "%s: the handler continues", name)
			})
		}
		b.loop()
		time.Sleep(time.Second) // the awaited function returns
		assert.Zero(t, left)
	})
}

func TestABoundWaitEndsWhenItsHandlerIsStopped(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		ended := 0
		for name, wait := range waits(b) {
			b.Go(func(c coroutine.Context) {
				foreign, cancel := context.WithCancel(b.t.Context())
				defer cancel()
				require.ErrorIs(t, wait(coroutine.WithContext(foreign, c)), coroutine.ErrStopped, name)
				ended++
				for {
					_ = wait(coroutine.WithContext(foreign, c)) // ignores it
				}
			})
		}
		b.untilFalse()
		b.Close()
		time.Sleep(time.Second) // the awaited function returns
		assert.Equal(t, 7, ended)
		faults := b.takeFaults()
		require.Len(t, faults, 7)
		for _, f := range faults {
			assert.ErrorIs(t, f, coroutine.ErrIgnoredStop)
		}
	})
}

func TestAWaitThatEndedWithItsContextTakesNothing(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		sem, cond := scheduler.NewSemaphore(0), &scheduler.Cond{}
		notify, r := b.source(func(_ coroutine.Context, ev any) { b.say(fmt.Sprint("new ", ev)) })
		given := 0
		b.Go(func(c coroutine.Context) {
			ctx, cancel := context.WithTimeout(c, time.Second)
			defer cancel()
			short := coroutine.WithContext(ctx, c)
			require.Error(t, sem.Acquire(short))
			require.Error(t, cond.Wait(short))
			_, err := r.Next(short)
			require.Error(t, err)
		})
		b.Go(func(c coroutine.Context) {
			b.ok(cond.Wait(c))
			given++
		})
		b.Go(func(c coroutine.Context) { b.ok(coroutine.Sleep(c, 2*time.Second)) })
		for b.now() < 2*time.Second {
			b.Step(time.Second)
		}
		sem.Release()
		cond.Signal()
		notify(1)
		b.untilFalse()
		assert.True(t, sem.TryAcquire())
		assert.Equal(t, 1, given)
		assert.Equal(t, "new 1", b.said())
	})
}

func TestABoundHandlerGetsTheNextEventInTheSameStep(t *testing.T) {
	inBubble(t, scheduler.Config{Backlog: 1}, func(b *bubble) {
		var r *scheduler.Registration
		var notify func(...any)
		notify, r = b.source(func(c coroutine.Context, ev any) {
			for {
				b.say(fmt.Sprint(ev))
				ctx, cancel := context.WithTimeout(c, time.Second)
				var err error
				ev, err = r.Next(coroutine.WithContext(ctx, c))
				cancel()
				if err != nil {
					b.say("late")
					return
				}
			}
		})
		for i := range 3 {
			notify(i)
			assert.True(t, b.Step(0))
			assert.Len(t, b.log, i+1)
		}
		b.Step(2 * time.Second)
		notify(3)
		b.Step(0)
		assert.Equal(t, "0 1 2 late 3", b.said())
	})
}
