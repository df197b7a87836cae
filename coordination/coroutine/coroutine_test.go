package coroutine_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// everywhere runs a test as a handler and as code that is not a handler, in virtual time.
func everywhere(t *testing.T, test func(t *testing.T, c coroutine.Context)) {
	t.Helper()
	t.Run("handler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := scheduler.New(scheduler.Config{Error: func(err error) { t.Error(err) }})
			s.Go(func(c coroutine.Context) { test(t, c) })
			require.NoError(t, s.Loop())
			s.Close()
		})
	})
	t.Run("blocking", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, coroutine.Blocking(t.Context())) })
	})
}

func TestAwaitReturnsWhatTheFunctionReturns(t *testing.T) {
	everywhere(t, func(t *testing.T, c coroutine.Context) {
		begin, broken := time.Now(), errors.New("broken")
		got, err := coroutine.Await(c, func(ctx context.Context) (int, error) {
			require.NoError(t, ctx.Err())
			time.Sleep(time.Second)
			return 42, broken
		})
		assert.Equal(t, 42, got)
		assert.Equal(t, broken, err)
		assert.Equal(t, time.Second, time.Since(begin))
	})
}

func TestTheContextOfAnAwaitedFunctionEndsWithIt(t *testing.T) {
	everywhere(t, func(t *testing.T, c coroutine.Context) {
		ctx, err := coroutine.Await(c, func(ctx context.Context) (context.Context, error) { return ctx, nil })
		require.NoError(t, err)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.NoError(t, c.Err())
		_, suspends := ctx.(coroutine.Context)
		assert.False(t, suspends, "a derived context cannot suspend")
	})
}

func TestAwaitReturnsACrashOfItsFunctionAsAnError(t *testing.T) {
	everywhere(t, func(t *testing.T, c coroutine.Context) {
		_, err := coroutine.Await(c, boom)
		var p *coroutine.PanicError
		require.ErrorAs(t, err, &p)
		assert.Equal(t, "boom", p.Value)
		assert.Contains(t, string(p.Stack), "coroutine_test.boom")
		_, err = coroutine.Await(c, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
		assert.ErrorIs(t, err, coroutine.ErrGoexit)
	})
}

func boom(context.Context) (int, error) { panic("boom") }

func TestSleepIsExactInVirtualTime(t *testing.T) {
	everywhere(t, func(t *testing.T, c coroutine.Context) {
		begin := time.Now()
		assert.NoError(t, coroutine.Sleep(c, time.Second))
		assert.NoError(t, coroutine.Sleep(c, 0))
		assert.NoError(t, coroutine.Sleep(c, -time.Second))
		assert.NoError(t, coroutine.Yield(c))
		assert.Equal(t, time.Second, time.Since(begin))
	})
}

func TestAnyGoroutineMayWakeMoreThanOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, c coroutine.Context) {
		begin := time.Now()
		late := make(chan func(), 1)
		assert.NoError(t, c.Suspend(func(wake func()) {
			late <- wake
			go func() { time.Sleep(time.Second); wake(); wake() }()
		}))
		assert.NoError(t, c.Suspend(func(wake func()) {
			(<-late)()
			go func() { time.Sleep(time.Second); wake() }()
		}))
		assert.Equal(t, 2*time.Second, time.Since(begin))
	})
}

func TestAStoppedHandlerDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler.New(scheduler.Config{})
		var ended atomic.Bool
		var unwound bool
		s.Go(func(c coroutine.Context) {
			defer func() { unwound = true }()
			got, err := coroutine.Await(c, func(ctx context.Context) (int, error) {
				<-ctx.Done() // its context ends
				time.Sleep(time.Minute)
				ended.Store(true)
				return 42, nil
			})
			assert.Zero(t, got)
			require.ErrorIs(t, err, coroutine.ErrStopped)
			require.ErrorIs(t, coroutine.Sleep(c, time.Hour), coroutine.ErrStopped)
			require.ErrorIs(t, coroutine.Yield(c), coroutine.ErrStopped)
			require.ErrorIs(t, c.Err(), context.Canceled)
			assert.ErrorIs(t, context.Cause(c), coroutine.ErrStopped)
		})
		begin := time.Now()
		assert.True(t, s.Step(0))
		synctest.Wait()
		s.Close()
		assert.True(t, unwound)
		assert.False(t, ended.Load())
		assert.Zero(t, time.Since(begin))
		time.Sleep(time.Hour)
		assert.True(t, ended.Load())
	})
}

func TestBlockingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := coroutine.Blocking(ctx)
		begin := time.Now()
		err := coroutine.Sleep(c, time.Hour)
		require.ErrorIs(t, err, coroutine.ErrStopped)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(begin))
		assert.ErrorIs(t, c.Suspend(func(func()) { t.Error("started") }), coroutine.ErrStopped)
	})
}
