package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

// These tests show what happens to handlers and sources that do what they must not do.

func nothing(coroutine.Context, any) {}

func TestAHandlerThatStepsLoopsOrClosesPanics(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		calls := map[string]func(){
			"Step":  func() { b.Step(0) },
			"Loop":  func() { _ = b.Loop() },
			"Close": func() { b.Close() },
		}
		for method, call := range calls {
			b.Go(func(coroutine.Context) { call() })
			b.loop()
			faults := b.takeFaults()
			require.Len(t, faults, 1)
			assert.ErrorContains(t, faults[0], "scheduler: "+method+" called by a handler")
		}
	})
}

func TestAHandlerThatBlocksHoldsUpAllAndIsNamed(t *testing.T) {
	inBubble(t, scheduler.Config{Patience: time.Second}, func(b *bubble) {
		var at []time.Duration
		b.Register(scheduler.Every(time.Second), func(coroutine.Context, any) {
			if at = append(at, b.now()); len(at) == 3 {
				b.Stop()
			}
		})
		b.Go(blocks)
		b.Go(func(c coroutine.Context) { _ = coroutine.Sleep(c, time.Hour) }) // suspended, so it does not hold up others
		b.loop()
		assert.Equal(t, []time.Duration{2500 * time.Millisecond, 3 * time.Second, 4 * time.Second}, at)
		faults := b.takeFaults()
		require.Len(t, faults, 1)
		assert.ErrorContains(t, faults[0], "scheduler_test.blocks has run for 1s without suspending")
	})
}

func blocks(coroutine.Context) { time.Sleep(2500 * time.Millisecond) }

func TestAGoroutineOfAHandlerCannotSuspendInItsPlace(t *testing.T) {
	inBubble(t, scheduler.Config{Check: true}, func(b *bubble) {
		b.Go(func(c coroutine.Context) {
			foreign := make(chan error)
			go func() { foreign <- coroutine.Sleep(c, time.Second) }()
			assert.ErrorIs(t, <-foreign, coroutine.ErrNotRunning, "while the handler runs: only with Config.Check")
		})
		b.loop()
		assert.Zero(t, b.now())
	})
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		b.Go(func(c coroutine.Context) {
			var err error
			_, _ = coroutine.Await(c, func(context.Context) (int, error) {
				err = coroutine.Yield(c)
				return 0, nil
			})
			assert.ErrorIs(t, err, coroutine.ErrNotRunning, "while the handler is suspended: always")
		})
		b.loop()
	})
}

func TestAContextCannotSuspendAfterItsHandlerReturned(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var kept coroutine.Context
		b.Go(func(c coroutine.Context) { kept = c })
		b.loop()
		require.ErrorIs(t, coroutine.Sleep(kept, time.Second), coroutine.ErrNotRunning)
		require.ErrorIs(t, kept.Err(), context.Canceled)
		b.Go(func(coroutine.Context) { // on the same coroutine
			_, err := coroutine.Await(kept, func(context.Context) (int, error) { return 0, nil })
			require.ErrorIs(t, err, coroutine.ErrNotRunning)
			assert.ErrorIs(t, scheduler.NewSemaphore(0).Acquire(kept), coroutine.ErrNotRunning)
		})
		b.loop()
		assert.Equal(t, 1, b.Snapshot().Coroutines)
	})
}

func TestASourceThatFailsEndsAlone(t *testing.T) {
	broken := errors.New("broken")
	sources := map[string]struct {
		end  func() error
		want error
		text string
	}{
		"returns an error": {func() error { return broken }, broken, "broken"},
		"panics":           {func() error { panic(broken) }, broken, "panic: broken"},
		"calls Goexit":     {func() error { runtime.Goexit(); return nil }, coroutine.ErrGoexit, "Goexit"},
		"returns":          {func() error { return nil }, nil, ""},
		"reaches its end":  {func() error { return io.EOF }, nil, ""},
	}
	for name, c := range sources {
		t.Run(name, func(t *testing.T) {
			inBubble(t, scheduler.Config{}, func(b *bubble) {
				r := b.Register(scheduler.SourceFunc(func(_ context.Context, notify func(any)) error {
					notify("first")
					time.Sleep(time.Second)
					notify("last")
					return c.end()
				}), func(_ coroutine.Context, ev any) { b.say(ev.(string)) })
				b.Register(scheduler.After(2*time.Second), func(coroutine.Context, any) { b.say("other") })
				b.Go(func(task coroutine.Context) {
					b.ok(coroutine.Sleep(task, 500*time.Millisecond))
					ev, err := r.Next(task)
					b.ok(err)
					b.say("next " + ev.(string))
					_, err = r.Next(task)
					require.ErrorIs(t, err, scheduler.ErrEnded)
					_, err = r.Next(task)
					assert.ErrorIs(t, err, scheduler.ErrEnded)
				})
				b.loop()
				assert.Equal(t, "first next last other", b.said())
				faults := b.takeFaults()
				if c.want == nil {
					assert.Empty(t, faults)
					return
				}
				require.Len(t, faults, 1)
				require.ErrorIs(t, faults[0], c.want)
				require.ErrorContains(t, faults[0], "TestASourceThatFailsEndsAlone")
				assert.ErrorContains(t, faults[0], c.text)
			})
		})
	}
}

// pollFunc is a function that is a Poller.
type pollFunc func(limit time.Duration) (any, bool, error)

func (f pollFunc) Poll(limit time.Duration) (event any, ok bool, err error) { return f(limit) }

func TestAPollerThatFailsEndsAlone(t *testing.T) {
	broken := errors.New("broken")
	pollers := map[string]struct {
		end  func() (any, bool, error)
		want error
		last string
	}{
		"returns an error":               {func() (any, bool, error) { return nil, false, broken }, broken, "1 2"},
		"returns an event, and an error": {func() (any, bool, error) { return "3", true, broken }, broken, "1 2 3"},
		"panics":                         {func() (any, bool, error) { panic(broken) }, broken, "1 2"},
		"reaches its end":                {func() (any, bool, error) { return nil, false, io.EOF }, nil, "1 2"},
	}
	for name, c := range pollers {
		t.Run(name, func(t *testing.T) {
			inBubble(t, scheduler.Config{}, func(b *bubble) {
				events := []string{"1", "2"}
				b.Register(pollFunc(func(limit time.Duration) (any, bool, error) {
					time.Sleep(limit)
					if len(events) == 0 {
						return c.end()
					}
					ev := events[0]
					events = events[1:]
					return ev, true, nil
				}), func(_ coroutine.Context, ev any) { b.say(ev.(string)) })
				b.loop()
				assert.Equal(t, c.last, b.said())
				faults := b.takeFaults()
				if c.want != nil {
					require.Len(t, faults, 1)
					require.ErrorIs(t, faults[0], c.want)
					faults = nil
				}
				assert.Empty(t, faults)
				assert.Zero(t, b.Snapshot().Sources)
			})
		})
	}
}

func TestAPollerThatReturnsEarlyDoesNotSpin(t *testing.T) {
	inBubble(t, scheduler.Config{PollBudget: 10 * time.Millisecond}, func(b *bubble) {
		polls := 0
		b.Register(pollFunc(func(time.Duration) (any, bool, error) { polls++; return nil, false, nil }), nothing)
		assert.False(t, b.Step(time.Second))
		assert.Equal(t, time.Second, b.now())
		assert.LessOrEqual(t, polls, 102)
	})
}

func TestInvalidRegistrationsPanic(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		assert.PanicsWithValue(t, "scheduler: Register: string is neither a Source nor a Poller",
			func() { b.Register("a source", nothing) })
		assert.PanicsWithValue(t, "scheduler: Register without a handler",
			func() { b.Register(scheduler.After(0), nil) })
		assert.PanicsWithValue(t, "scheduler: Go without a task", func() { b.Go(nil) })
		assert.PanicsWithValue(t, "scheduler: Every(0s): not positive", func() { scheduler.Every(0) })
		assert.PanicsWithValue(t, "scheduler: Accept without a listener", func() { scheduler.Accept(nil) })
		assert.PanicsWithValue(t, "scheduler: NewBinarySemaphore(2): neither 0 nor 1", func() { scheduler.NewBinarySemaphore(2) })
		assert.PanicsWithValue(t, "scheduler: NewSemaphore(-1): negative", func() { scheduler.NewSemaphore(-1) })
		assert.Panics(t, func() { scheduler.New(scheduler.Config{Backlog: -1}) })
		assert.Zero(t, b.Snapshot().Sources)
	})
}

func TestAClosedSchedulerRefuses(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		b.Go(func(coroutine.Context) { t.Error("ran") }) // never starts
		b.Close()
		b.Close()
		b.Go(func(coroutine.Context) { t.Error("ran") })
		r := b.Register(scheduler.After(0), func(coroutine.Context, any) { t.Error("ran") })
		r.Close()
		faults := b.takeFaults()
		require.Len(t, faults, 2)
		require.EqualError(t, faults[0], "scheduler: Go: scheduler: closed")
		require.EqualError(t, faults[1], "scheduler: Register: scheduler: closed")
		assert.False(t, b.Step(time.Hour))
		require.ErrorIs(t, b.Loop(), scheduler.ErrClosed)
		assert.Zero(t, b.now())
	})
}

func TestNextIsForHandlersOfItsOwnScheduler(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		_, r := b.source(nothing)
		_, err := r.Next(coroutine.Blocking(b.t.Context()))
		require.ErrorContains(t, err, "not that of a handler or task of this scheduler")
		other := scheduler.New(scheduler.Config{})
		defer other.Close()
		other.Go(func(c coroutine.Context) {
			_, err := r.Next(c)
			assert.ErrorContains(t, err, "not that of a handler or task of this scheduler")
		})
		b.ok(other.Loop())
	})
}

func TestAHandlerThatCrashesLeavesTheOthersAlone(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		answers := 0
		for range 100 {
			b.Go(func(c coroutine.Context) {
				b.ok(coroutine.Sleep(c, time.Second))
				answers++
			})
		}
		notify, r := b.source(func(_ coroutine.Context, ev any) { ev.(func())() })
		notify(func() { panic("boom") }, runtime.Goexit, func() { answers++ })
		b.untilFalse()
		r.Close()
		b.loop()
		assert.Equal(t, 101, answers)
		faults := b.takeFaults()
		require.Len(t, faults, 2)
		require.ErrorContains(t, faults[0], "scheduler: handler github.com/golda-dev/golda/coordination/scheduler_test.TestAHandlerThatCrashes")
		require.ErrorContains(t, faults[0], "panic: boom")
		assert.ErrorIs(t, faults[1], coroutine.ErrGoexit)
	})
}

// bad is a source whose Drop and String panic.
type bad struct{ scheduler.SourceFunc }

func (bad) Drop(event any) { panic(fmt.Sprint("dropped ", event)) }
func (bad) String() string { panic("no name") }

func TestADropOrANameThatPanicsIsReportedAndTheRestContinues(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		r := b.Register(bad{func(ctx context.Context, notify func(any)) error {
			notify(1)
			notify(2)
			<-ctx.Done()
			time.Sleep(time.Second)
			notify(3) // dropped on the source's goroutine
			return io.ErrUnexpectedEOF
		}}, func(coroutine.Context, any) { t.Error("handled") })
		synctest.Wait()
		r.Close()
		b.Go(func(coroutine.Context) { b.say("other") })
		assert.NotPanics(t, func() { b.untilFalse() })
		assert.Equal(t, "other", b.said())
		time.Sleep(2 * time.Second)
		faults := b.takeFaults()
		require.Len(t, faults, 3)
		for i, n := range []int{1, 2, 3} {
			var p *coroutine.PanicError
			require.ErrorAs(t, faults[i], &p)
			require.Equal(t, fmt.Sprint("dropped ", n), p.Value)
			assert.ErrorContains(t, faults[i], "scheduler_test.bad: Drop: coroutine: panic: dropped")
		}
	})
}

func TestAListenerThatIsATypedNilIsAnErrorOfItsSource(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		b.Register(scheduler.Accept((*net.TCPListener)(nil)), nothing)
		b.loop()
		faults := b.takeFaults()
		require.Len(t, faults, 1)
		assert.ErrorIs(t, faults[0], syscall.EINVAL)
	})
}

func TestAHandlerMayHoldItsThreadWithConfigThreads(t *testing.T) {
	inBubble(t, scheduler.Config{Threads: true}, func(b *bubble) {
		n := 0
		for range 3 {
			b.Go(func(c coroutine.Context) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				b.ok(coroutine.Sleep(c, time.Second))
				n++
			})
		}
		b.loop()
		assert.Equal(t, 3, n)
	})
}

func TestErrorsAreLoggedWithoutAnErrorFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		s := scheduler.New(scheduler.Config{Logger: log.logger})
		s.Go(goesBoom)
		require.NoError(t, s.Loop())
		s.Close()
		assert.Contains(t, log.String(), "goesBoom: coroutine: panic: boom")
	})
}
