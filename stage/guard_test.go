package stage_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/stage/stats"
)

// put and get are the methods of a buffer.
type (
	put struct{ n int }
	get struct{}
)

type count = func(method string) guard.Counters

// buffer is a stage with room for some numbers, whose handlers need no lock: its guards let them in one at a time.
func buffer(size int, opts ...stage.Option) *stage.Stage[any] {
	var q []int
	return stage.Func("buffer", func(_ context.Context, cmd any) behaviour.Outcome {
		if c, ok := cmd.(put); ok {
			q = append(q, c.n)
			return behaviour.OK(nil)
		}
		n := q[0]
		q = q[1:]
		return behaviour.OK(n)
	}, append([]stage.Option{
		stage.Guard("put", func(n count) bool {
			return n("put").Completed-n("get").Completed < size && n("put").Current+n("get").Current == 0
		}),
		stage.Guard("get", func(n count) bool {
			return n("get").Completed < n("put").Completed && n("put").Current+n("get").Current == 0
		}),
	}, opts...)...)
}

// method returns the accounts of one method.
func method(s stage.Snapshot, name string) stats.Method {
	i := slices.IndexFunc(s.Methods, func(m stats.Method) bool { return m.Method == name })
	if i < 0 {
		return stats.Method{}
	}
	return s.Methods[i]
}

// launch is run for a stage whose commands may be held for good if a test fails: then they end with a hard stop.
func launch(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("test", append(parts, quiet)...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(t, p.Stop(ctx))
	})
	return p
}

func TestAGuardHoldsBackWhatTheBufferHasNoRoomFor(t *testing.T) {
	b := buffer(1)
	p := launch(t, b)
	call := func(cmd any) any {
		v, err := stage.Call[any](t.Context(), b, cmd)
		require.NoError(t, err)
		return v
	}
	call(put{1})
	second, err := b.Ask(t.Context(), put{2})
	require.NoError(t, err)
	s := b.Snapshot()
	require.Equal(t, 1, s.Queue.Held)
	require.Equal(t, guard.Counters{Invocations: 2, Accepted: 1, Completed: 1, Pending: 1}, method(s, "put").Counters)
	require.True(t, method(s, "put").Held)
	require.True(t, p.Snapshot().Balanced())
	require.EqualValues(t, 1, p.Snapshot().InFlight)
	require.Equal(t, 1, call(get{}))
	_, err = second.Wait(t.Context())
	require.NoError(t, err, "the get has let it in")
	require.Equal(t, 2, call(get{}))
	third, err := b.Ask(t.Context(), get{})
	require.NoError(t, err)
	require.Equal(t, 1, b.Snapshot().Queue.Held)
	call(put{3})
	n, err := third.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, n)
	s = b.Snapshot()
	require.Zero(t, s.Queue.Held)
	require.Equal(t, guard.Counters{Invocations: 3, Accepted: 3, Completed: 3}, method(s, "get").Counters)
	require.Positive(t, method(s, "put").HeldTime)
	require.EqualValues(t, 1, method(s, "put").Holds)
}

// admitting returns the names of the policies that refuse and drop no command.
func admitting() []string {
	return slices.DeleteFunc(policy.Names(), func(name string) bool {
		return slices.Contains([]string{"seda:cruz", "codel", "rt90", "shed"}, name)
	})
}

func TestAProducerAndAConsumerMeetInTheBufferUnderEveryPolicy(t *testing.T) {
	n := 1000
	if raced {
		n = 200
	}
	for _, name := range admitting() {
		t.Run(name, func(t *testing.T) {
			law, err := policy.ByName(name)
			require.NoError(t, err)
			b := buffer(3)
			launch(t, b, pipeline.Control(law))
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := range n {
					assert.NoError(t, b.Submit(t.Context(), put{i}))
				}
			})
			for i := range n {
				got, err := stage.Call[any](t.Context(), b, any(get{}))
				require.NoError(t, err)
				require.Equal(t, i, got)
			}
			wg.Wait()
		})
	}
}

// narrow admits three commands to the pipeline at a time, as DBR does when it takes a buffer for slow.
type narrow struct {
	controller.Policy

	calls *atomic.Int64
}

func (n narrow) New() controller.Controller { return n }

func (n narrow) Control(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
	controller.KnobLimit.Set(d, controller.Entry, 3, "narrow")
	n.calls.Add(1)
}

func TestHeldCommandsDoNotCountForTheLimitOfAPolicy(t *testing.T) {
	b := buffer(1)
	calls := new(atomic.Int64)
	launch(t, b, pipeline.Control(narrow{policy.Fixed{}, calls}))
	require.Eventually(t, func() bool { return calls.Load() > 0 }, time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 10 {
		require.NoError(t, b.Submit(ctx, put{i}), "all but one of them are held")
	}
	for i := range 10 {
		got, err := stage.Call[any](ctx, b, any(get{}))
		require.NoError(t, err)
		require.Equal(t, i, got)
	}
}

func TestCommandsOfOtherMethodsPassThoseThatAreHeld(t *testing.T) {
	var open atomic.Bool
	var order []string
	s := stage.Func("s", func(_ context.Context, cmd any) behaviour.Outcome {
		_, held := cmd.(put)
		order = append(order, map[bool]string{true: "held", false: "free"}[held])
		return behaviour.OK(nil)
	}, stage.Workers(1, 1), stage.Guard("put", func(count) bool { return open.Load() }))
	p := launch(t, s)
	for range 3 {
		require.NoError(t, s.Submit(t.Context(), put{}))
	}
	_, err := stage.Call[any](t.Context(), s, any(get{}))
	require.NoError(t, err)
	require.Equal(t, 3, s.Snapshot().Queue.Held)
	open.Store(true)
	require.NoError(t, p.Pause(s))
	require.NoError(t, p.Resume(s)) // which has its guards evaluated again
	require.NoError(t, p.Stop(t.Context()))
	require.Equal(t, []string{"free", "held", "held", "held"}, order)
}

// crowded is the state of handlers that must not be more than some at a time.
type crowded struct {
	now, most atomic.Int64
}

func (c *crowded) enter() (leave func()) {
	n := c.now.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
		runtime.Gosched()
	}
	return func() { c.now.Add(-1) }
}

func TestNoMoreCommandsAreCurrentThanTheGuardAllows(t *testing.T) {
	const n, most = 3000, 3
	traits := map[string]func(name string, h func(context.Context, put) behaviour.Outcome, opts ...stage.Option) *stage.Stage[put]{
		"shared behaviour": stage.Func[put],
		"an instance for each worker": func(name string, h func(context.Context, put) behaviour.Outcome, opts ...stage.Option) *stage.Stage[put] {
			return stage.Each(name, func() behaviour.Behaviour[put] { return behaviour.Func[put](h) }, opts...)
		},
		"suspending": func(name string, h func(context.Context, put) behaviour.Outcome, opts ...stage.Option) *stage.Stage[put] {
			return stage.Coroutine(name, func(c coroutine.Context, cmd put) behaviour.Outcome {
				if cmd.n%3 == 0 {
					if err := coroutine.Yield(c); err != nil {
						return behaviour.Error(err)
					}
				}
				return h(c, cmd)
			}, opts...)
		},
	}
	for trait, newStage := range traits {
		t.Run(trait, func(t *testing.T) {
			var crowd crowded
			var done atomic.Int64
			s := newStage("s", func(ctx context.Context, cmd put) behaviour.Outcome {
				defer crowd.enter()()
				switch try := behaviour.Attempt(ctx); {
				case cmd.n%41 == 5 && try < 2:
					panic("once")
				case cmd.n%43 == 6 && try < 2:
					runtime.Goexit()
				case cmd.n%47 == 7:
					return behaviour.Error(errors.New("no"))
				case cmd.n%10 == 1:
					time.Sleep(10 * time.Microsecond)
				}
				done.Add(1)
				return behaviour.OK(nil)
			}, stage.Workers(4, 8), stage.Retry(stage.RetryPolicy{Attempts: 3}), stage.Restart(stage.RestartPolicy{Limit: -1}),
				stage.Guard("put", func(n count) bool { return n("put").Current < most }))
			p, err := pipeline.New("test", s, quiet)
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			var all []controller.Policy
			for _, name := range admitting() {
				law, err := policy.ByName(name)
				require.NoError(t, err)
				all = append(all, law)
			}
			for i := range n {
				require.NoError(t, s.Submit(t.Context(), put{i}))
				if i%100 == 50 {
					require.NoError(t, p.SetPolicy(all[rand.IntN(len(all))]))
				}
			}
			require.NoError(t, p.Drain(t.Context()))
			snap := s.Snapshot()
			require.True(t, snap.Balanced())
			require.LessOrEqual(t, crowd.most.Load(), int64(most))
			m := method(snap, "put")
			require.Zero(t, m.Current)
			require.Zero(t, m.Pending)
			require.Equal(t, m.Invocations, m.Completed)
			require.EqualValues(t, uint64(n)+snap.Counts.Retries, m.Invocations, "each try counts")
			require.EqualValues(t, n, snap.Counts.OK+snap.Counts.Errors)
			require.NoError(t, p.Stop(t.Context()))
		})
	}
}

func TestACommandThatIsGivenUpIsNotCurrentAnyMore(t *testing.T) {
	hold := make(chan struct{})
	s := stage.Sink("s", func(_ context.Context, c put) error {
		if c.n == 0 {
			<-hold
		}
		return nil
	}, stage.Timeout(time.Millisecond), stage.Grace(time.Millisecond), stage.Guard("put", func(n count) bool { return n("put").Current == 0 }))
	p := launch(t, s)
	ticket, err := s.Ask(t.Context(), put{0})
	require.NoError(t, err)
	_, err = ticket.Wait(t.Context())
	require.Error(t, err)
	next, err := s.Ask(t.Context(), put{1})
	require.NoError(t, err)
	_, err = next.Wait(t.Context())
	require.NotErrorIs(t, err, context.Canceled, "it need not wait for the handler that does not return")
	close(hold)
	require.NoError(t, p.Stop(t.Context()))
	require.Zero(t, method(s.Snapshot(), "put").Current)
}

func TestAGuardThatDoesNotReturnCrashesTheNextCommandOfItsMethod(t *testing.T) {
	for name, fault := range map[string]func(){"panics": func() { panic("no guard") }, "ends its goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var broken atomic.Bool
			s := stage.Func("s", func(context.Context, any) behaviour.Outcome { return behaviour.OK("done") },
				stage.Guard("put", func(count) bool {
					if broken.CompareAndSwap(true, false) {
						fault()
					}
					return true
				}))
			launch(t, s)
			_, err := stage.Call[any](t.Context(), s, any(put{1}))
			require.NoError(t, err)
			broken.Store(true)
			results := make(chan error, 1)
			go func() {
				_, err := stage.Call[any](context.WithoutCancel(t.Context()), s, any(put{2}))
				results <- err
			}()
			if name == "panics" {
				err := <-results
				require.True(t, stage.Crashed(err), "%v", err)
				require.ErrorContains(t, err, `guard of "put" panicked: no guard`)
			}
			require.Eventually(t, func() bool { return !broken.Load() }, 5*time.Second, time.Millisecond)
			for range 2 { // the first may crash, since the guard ended another goroutine
				_, err = stage.Call[any](t.Context(), s, any(put{3}))
			}
			require.NoError(t, err, "the stage goes on")
		})
	}
}

func TestAMethodThatPanicsCrashesItsCommand(t *testing.T) {
	s := stage.Func("s", func(context.Context, shouting) behaviour.Outcome { return behaviour.OK("done") },
		stage.Guard("loud", func(count) bool { return true }))
	launch(t, s)
	_, err := stage.Call[any](t.Context(), s, shouting("loud"))
	require.NoError(t, err)
	_, err = stage.Call[any](t.Context(), s, shouting(""))
	require.True(t, stage.Crashed(err), "%v", err)
	require.ErrorContains(t, err, "no method")
	for _, m := range s.Snapshot().Methods {
		require.Zero(t, m.Current, "%q", m.Method)
	}
}

// shouting is a command that says its method itself.
type shouting string

func (s shouting) Method() string {
	if s == "" {
		panic("no method")
	}
	return string(s)
}

func TestHeldCommandsEndWithTheHardStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage.Sink("s", func(context.Context, put) error { return nil }, stage.Guard("put", func(count) bool { return false }))
		p, err := pipeline.New("test", s, quiet)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		ticket, err := s.Ask(t.Context(), put{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.Error(t, p.Stop(ctx))
		require.ErrorIs(t, ticket.Err(), stage.ErrStopped)
		snap := s.Snapshot()
		require.True(t, snap.Balanced())
		require.EqualValues(t, 1, snap.Reasons.DeadLettered[reason.Stopped])
		require.Equal(t, time.Hour, method(snap, "put").HeldTime.Round(time.Minute))
	})
}

func TestWhatCollidesIsInTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage.Func("s", func(_ context.Context, cmd any) behaviour.Outcome {
			if _, ok := cmd.(put); ok {
				time.Sleep(time.Second)
			}
			return behaviour.OK(nil)
		}, stage.Workers(2, 2), stage.Guard("get", func(n count) bool { return n("put").Current == 0 }))
		p, err := pipeline.New("test", s, quiet)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		require.NoError(t, s.Submit(t.Context(), put{}))
		synctest.Wait()
		_, err = stage.Call[any](t.Context(), s, any(get{}))
		require.NoError(t, err)
		m := method(s.Snapshot(), "get")
		require.Equal(t, time.Second, m.HeldTime)
		require.Equal(t, map[string]time.Duration{"put": time.Second}, m.HeldDuring)
		require.Equal(t, time.Second, method(s.Snapshot(), "put").RunTime)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestFaultsOfGuards(t *testing.T) {
	open := func(count) bool { return true }
	f := func(opts ...stage.Option) *stage.Stage[put] {
		return stage.Sink("s", func(context.Context, put) error { return nil }, opts...).Stage
	}
	tests := map[string]*stage.Stage[put]{
		`stage "s": Guard("put"): the guard is nil`:                             f(stage.Guard("put", nil)),
		`stage "s": Guard("Put"): the stage's commands are of the method "put"`: f(stage.Guard("Put", open)),
		`stage "s": Guard(""): the method has no name`:                          f(stage.Guard("", open)),
		`stage "s": Ordered: a stage with guards has an order of its own`:       f(stage.Guard("put", open), stage.Ordered()),
		`takes no RateBy`: f(stage.Guard("put", open), stage.RateBy(func(p put) int { return p.n }, 1, time.Second, 1)),
		`takes no Linger`: f(stage.Guard("put", open), stage.Linger(time.Second)),
		`takes no guards`: stage.Keyed("s", func(p put) int { return p.n }, func(int) behaviour.Behaviour[put] { return nil }, stage.Guard("put", open)),
	}
	for want, s := range tests {
		t.Run(want, func(t *testing.T) {
			_, err := pipeline.New("test", s, quiet)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestAGuardThatPanicsCostsTheOldestCommandOfItsMethodAndNoOther(t *testing.T) {
	var mu sync.Mutex
	var crashed, handled []int
	s := stage.Sink("s", func(_ context.Context, c put) error {
		mu.Lock()
		defer mu.Unlock()
		handled = append(handled, c.n)
		return nil
	}, stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 10_000}), stage.Guard("put", func(n count) bool {
		if n("put").Accepted%7 == 3 {
			panic("boom")
		}
		return true
	}))
	p, err := pipeline.New("test", s, quiet, pipeline.DeadLetters(func(l stage.DeadLetter) {
		mu.Lock()
		defer mu.Unlock()
		crashed = append(crashed, l.Command.(put).n)
	}))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	const n = 300
	for i := range n {
		require.NoError(t, s.Submit(t.Context(), put{i}))
	}
	require.NoError(t, p.Stop(t.Context()))
	require.Len(t, slices.Concat(crashed, handled), n)
	for _, c := range crashed {
		require.Equal(t, 3, c%7, "%d has crashed", c)
	}
	for _, c := range handled {
		require.NotEqual(t, 3, c%7, "%d was handled", c)
	}
}
