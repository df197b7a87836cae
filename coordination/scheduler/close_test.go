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

// yieldsForEver is a task that ignores that it is stopped, like the other tasks below.
func yieldsForEver(c coroutine.Context) {
	for {
		_ = coroutine.Yield(c)
	}
}

func TestCloseEndsATaskThatIgnoresItsStopAndNamesIt(t *testing.T) {
	sem, cond := scheduler.NewSemaphore(0), &scheduler.Cond{}
	tasks := map[string]func(b *bubble) func(c coroutine.Context){
		"yields": func(*bubble) func(coroutine.Context) { return yieldsForEver },
		"sleeps": func(*bubble) func(coroutine.Context) {
			return func(c coroutine.Context) {
				for {
					_ = coroutine.Sleep(c, time.Second)
				}
			}
		},
		"awaits": func(*bubble) func(coroutine.Context) {
			return func(c coroutine.Context) {
				for {
					_, _ = coroutine.Await(c, func(context.Context) (int, error) { return 0, nil })
				}
			}
		},
		"suspends": func(*bubble) func(coroutine.Context) {
			return func(c coroutine.Context) {
				for {
					_ = c.Suspend(func(func()) {})
				}
			}
		},
		"acquires": func(*bubble) func(coroutine.Context) {
			return func(c coroutine.Context) {
				for {
					_ = sem.Acquire(c)
				}
			}
		},
		"waits for a signal": func(*bubble) func(coroutine.Context) {
			return func(c coroutine.Context) {
				for {
					_ = cond.Wait(c)
				}
			}
		},
		"asks for the next event": func(b *bubble) func(coroutine.Context) {
			_, r := b.source(nothing)
			return func(c coroutine.Context) {
				for {
					_, _ = r.Next(c)
				}
			}
		},
		"in a deferred call": func(*bubble) func(coroutine.Context) {
			return func(c coroutine.Context) {
				defer yieldsForEver(c)
				_ = coroutine.Yield(c)
			}
		},
		"recovers": func(*bubble) func(coroutine.Context) {
			return func(c coroutine.Context) {
				for {
					func() {
						defer func() { _ = recover() }()
						_ = coroutine.Yield(c)
					}()
				}
			}
		},
	}
	for name, make := range tasks {
		t.Run(name, func(t *testing.T) {
			inBubble(t, scheduler.Config{}, func(b *bubble) {
				unwound := 0
				ignores := make(b)
				for range 2 { // the second task shows that Close continues after the first
					b.Go(func(c coroutine.Context) {
						defer func() { unwound++ }()
						ignores(c)
					})
				}
				for range 4 {
					b.Step(0)
				}
				b.Close()
				assert.Equal(t, 2, unwound, "deferred calls run")
				faults := b.takeFaults()
				require.Len(t, faults, 2)
				require.ErrorIs(t, faults[0], coroutine.ErrIgnoredStop)
				require.ErrorContains(t, faults[0], "scheduler: task github.com/golda-dev/golda/coordination/scheduler_test.TestCloseEndsATask")
				assert.Zero(t, b.now())
			})
		})
	}
}

func TestATaskMayIgnoreItsStopForAWhile(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		done := false
		b.Go(func(c coroutine.Context) {
			for range 10_000 {
				_ = coroutine.Yield(c)
			}
			done = true
		})
		b.Step(0)
		b.Close()
		assert.True(t, done)
	})
}

func TestCloseNamesATaskThatDoesNotReturnAndEndsItWhenItSuspends(t *testing.T) {
	inBubble(t, scheduler.Config{Grace: time.Second}, func(b *bubble) {
		b.Go(lingers)
		b.Go(func(c coroutine.Context) { _ = coroutine.Sleep(c, time.Hour) })
		b.untilFalse()
		b.Close()
		assert.Equal(t, 1200*time.Millisecond, b.now(), "the third turn is the first after the grace")
		faults := b.takeFaults()
		require.Len(t, faults, 2)
		require.ErrorContains(t, faults[0], "scheduler_test.lingers has not returned within 1s of being stopped")
		require.ErrorContains(t, faults[1], "scheduler_test.lingers")
		assert.ErrorIs(t, faults[1], coroutine.ErrIgnoredStop)
	})
}

// lingers works for a long time between its suspensions.
func lingers(c coroutine.Context) {
	for {
		if coroutine.Sleep(c, time.Hour) != nil {
			time.Sleep(400 * time.Millisecond)
		}
	}
}

func TestCloseEndsAYieldingTaskOnEitherEngine(t *testing.T) {
	for _, threads := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var faults []error
			s := scheduler.New(scheduler.Config{Threads: threads, Error: func(err error) { faults = append(faults, err) }})
			s.Go(yieldsForEver)
			s.Step(0)
			s.Close()
			require.Len(t, faults, 1)
			require.ErrorIs(t, faults[0], coroutine.ErrIgnoredStop)
			assert.ErrorContains(t, faults[0], "scheduler_test.yieldsForEver")
		})
	}
}
