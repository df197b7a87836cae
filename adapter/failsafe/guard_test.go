package failsafe_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	failsafego "github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/fallback"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/failsafe"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("down")

// start starts a pipeline, and stops it at the end of the test.
func start(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("test", append(parts, pipeline.Logger(slog.New(slog.DiscardHandler)))...)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background()))
	t.Cleanup(func() {
		assert.NoError(t, p.Stop(context.Background()))
		assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
	})
	return p
}

type key struct{}

func TestAGuardKeepsResultErrorTypeAndContext(t *testing.T) {
	g := failsafe.Wrap(func(ctx context.Context, n int) (string, error) {
		if n < 0 {
			return "", errDown
		}
		return ctx.Value(key{}).(string), nil
	}, circuitbreaker.NewWithDefaults[string](), retrypolicy.NewBuilder[string]().WithMaxRetries(0).ReturnLastFailure().Build())
	s := stage.Map("s", g.Call)
	start(t, s)
	got, err := s.Call(context.WithValue(t.Context(), key{}, "value"), 1)
	require.NoError(t, err)
	assert.Equal(t, "value", got)
	_, err = s.Call(t.Context(), -1)
	require.ErrorIs(t, err, errDown)
	assert.Equal(t, failsafe.Counts{Calls: 2, Tries: 2, Refused: map[reason.Reason]uint64{}}, g.Counts())
}

func TestAGuardWithoutPoliciesCallsTheFunction(t *testing.T) {
	got, err := failsafe.Wrap(func(_ context.Context, n int) (int, error) { return n + 1, nil }).Call(t.Context(), 1)
	require.NoError(t, err)
	assert.Equal(t, 2, got)
}

func TestAnOpenBreakerRefusesUntilItsDelayHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		breaker := circuitbreaker.NewBuilder[any]().WithFailureThreshold(3).WithDelay(10 * time.Second).Build()
		g := failsafe.WrapSink(func(context.Context, int) error {
			if down {
				return errDown
			}
			return nil
		}, breaker)
		for range 3 {
			require.ErrorIs(t, g.Do(t.Context(), 1), errDown)
		}
		time.Sleep(4 * time.Second)
		err := g.Do(t.Context(), 1)
		require.ErrorIs(t, err, circuitbreaker.ErrOpen)
		require.NotErrorIs(t, err, bulkhead.ErrFull)
		o, ok := stage.Overloaded(err)
		require.True(t, ok)
		assert.Equal(t, stage.Overload{Reason: failsafe.BreakerOpen, RetryAfter: 6 * time.Second}, o)
		assert.Equal(t, failsafe.Counts{
			Calls: 4, Tries: 3, Refused: map[reason.Reason]uint64{failsafe.BreakerOpen: 1},
		}, g.Counts())
		time.Sleep(o.RetryAfter)
		down = false
		require.NoError(t, g.Do(t.Context(), 1))
		assert.True(t, breaker.IsClosed())
	})
}

func TestACommandThatABreakerRefusesIsTriedAgainByItsStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		g := failsafe.WrapSink(func(context.Context, int) error {
			if calls.Add(1) <= 2 {
				return errDown
			}
			return nil
		}, circuitbreaker.NewBuilder[any]().WithFailureThreshold(2).WithDelay(time.Minute).Build())
		s := stage.Sink("s", g.Do, stage.Workers(1, 1), stage.Retry(stage.RetryPolicy{
			Attempts: 100, Backoff: time.Second, Max: 10 * time.Second,
		}))
		p, err := pipeline.New("p", s, pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		begin := time.Now()
		_, err = s.Call(t.Context(), 1)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(begin), time.Minute)
		assert.Equal(t, int64(3), calls.Load(), "the open breaker let a call through")
		assert.Positive(t, g.Counts().Refused[failsafe.BreakerOpen])
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestEachPolicyRefusesWithAReasonOfItsOwn(t *testing.T) {
	full := bulkhead.New[any](1)
	require.True(t, full.TryAcquirePermit())
	used := ratelimiter.NewSmooth[any](1, time.Hour)
	require.True(t, used.TryAcquirePermit())
	open := circuitbreaker.NewWithDefaults[any]()
	open.Open()
	limiter := adaptivelimiter.NewBuilder[any]().WithLimits(1, 1, 1).Build()
	_, taken := limiter.TryAcquirePermit()
	require.True(t, taken)
	policies := map[reason.Reason]failsafego.Policy[any]{
		reason.Full:           limiter,
		failsafe.BulkheadFull: full, failsafe.RateLimited: used, failsafe.BreakerOpen: open,
		failsafe.TimedOut: timeout.New[any](time.Millisecond),
		failsafe.BudgetSpent: retrypolicy.NewBuilder[any]().WithMaxRetries(9).
			WithBudget(budget.NewBuilder().WithMaxRate(-1).WithMinConcurrency(0).Build()).Build(),
	}
	targets := map[reason.Reason]error{
		reason.Full:           adaptivelimiter.ErrExceeded,
		failsafe.BulkheadFull: bulkhead.ErrFull, failsafe.RateLimited: ratelimiter.ErrExceeded,
		failsafe.BreakerOpen: circuitbreaker.ErrOpen, failsafe.TimedOut: timeout.ErrExceeded, failsafe.BudgetSpent: budget.ErrExceeded,
	}
	for why, policy := range policies {
		g := failsafe.WrapSink(func(ctx context.Context, _ int) error {
			if why == failsafe.TimedOut {
				<-ctx.Done()
			}
			return errDown
		}, policy)
		err := g.Do(t.Context(), 1)
		for other, target := range targets {
			assert.Equal(t, other == why, errors.Is(err, target), "%s is %v", why, target)
		}
		assert.Equal(t, why == failsafe.TimedOut, errors.Is(err, context.DeadlineExceeded))
		o, ok := stage.Overloaded(err)
		assert.Equal(t, why != failsafe.TimedOut, ok, why)
		if ok {
			assert.Equal(t, why, o.Reason)
			assert.Positive(t, o.RetryAfter)
		}
		assert.Equal(t, map[reason.Reason]uint64{why: 1}, g.Counts().Refused)
		assert.Equal(t, targets[why].Error(), err.Error())
	}
}

func TestARefusalOfAGuardInsideOfAnotherKeepsItsReasonAndHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := circuitbreaker.NewBuilder[int]().WithDelay(time.Minute).Build()
		open.Open()
		inner := failsafe.Wrap(func(_ context.Context, n int) (int, error) { return n, nil }, open)
		outer := failsafe.Wrap(inner.Call, bulkhead.New[int](1))
		_, err := outer.Call(t.Context(), 1)
		o, ok := stage.Overloaded(err)
		require.True(t, ok)
		assert.Equal(t, stage.Overload{Reason: failsafe.BreakerOpen, RetryAfter: time.Minute}, o)
		assert.Equal(t, outer.Counts().Refused, inner.Counts().Refused)
	})
}

func TestABulkheadNeverLetsMoreThroughThanItHasPlaces(t *testing.T) {
	var now, most atomic.Int64
	g := failsafe.Wrap(func(_ context.Context, n int) (int, error) {
		for at := now.Add(1); ; {
			if seen := most.Load(); at <= seen || most.CompareAndSwap(seen, at) {
				break
			}
		}
		runtime.Gosched()
		now.Add(-1)
		if n%5 == 0 {
			panic("five")
		}
		return n, nil
	}, bulkhead.New[int](3))
	s := stage.Map("s", g.Call, stage.Workers(16, 16), stage.Blocking())
	start(t, s)
	var ok, crashed, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			n, err := s.Call(t.Context(), i)
			switch {
			case err == nil && n == i:
				ok.Add(1)
			case stage.Crashed(err):
				crashed.Add(1)
			case errors.Is(err, bulkhead.ErrFull):
				refused.Add(1)
			}
		})
	}
	all.Wait()
	assert.Equal(t, int64(1000), ok.Load()+crashed.Load()+refused.Load())
	assert.LessOrEqual(t, most.Load(), int64(3))
	counts := g.Counts()
	assert.Equal(t, uint64(refused.Load()), counts.Refused[failsafe.BulkheadFull])
	assert.Equal(t, uint64(crashed.Load()), counts.Panics)
	for range 3 { // all places are free again
		assert.NoError(t, s.Submit(t.Context(), 1))
	}
}

func TestACrashIsOneCrashWithItsValueAndStack(t *testing.T) {
	for name, policies := range map[string][]failsafego.Policy[int]{
		"no policy": nil,
		"retry":     {retrypolicy.NewBuilder[int]().WithMaxRetries(5).Build()},
		"hedge":     {hedgepolicy.NewWithDelay[int](time.Hour)},
		"fallback":  {fallback.NewWithResult(7)},
		"all": {
			retrypolicy.NewBuilder[int]().WithMaxRetries(5).Build(), hedgepolicy.NewWithDelay[int](time.Hour),
			timeout.New[int](time.Hour), bulkhead.New[int](1), circuitbreaker.NewWithDefaults[int](),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := failsafe.Wrap(func(context.Context, int) (int, error) { panic(errDown) }, policies...)
			s := stage.Map("s", g.Call)
			start(t, s)
			_, err := s.Call(t.Context(), 1)
			require.True(t, stage.Crashed(err), "%v", err)
			require.ErrorIs(t, err, errDown)
			crash, ok := errors.AsType[*failsafe.PanicError](err)
			require.True(t, ok)
			assert.Contains(t, string(crash.Stack), "guard_test.go")
			assert.Contains(t, crash.At, "guard_test.go")
			assert.Equal(t, failsafe.Counts{Tries: 1, Panics: 1, Refused: map[reason.Reason]uint64{}}, g.Counts())
		})
	}
}

func TestAFunctionThatEndsItsGoroutineIsACrashThatHoldsNoPermit(t *testing.T) {
	for name, hedge := range map[string][]failsafego.Policy[int]{"alone": nil, "hedged": {hedgepolicy.NewWithDelay[int](time.Hour)}} {
		t.Run(name, func(t *testing.T) {
			full := bulkhead.New[int](1)
			breaker := circuitbreaker.NewBuilder[int]().WithFailureThreshold(1).WithDelay(0).Build()
			g := failsafe.Wrap(func(_ context.Context, n int) (int, error) {
				if n == 0 {
					runtime.Goexit()
				}
				return n, nil
			}, append(hedge, full, breaker)...)
			s := stage.Map("s", g.Call, stage.Workers(1, 1))
			start(t, s)
			for range 3 {
				_, err := s.Call(t.Context(), 0)
				require.True(t, stage.Crashed(err), "%v", err)
				assert.False(t, breaker.IsClosed())
				n, err := s.Call(t.Context(), 1)
				require.NoError(t, err)
				assert.Equal(t, 1, n)
			}
		})
	}
}

func TestAHedgeThatIsFasterWinsAndTheOtherTryIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		lost := make(chan error, 1)
		g := failsafe.Wrap(func(ctx context.Context, n int) (int, error) {
			if tries.Add(1) == 1 {
				<-ctx.Done()
				lost <- ctx.Err()
				panic("after it had lost")
			}
			return n, nil
		}, hedgepolicy.NewWithDelay[int](time.Second))
		begin := time.Now()
		n, err := g.Call(t.Context(), 7)
		require.NoError(t, err)
		assert.Equal(t, 7, n)
		assert.Equal(t, time.Second, time.Since(begin))
		require.ErrorIs(t, <-lost, context.Canceled)
		synctest.Wait()
		assert.Equal(t, failsafe.Counts{Calls: 1, Tries: 2, Panics: 1, Refused: map[reason.Reason]uint64{}}, g.Counts())
	})
}

func TestTheEndOfTheCallersContextEndsTheTries(t *testing.T) {
	for name, policy := range map[string]failsafego.Policy[int]{
		"a hedge":           hedgepolicy.NewWithDelay[int](time.Millisecond),
		"a retry":           retrypolicy.NewBuilder[int]().WithMaxRetries(-1).WithDelay(time.Hour).Build(),
		"a time limit":      timeout.New[int](time.Hour),
		"a bulkhead's wait": fullBulkhead(),
	} {
		t.Run(name, func(t *testing.T) {
			g := failsafe.Wrap(func(ctx context.Context, _ int) (int, error) {
				if name == "a retry" {
					return 0, errDown
				}
				<-ctx.Done()
				return 0, ctx.Err()
			}, policy)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			_, err := g.Call(ctx, 1)
			require.ErrorIs(t, err, context.Canceled)
			_, overloaded := stage.Overloaded(err)
			assert.False(t, overloaded)
		})
	}
}

func fullBulkhead() failsafego.Policy[int] {
	b := bulkhead.NewBuilder[int](1).WithMaxWaitTime(time.Hour).Build()
	b.TryAcquirePermit()
	return b
}

func TestARetryBudgetLimitsTheRetriesOfAllCalls(t *testing.T) {
	shared := budget.NewBuilder().WithMaxRate(0.1).WithMinConcurrency(1).Build()
	g := failsafe.Wrap(func(context.Context, int) (int, error) {
		time.Sleep(time.Millisecond)
		return 0, errDown
	}, retrypolicy.NewBuilder[int]().WithMaxRetries(10).WithBudget(shared).Build())
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_, err := g.Call(t.Context(), 1)
			assert.Error(t, err)
		})
	}
	all.Wait()
	counts := g.Counts()
	assert.Positive(t, counts.Refused[failsafe.BudgetSpent])
	assert.Less(t, counts.Tries, uint64(1100), "all retries were made")
	assert.Zero(t, shared.Rate())
}

func TestAPanicDuringARetrySpendsNoBudget(t *testing.T) {
	shared := budget.NewBuilder().WithMinConcurrency(1).Build()
	g := failsafe.Wrap(func(context.Context, int) (int, error) { panic("x") },
		retrypolicy.NewBuilder[int]().WithBudget(shared).Build())
	for range 10 {
		assert.Panics(t, func() { _, _ = g.Call(t.Context(), 1) })
	}
	assert.Zero(t, shared.Rate())
	first := true
	g = failsafe.Wrap(func(context.Context, int) (int, error) {
		if first = !first; !first {
			return 0, errDown
		}
		panic("x")
	}, retrypolicy.NewBuilder[int]().WithBudget(shared).Build())
	for range 10 {
		assert.Panics(t, func() { _, _ = g.Call(t.Context(), 1) })
	}
	assert.Zero(t, shared.Rate())
}

func TestWhatIsNilIsNamed(t *testing.T) {
	f := func(context.Context, int) (int, error) { return 0, nil }
	assert.PanicsWithValue(t, "failsafe: Wrap: the function is nil", func() { failsafe.Wrap[int, int](nil) })
	assert.PanicsWithValue(t, "failsafe: WrapSink: the function is nil", func() { failsafe.WrapSink[int](nil) })
	assert.PanicsWithValue(t, "failsafe: Wrap: policy 2 of 2 is nil", func() { failsafe.Wrap(f, bulkhead.New[int](1), nil) })
}

// The service is down for three seconds. The breaker opens and asks for two.
func TestNoOrderDiesOfAnOutageBehindABreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const orders = 500
		back := time.Now().Add(4 * time.Second)
		outage := back.Add(-3 * time.Second)
		breaker := circuitbreaker.NewBuilder[any]().WithFailureThreshold(3).WithDelay(2 * time.Second).Build()
		g := failsafe.WrapSink(func(context.Context, int) error {
			if now := time.Now(); now.After(outage) && now.Before(back) {
				return errDown
			}
			return nil
		}, breaker)
		pay := stage.Sink("pay", g.Do, stage.Workers(4, 4), stage.Retry(stage.RetryPolicy{Attempts: 5, Backoff: 5 * time.Millisecond}))
		p, err := pipeline.New("orders", pay, pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for n := range orders {
			require.NoError(t, pay.Submit(t.Context(), n))
			time.Sleep(10 * time.Millisecond)
		}
		require.NoError(t, p.Stop(t.Context()))
		require.EqualValues(t, orders, p.Snapshot().Replied)
		require.NotZero(t, g.Counts().Refused[failsafe.BreakerOpen])
		require.Zero(t, p.Snapshot().Failed+p.Snapshot().DeadLettered)
		require.WithinDuration(t, back.Add(2*time.Second), time.Now(), time.Second, "no command waits longer than it is asked to")
	})
}
