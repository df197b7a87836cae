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

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

type function = func(ctx context.Context) (int, error)

// after returns a function that returns a value and an error after a time, or its context's error if that ends first.
func after(d time.Duration, value int, err error) function {
	return func(ctx context.Context) (int, error) {
		select {
		case <-time.After(d):
			return value, err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

var errDown, errFull = errors.New("down"), errors.New("full")

func TestGatherReturnsAllResultsInTheOrderOfTheFunctions(t *testing.T) {
	everywhere(t, func(t *testing.T, c coroutine.Context) {
		begin := time.Now()
		got, err := coroutine.Gather(c, after(3*time.Second, 1, nil), after(time.Second, 2, nil), after(2*time.Second, 3, nil))
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2, 3}, got)
		assert.Equal(t, 3*time.Second, time.Since(begin), "the functions run at the same time")
	})
}

func TestGatherReturnsTheResultsOfThoseThatSucceedAndTheErrorsOfTheOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, c coroutine.Context) {
		got, err := coroutine.Gather(c, after(1, 0, errDown), after(2, 2, nil), after(0, 0, errFull), boom,
			func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }, nil)
		assert.Equal(t, []int{0, 2, 0, 0, 0, 0}, got)
		var all *coroutine.GatherError
		require.ErrorAs(t, err, &all)
		require.Len(t, all.Errs, 6)
		assert.Equal(t, errDown, all.Errs[0])
		require.NoError(t, all.Errs[1])
		assert.Equal(t, errFull, all.Errs[2])
		var crash *coroutine.PanicError
		require.ErrorAs(t, all.Errs[3], &crash)
		assert.Equal(t, "boom", crash.Value)
		require.ErrorIs(t, all.Errs[4], coroutine.ErrGoexit)
		require.ErrorAs(t, all.Errs[5], &crash, "a nil function")
		require.ErrorIs(t, err, errFull)
		assert.ErrorContains(t, err, "5 of 6 functions failed; 0: down; 2: full; 3: ")
	})
}

func TestFirstReturnsTheFirstSuccessAndCancelsTheOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, c coroutine.Context) {
		begin := time.Now()
		loser := make(chan error, 1)
		got, err := coroutine.First(c, after(time.Second, 0, errDown), after(2*time.Second, 2, nil),
			func(ctx context.Context) (int, error) { <-ctx.Done(); loser <- ctx.Err(); return 3, nil })
		require.NoError(t, err)
		assert.Equal(t, 2, got)
		assert.Equal(t, 2*time.Second, time.Since(begin))
		assert.Equal(t, context.Canceled, <-loser)
	})
}

func TestFirstFailsWhenAllFail(t *testing.T) {
	everywhere(t, func(t *testing.T, c coroutine.Context) {
		got, err := coroutine.First(c, after(time.Second, 1, errDown), after(2*time.Second, 2, errFull))
		assert.Zero(t, got)
		var all *coroutine.GatherError
		require.ErrorAs(t, err, &all)
		assert.Equal(t, []error{errDown, errFull}, all.Errs)
	})
}

func TestRaceReturnsWhatTheFirstFunctionReturns(t *testing.T) {
	everywhere(t, func(t *testing.T, c coroutine.Context) {
		begin := time.Now()
		got, err := coroutine.Race(c, after(2*time.Second, 1, nil), after(time.Second, 2, errDown))
		assert.Equal(t, 2, got)
		assert.Equal(t, errDown, err)
		assert.Equal(t, time.Second, time.Since(begin))
	})
}

func TestNoFunctionsAreAnErrorExceptForGather(t *testing.T) {
	everywhere(t, func(t *testing.T, c coroutine.Context) {
		got, err := coroutine.Gather[int](c)
		require.NoError(t, err)
		assert.Empty(t, got)
		var none *coroutine.GatherError
		_, err = coroutine.First[int](c)
		require.ErrorAs(t, err, &none)
		require.ErrorContains(t, err, "no function")
		_, err = coroutine.Race[int](c)
		require.ErrorAs(t, err, &none)
	})
}

func TestADeadlineEndsAGatherAndItsFunctions(t *testing.T) {
	for name, gather := range map[string]func(c coroutine.Context, fs ...function) (int, error){
		"Gather": func(c coroutine.Context, fs ...function) (int, error) {
			got, err := coroutine.Gather(c, fs...)
			return len(got), err
		},
		"First": coroutine.First[int],
		"Race":  coroutine.Race[int],
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, c coroutine.Context) {
				ctx, cancel := context.WithTimeout(c, time.Second)
				defer cancel()
				begin, ended := time.Now(), make(chan error, 1)
				got, err := gather(coroutine.WithContext(ctx, c), func(ctx context.Context) (int, error) {
					<-ctx.Done()
					time.Sleep(time.Minute) // nothing waits for it
					ended <- ctx.Err()
					return 1, nil
				})
				assert.Zero(t, got)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, time.Second, time.Since(begin))
				assert.Equal(t, context.DeadlineExceeded, <-ended)
			})
		})
	}
}

func TestAStoppedHandlerStartsNoFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler.New(scheduler.Config{})
		var started, ended atomic.Int32
		s.Go(func(c coroutine.Context) {
			waits := func(ctx context.Context) (int, error) {
				started.Add(1)
				<-ctx.Done()
				ended.Add(1)
				return 1, nil
			}
			got, err := coroutine.Gather(c, waits, waits)
			assert.Nil(t, got)
			require.ErrorIs(t, err, coroutine.ErrStopped)
			_, err = coroutine.First(c, waits)
			require.ErrorIs(t, err, coroutine.ErrStopped)
			_, err = coroutine.Race(c, waits)
			assert.ErrorIs(t, err, coroutine.ErrStopped)
		})
		assert.True(t, s.Step(0))
		synctest.Wait()
		s.Close()
		synctest.Wait()
		assert.EqualValues(t, 2, started.Load())
		assert.EqualValues(t, 2, ended.Load())
	})
}

// Many functions end at once: each result is in its place, and one wins.
func TestResultsThatArriveAtOnceAreAllTaken(t *testing.T) {
	const n = 100
	fs := make([]function, n)
	for i := range fs {
		fs[i] = func(context.Context) (int, error) { return i, nil }
	}
	c := coroutine.Blocking(t.Context())
	for range 20 {
		got, err := coroutine.Gather(c, fs...)
		require.NoError(t, err)
		for i := range n {
			require.Equal(t, i, got[i])
		}
		one, err := coroutine.First(c, fs...)
		require.NoError(t, err)
		require.True(t, one >= 0 && one < n)
	}
}
