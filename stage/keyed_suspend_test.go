package stage_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// sleeper is an account whose handler suspends.
type sleeper struct {
	account
	wait func(c coroutine.Context, i item) error
}

func (s *sleeper) HandleSuspending(c behaviour.Suspender, i item) behaviour.Outcome {
	handle := s.handle
	one := account{s.ledger, s.key, func(i item, try int) behaviour.Outcome {
		if err := s.wait(c, i); err != nil {
			return behaviour.Error(err)
		}
		if handle != nil {
			return handle(i, try)
		}
		return behaviour.OK(nil)
	}}
	return one.HandleCommand(c, i)
}

// anyWait suspends in one of several ways, or not at all.
func anyWait(c coroutine.Context, i item) error {
	switch (i.key*31 + i.n*7) % 6 {
	case 0:
		return coroutine.Yield(c)
	case 1:
		return coroutine.Sleep(c, time.Duration(i.n%5)*100*time.Microsecond)
	case 2:
		_, err := coroutine.Await(c, func(context.Context) (int, error) { return 0, nil })
		return err
	case 3:
		return c.Suspend(func(wake func()) { wake(); wake() })
	case 4:
		for range 3 {
			if err := coroutine.Yield(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *ledger) suspending(wait func(coroutine.Context, item) error, handle func(item, int) behaviour.Outcome, opts ...stage.Option) *stage.Stage[item] {
	return stage.Keyed("keyed", keyOf, func(k int) *sleeper { return &sleeper{account{l, k, handle}, wait} }, opts...)
}

func TestAKeyedStageKeepsTheOrderOfEachKeyWhileItsHandlersSuspend(t *testing.T) {
	crashing := func(i item, try int) behaviour.Outcome {
		if i.oneIn(7) && try < 2 {
			panic("crash")
		}
		return behaviour.OK(nil)
	}
	failing := func(i item, try int) behaviour.Outcome {
		if i.oneIn(5) && try < 3 {
			return behaviour.Error(errors.New("not yet"))
		}
		return behaviour.OK(nil)
	}
	retry := stage.Retry(stage.RetryPolicy{Attempts: 5})
	later := stage.Retry(stage.RetryPolicy{Attempts: 5, Backoff: 100 * time.Microsecond})
	for name, c := range map[string]struct {
		handle func(item, int) behaviour.Outcome
		opts   []stage.Option
	}{
		"as it is":                      {},
		"when handlers crash":           {handle: crashing, opts: []stage.Option{retry, stage.Workers(4, 4)}},
		"when retries wait":             {handle: crashing, opts: []stage.Option{later, stage.Workers(4, 4)}},
		"when handlers fail":            {handle: failing, opts: []stage.Option{retry, stage.Workers(4, 4)}},
		"when failures wait":            {handle: failing, opts: []stage.Option{later, stage.Workers(4, 4)}},
		"with a time limit":             {handle: failing, opts: []stage.Option{retry, stage.Timeout(time.Minute)}},
		"with a small queue":            {handle: failing, opts: []stage.Option{retry, stage.Capacity(3)}},
		"with batches of one":           {handle: crashing, opts: []stage.Option{retry, stage.Batch(1)}},
		"with lingering batches":        {opts: []stage.Option{stage.Linger(time.Millisecond)}},
		"with one worker":               {handle: crashing, opts: []stage.Option{retry, stage.Workers(1, 1)}},
		"with few handlers under way":   {handle: failing, opts: []stage.Option{retry, stage.Instances(2)}},
		"with one handler under way":    {handle: failing, opts: []stage.Option{retry, stage.Instances(1)}},
		"when few keys may be kept":     {handle: failing, opts: []stage.Option{retry, stage.Passivate(0, 5), stage.Workers(4, 4)}},
		"when idle keys are passivated": {handle: crashing, opts: []stage.Option{later, stage.Passivate(time.Millisecond, 0)}},
		"with a rate for each key":      {handle: failing, opts: []stage.Option{retry, stage.RateBy(keyOf, 2, time.Millisecond, 1)}},
	} {
		for _, shared := range []bool{false, true} {
			if shared {
				name += ", in a group"
			}
			t.Run(name, func(t *testing.T) {
				l := newLedger()
				s := l.suspending(anyWait, c.handle, c.opts...)
				parts := []pipeline.Part{s}
				if shared {
					parts = []pipeline.Part{pipeline.Group("g", 3, 3, s)}
				}
				p := run(t, parts...)
				feed(t, s, p, 20, 40)
				l.requireOrder(t, 20, 40)
				require.Zero(t, s.Snapshot().Queue.InHand)
			})
		}
	}
}

func TestAKeyedStageThatSuspendsKeepsTheOrderWhilePoliciesAreSwapped(t *testing.T) {
	l := newLedger()
	s := l.suspending(anyWait, func(i item, try int) behaviour.Outcome {
		switch {
		case i.oneIn(11) && try < 2:
			panic("crash")
		case i.oneIn(13) && try < 2:
			return behaviour.Error(errors.New("not yet"))
		default:
			return behaviour.OK(nil)
		}
	}, stage.Retry(stage.RetryPolicy{Attempts: 3}), stage.Workers(1, 8))
	before := stage.Map("before", func(_ context.Context, i item) (item, error) { return i, nil }, stage.Workers(1, 1))
	p := run(t, before.To(s))
	end := disturb(p, func() {})
	const keys, n = 50, 100
	for i := range n {
		for k := range keys {
			submitUnder(t, before.Stage, item{k, i})
		}
	}
	end()
	require.NoError(t, p.Drain(t.Context()))
	l.requireOrder(t, keys, n)
}

// onward is an instance that suspends, and then forwards its commands.
type onward struct {
	wait func(coroutine.Context, item) error
	to   *stage.Stage[item]
}

func (o *onward) HandleCommand(context.Context, item) behaviour.Outcome { panic("not called") }

func (o *onward) HandleSuspending(c behaviour.Suspender, i item) behaviour.Outcome {
	if err := o.wait(c, i); err != nil {
		return behaviour.Error(err)
	}
	return behaviour.Forward(o.to, i)
}

// The stage behind is often full, so that workers carry what came of the commands.
func TestTheResultsOfAKeyLeaveInOrderThoughHandlersSuspend(t *testing.T) {
	for name, opts := range map[string][]stage.Option{
		"own workers": {stage.Workers(3, 3)},
		"one worker":  {stage.Workers(1, 1)},
		"few slots":   {stage.Workers(4, 4), stage.Capacity(2)},
		"shared":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			after := stage.Keyed("after", keyOf, func(k int) *account { return &account{l, k, nil} }, stage.Workers(1, 1), stage.Capacity(3))
			s := stage.Keyed("keyed", keyOf, func(int) *onward { return &onward{anyWait, after} }, opts...)
			parts := []pipeline.Part{s, after}
			if name == "shared" {
				parts = []pipeline.Part{pipeline.Group("g", 2, 4, s), after}
			}
			p := run(t, parts...)
			feed(t, s, p, 10, 200)
			l.requireOrder(t, 10, 200)
		})
	}
}

func TestAKeyWhoseHandlerIsSuspendedHoldsUpNoOther(t *testing.T) {
	l := newLedger()
	hold := make(chan struct{})
	s := l.suspending(func(c coroutine.Context, i item) error {
		if i.key > 0 {
			return nil
		}
		_, err := coroutine.Await(c, func(context.Context) (int, error) { <-hold; return 0, nil })
		return err
	}, nil, stage.Workers(1, 1))
	p := run(t, s)
	for n := range 100 {
		require.NoError(t, s.Submit(t.Context(), item{0, n}))
	}
	for n := range 100 {
		_, err := stage.Call[any](t.Context(), s, item{1 + n%10, n / 10})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return s.Snapshot().Queue.Suspended == 1 }, 5*time.Second, time.Millisecond)
	require.Equal(t, 99, s.Snapshot().Queue.Queued)
	close(hold)
	require.NoError(t, p.Drain(t.Context()))
	require.Len(t, l.seen[0], 100)
	require.Zero(t, l.overlap.Load())
}

func TestInstancesBoundsTheHandlersOfAKeyedStageThatAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside, most atomic.Int64
		l := newLedger()
		s := l.suspending(func(c coroutine.Context, _ item) error {
			defer inside.Add(-1)
			now := inside.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); {
				old = most.Load()
			}
			return coroutine.Sleep(c, time.Second)
		}, nil, stage.Instances(5), stage.Workers(2, 2))
		p, err := pipeline.New("p", s, quiet)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		began := time.Now()
		for k := range 20 {
			require.NoError(t, s.Submit(t.Context(), item{k, 0}))
		}
		require.NoError(t, p.Drain(t.Context()))
		assert.Equal(t, int64(5), most.Load())
		assert.Equal(t, 4*time.Second, time.Since(began))
		require.NoError(t, p.Stop(t.Context()))
	})
}

// caller is an instance that calls a stage, perhaps its own.
type caller struct {
	to  **stage.Stage[item]
	key int
	how func(c coroutine.Context, s *stage.Stage[item]) error
}

func (r *caller) HandleCommand(context.Context, item) behaviour.Outcome { panic("not called") }

func (r *caller) HandleSuspending(c behaviour.Suspender, i item) behaviour.Outcome {
	if i.n > 0 {
		return behaviour.OK(i.n)
	}
	if err := r.how(c, *r.to); err != nil {
		return behaviour.Error(err)
	}
	return behaviour.OK(nil)
}

func TestAHandlerThatCallsItsOwnKeyIsRefused(t *testing.T) {
	calls := func(c context.Context, s *stage.Stage[item], k int) error {
		_, err := stage.Call[int](c, s, item{k, 1})
		return err
	}
	for name, c := range map[string]struct {
		how     func(coroutine.Context, *stage.Stage[item]) error
		refused bool
	}{
		"its own key": {func(c coroutine.Context, s *stage.Stage[item]) error { return calls(c, s, 7) }, true},
		"another key": {func(c coroutine.Context, s *stage.Stage[item]) error { return calls(c, s, 8) }, false},
		"its own key, with a derived context": {func(c coroutine.Context, s *stage.Stage[item]) error {
			ctx, cancel := context.WithTimeout(c, time.Hour)
			defer cancel()
			return calls(ctx, s, 7)
		}, true},
		"its own key, among several": {func(c coroutine.Context, s *stage.Stage[item]) error {
			_, err := coroutine.Gather(c,
				func(ctx context.Context) (int, error) { return 0, calls(ctx, s, 8) },
				func(ctx context.Context) (int, error) { return 0, calls(ctx, s, 7) })
			return err
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var s *stage.Stage[item]
			s = stage.Keyed("keyed", keyOf, func(k int) *caller { return &caller{&s, k, c.how} }, stage.Workers(2, 2))
			p := run(t, s)
			_, err := stage.Call[any](t.Context(), s, item{7, 0})
			require.Equal(t, c.refused, errors.Is(err, stage.ErrSelfCall), "%v", err)
			require.Equal(t, c.refused, err != nil, "%v", err)
			_, err = stage.Call[int](t.Context(), s, item{7, 1})
			require.NoError(t, err, "the key goes on")
			require.NoError(t, p.Drain(t.Context()))
		})
	}
}

// A handler that waits for its own key in another way waits until its time limit.
func TestAHandlerThatWaitsForItsOwnKeyEndsAtItsTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s, other *stage.Stage[item]
		s = stage.Keyed("keyed", keyOf, func(k int) *caller {
			return &caller{&other, k, func(c coroutine.Context, other *stage.Stage[item]) error {
				_, err := stage.Call[int](c, other, item{k, 1})
				return err
			}}
		}, stage.Timeout(time.Second))
		other = stage.Coroutine("other", func(c behaviour.Suspender, i item) behaviour.Outcome {
			n, err := stage.Call[int](c, s, i)
			if err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(n)
		})
		p, err := pipeline.New("p", s, other, quiet)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		_, err = stage.Call[any](t.Context(), s, item{7, 0})
		assert.ErrorIs(t, err, stage.ErrTimeout)
		n, err := stage.Call[int](t.Context(), s, item{7, 2})
		assert.NoError(t, err)
		assert.Equal(t, 2, n)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestASuspendedHandlerWhoseCallerGivesUpFreesItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		s := l.suspending(func(c coroutine.Context, i item) error {
			if i.n == 0 {
				return coroutine.Sleep(c, time.Hour)
			}
			return nil
		}, nil)
		p, err := pipeline.New("p", s, quiet)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = stage.Call[any](ctx, s, item{1, 0})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = stage.Call[any](t.Context(), s, item{1, 1})
		assert.NoError(t, err)
		assert.Equal(t, map[int][]int{1: {1}}, l.seen)
		require.NoError(t, p.Stop(t.Context()))
	})
}

// A handler that is stuck after it was suspended is given up: its key gets a fresh instance, and later commands go on in order.
func TestAHandlerThatIsStuckAfterASuspensionLosesItsKey(t *testing.T) {
	hold := make(chan struct{})
	var made atomic.Int64
	l := newLedger()
	s := stage.Keyed("keyed", keyOf, func(k int) *sleeper {
		made.Add(1)
		return &sleeper{account{l, k, func(i item, _ int) behaviour.Outcome {
			if i.n == 0 {
				<-hold
			}
			return behaviour.OK(nil)
		}}, func(c coroutine.Context, _ item) error { return coroutine.Yield(c) }}
	}, stage.Timeout(50*time.Millisecond), stage.Grace(time.Millisecond), stage.Workers(2, 2))
	p := run(t, s)
	for stuck := false; !stuck; { // on a busy machine the time limit may pass before the handler blocks
		_, err := stage.Call[any](t.Context(), s, item{1, 0})
		stuck = errors.Is(err, stage.ErrStuck)
		require.True(t, stuck || errors.Is(err, stage.ErrTimeout), "%v", err)
	}
	had := made.Load()
	for n := 1; n < 5; {
		if _, err := stage.Call[any](t.Context(), s, item{1, n}); err == nil {
			n++
		} else {
			require.ErrorIs(t, err, stage.ErrTimeout)
		}
	}
	require.Equal(t, had+1, made.Load())
	require.Equal(t, []int{1, 2, 3, 4}, l.seen[1])
	close(hold)
	require.NoError(t, p.Stop(t.Context()))
	require.Eventually(t, func() bool { return l.stopped.Load() == made.Load() }, 5*time.Second, time.Millisecond)
}

func TestAHardStopEndsTheSuspendedHandlersOfAKeyedStage(t *testing.T) {
	l := newLedger()
	s := l.suspending(func(c coroutine.Context, _ item) error { return coroutine.Sleep(c, time.Hour) }, nil)
	p, err := pipeline.New("p", s, quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	for n := range 3 {
		for k := range 5 {
			require.NoError(t, s.Submit(t.Context(), item{k, n}))
		}
	}
	require.Eventually(t, func() bool { return s.Snapshot().Queue.Suspended == 5 }, 5*time.Second, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Stop(ctx))
	require.Eventually(t, func() bool { return l.stopped.Load() == 5 }, 5*time.Second, time.Millisecond, "each instance is stopped")
	require.Equal(t, l.started.Load(), l.stopped.Load())
	snap := s.Snapshot()
	require.Zero(t, snap.Queue.InHand+snap.Queue.Queued)
	require.Empty(t, l.seen)
}

// A plain factory may not return an instance that suspends: the stage would call it without a coroutine.
func TestAnInstanceThatSuspendsMustBeDeclaredSo(t *testing.T) {
	s := stage.Keyed("keyed", keyOf, func(int) behaviour.Behaviour[item] {
		return behaviour.Coroutine[item](func(behaviour.Suspender, item) behaviour.Outcome { return behaviour.OK(nil) })
	})
	run(t, s)
	_, err := stage.Call[any](t.Context(), s, item{})
	require.True(t, stage.Crashed(err))
	require.ErrorContains(t, err, "is Suspending")
}

func TestAnInstanceMayBeAnySuspendingBehaviour(t *testing.T) {
	s := stage.Keyed("keyed", keyOf, func(k int) behaviour.Suspending[item] {
		return behaviour.Coroutine[item](func(c behaviour.Suspender, i item) behaviour.Outcome {
			if err := coroutine.Yield(c); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(k + i.n)
		})
	})
	run(t, s)
	n, err := stage.Call[int](t.Context(), s, item{3, 4})
	require.NoError(t, err)
	require.Equal(t, 7, n)
}

// sleepyHeir is an heir whose handler suspends, before it changes anything and while it does.
type sleepyHeir struct{ heir }

func (h *sleepyHeir) HandleSuspending(c behaviour.Suspender, i item) behaviour.Outcome {
	if err := anyWait(c, i); err != nil {
		return behaviour.Error(err)
	}
	o := h.HandleCommand(c, i)
	if err := coroutine.Yield(c); err != nil {
		return behaviour.Error(err)
	}
	return o
}

func TestTheStatesOfKeysSurviveCrashesOfHandlersThatSuspend(t *testing.T) {
	for name, opts := range map[string][]stage.Option{
		"a middleware crashes": {stage.Workers(2, 2), stage.Middleware(crashBehind)},
		"own workers":          {stage.Workers(4, 4)},
		"one worker":           {stage.Workers(1, 1)},
		"passivated":           {stage.Workers(2, 2), stage.Passivate(time.Millisecond, 3), stage.KeepStates(100)},
		"while retried":        {stage.Workers(3, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			const keys, n = 10, 100
			e := newEstate()
			retry := stage.RetryPolicy{Attempts: 4}
			if name == "while retried" {
				retry.Backoff = 100 * time.Microsecond
			}
			s := stage.Keyed("keyed", keyOf, func(k int) *sleepyHeir { return &sleepyHeir{heir{of: e, key: k}} },
				append(opts, stage.Retry(retry))...)
			p := run(t, s)
			end := disturb(p, func() {})
			for i := range n {
				for k := range keys {
					require.NoError(t, s.Submit(t.Context(), item{k, i}))
				}
			}
			end()
			require.NoError(t, p.Drain(t.Context()))
			e.require(t, keys, n, keys)
			e.inOrder(t)
		})
	}
}

// payments sums up what a customer pays. Its handler waits for the bank without holding a worker.
type payments struct{ sum int }

func (p *payments) HandleCommand(context.Context, item) behaviour.Outcome {
	return behaviour.Error(behaviour.ErrCannotSuspend)
}

func (p *payments) HandleSuspending(c behaviour.Suspender, i item) behaviour.Outcome {
	paid, err := coroutine.Await(c, func(context.Context) (int, error) { return i.n, nil }) // asks the bank
	if err != nil {
		return behaviour.Error(err)
	}
	p.sum += paid
	return behaviour.OK(p.sum)
}

// The payments of one customer are handled one after the other, those of different customers at the same time, by one worker.
func ExampleKeyed_suspending() {
	pay := stage.Keyed("pay", func(i item) int { return i.key }, func(int) *payments { return new(payments) }, stage.Workers(1, 1))
	defer must(pay)()

	for _, i := range []item{{1, 5}, {2, 20}, {1, 7}} {
		fmt.Println(stage.Call[int](context.Background(), pay, i))
	}
	// Output:
	// 5 <nil>
	// 20 <nil>
	// 12 <nil>
}
