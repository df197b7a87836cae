package pipeline_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
)

// record is a stage at the end that keeps what it has received, in order.
type record struct {
	*stage.Stage[int]

	mu   sync.Mutex
	seen []int
}

func newRecord(opts ...stage.Option) *record {
	r := &record{}
	r.Stage = stage.Func("record", r.handle, append([]stage.Option{stage.Defaults(stage.Workers(1, 1))}, opts...)...)
	return r
}

func (r *record) handle(_ context.Context, n int) behaviour.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, n)
	return behaviour.OK(n)
}

func (r *record) all() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

var errOften = errors.New("not yet")

// unsteady is a handler that takes various times, and fails and crashes for some commands, for some of them at each try. What
// it forwards must be in order.
type unsteady struct {
	to          *stage.Stage[int]
	tries       sync.Map // of *atomic.Int32
	crash, fail bool
	pause       func(ctx context.Context)
}

func (u *unsteady) HandleCommand(ctx context.Context, n int) behaviour.Outcome {
	u.pause(ctx)
	x, _ := u.tries.LoadOrStore(n, new(atomic.Int32))
	try := x.(*atomic.Int32).Add(1)
	switch {
	case u.crash && n%17 == 0 && try <= int32(n%5):
		panic("unsteady")
	case u.fail && n%13 == 0 && try <= int32(n%5):
		return behaviour.Error(errOften)
	case n%29 == 0:
		return behaviour.OK(n)
	case n%7 == 0:
		for range 2 {
			if err := behaviour.Emit(ctx, u.to, n); err != nil {
				return behaviour.Error(err)
			}
		}
	}
	return behaviour.Forward(u.to, n)
}

// left returns what leaves the stage for commands 0 to n-1, if each may be tried so often.
func (u *unsteady) left(n, tries int) (all []int) {
	for i := range n {
		lost := u.crash && i%17 == 0 && i%5 >= tries || u.fail && i%13 == 0 && i%5 >= tries
		switch {
		case lost, i%29 == 0:
		case i%7 == 0:
			all = append(all, i, i, i)
		default:
			all = append(all, i)
		}
	}
	return all
}

// batched handles whole batches. It crashes with every batch that has a command of some kind, and emits nothing.
type batched struct{ *unsteady }

func (b batched) HandleBatch(ctx context.Context, all []int) []behaviour.Outcome {
	b.pause(ctx)
	outcomes := make([]behaviour.Outcome, len(all))
	for i, n := range all {
		x, _ := b.tries.LoadOrStore(n, new(atomic.Int32))
		switch {
		case b.crash && n%17 == 0:
			panic("poison")
		case b.fail && n%13 == 0 && (n%5 >= 3 || x.(*atomic.Int32).Add(1) <= int32(n%5)):
			outcomes[i] = behaviour.Error(errOften)
		case n%29 == 0:
			outcomes[i] = behaviour.OK(n)
		default:
			outcomes[i] = behaviour.Forward(b.to, n)
		}
	}
	return outcomes
}

func (b batched) left(n int) (all []int) {
	for i := range n {
		if !(b.crash && i%17 == 0 || b.fail && i%13 == 0 && i%5 >= 3 || i%29 == 0) {
			all = append(all, i)
		}
	}
	return all
}

func TestWhatLeavesAnOrderedStageIsInTheOrderOfArrival(t *testing.T) {
	type setting struct {
		crash, fail bool
		opts        []stage.Option
		ahead       []stage.Option
		policy      string
		suspends    bool
		batcher     bool
		tries       int
	}
	retry := stage.Retry(stage.RetryPolicy{Attempts: 3})
	later := stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond, Jitter: 1})
	for name, s := range map[string]setting{
		"as it is":                                 {tries: 1},
		"with a small queue":                       {opts: []stage.Option{stage.Capacity(2)}, tries: 1},
		"in front of a small queue":                {ahead: []stage.Option{stage.Capacity(1)}, tries: 1},
		"with small queues":                        {opts: []stage.Option{stage.Capacity(1)}, ahead: []stage.Option{stage.Capacity(1)}, tries: 1},
		"in batches of one":                        {opts: []stage.Option{stage.Batch(1)}, tries: 1},
		"with one worker and retries":              {fail: true, opts: []stage.Option{stage.Workers(1, 1), later}, tries: 3},
		"with errors":                              {fail: true, tries: 1},
		"with errors that are tried again":         {fail: true, opts: []stage.Option{retry}, tries: 3},
		"with errors that are tried again later":   {fail: true, opts: []stage.Option{later}, tries: 3},
		"with late retries and small queues":       {fail: true, opts: []stage.Option{later, stage.Capacity(1)}, ahead: []stage.Option{stage.Capacity(1)}, tries: 3},
		"with crashes":                             {crash: true, tries: 1},
		"with crashes that are tried again":        {crash: true, opts: []stage.Option{retry}, tries: 3},
		"with crashes and errors, tried later":     {crash: true, fail: true, opts: []stage.Option{later}, tries: 3},
		"with crashes, later, with small queues":   {crash: true, opts: []stage.Option{later, stage.Capacity(2)}, ahead: []stage.Option{stage.Capacity(1)}, tries: 3},
		"with a shared pool":                       {crash: true, fail: true, opts: []stage.Option{later}, policy: "seda", tries: 3},
		"with a shared pool and small queues":      {fail: true, opts: []stage.Option{later, stage.Capacity(2)}, ahead: []stage.Option{stage.Capacity(1)}, policy: "seda", tries: 3},
		"with suspending handlers":                 {suspends: true, tries: 1},
		"with suspending handlers that crash":      {suspends: true, crash: true, fail: true, opts: []stage.Option{later}, tries: 3},
		"with suspending handlers of one worker":   {suspends: true, fail: true, opts: []stage.Option{later, stage.Workers(1, 1), stage.Capacity(2)}, tries: 3},
		"with a few suspending handlers":           {suspends: true, fail: true, opts: []stage.Option{later, stage.Instances(2)}, ahead: []stage.Option{stage.Capacity(1)}, tries: 3},
		"with a rate":                              {fail: true, opts: []stage.Option{later, stage.Rate(5000, time.Second, 50)}, tries: 3},
		"with a time limit":                        {crash: true, fail: true, opts: []stage.Option{later, stage.Timeout(time.Minute)}, tries: 3},
		"with batches":                             {batcher: true, tries: 1},
		"with batches that linger":                 {batcher: true, opts: []stage.Option{stage.Linger(time.Millisecond)}, tries: 1},
		"with batches that crash and are retried":  {batcher: true, crash: true, fail: true, opts: []stage.Option{later}, tries: 3},
		"with batches that crash, and small queue": {batcher: true, crash: true, opts: []stage.Option{retry, stage.Capacity(3)}, ahead: []stage.Option{stage.Capacity(1)}, tries: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 3000
			if testing.Short() {
				n = 500
			}
			end := newRecord(s.ahead...)
			u := &unsteady{to: end.Stage, crash: s.crash, fail: s.fail}
			u.pause = func(context.Context) {
				if d := rand.IntN(40); d < 10 {
					time.Sleep(time.Duration(d) * 20 * time.Microsecond)
				}
			}
			opts := append([]stage.Option{stage.Defaults(stage.Workers(4, 4), stage.Ordered(), stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Backoff: time.Microsecond, Max: time.Microsecond}))}, s.opts...)
			var st *stage.Stage[int]
			switch {
			case s.suspends:
				u.pause = func(ctx context.Context) {
					if d := rand.IntN(40); d < 20 {
						_ = coroutine.Sleep(ctx.(coroutine.Context), time.Duration(d)*20*time.Microsecond)
					}
				}
				st = stage.Coroutine("ordered", func(c behaviour.Suspender, n int) behaviour.Outcome { return u.HandleCommand(c, n) }, opts...)
			case s.batcher:
				st = stage.New("ordered", batched{u}, opts...)
			default:
				st = stage.New[int]("ordered", u, opts...)
			}
			parts := []pipeline.Part{st, end.Stage}
			if s.policy != "" {
				pol, err := policy.ByName(s.policy)
				require.NoError(t, err)
				parts = append(parts, pipeline.Control(pol))
			}
			p := run(t, parts...)
			go func() {
				for range 20 {
					time.Sleep(time.Millisecond)
					_ = p.Snapshot()
				}
			}()
			for i := range n {
				require.NoError(t, st.Submit(soon(t), i))
			}
			require.NoError(t, p.Drain(soon(t)))
			want := u.left(n, s.tries)
			if s.batcher {
				want = batched{u}.left(n)
			}
			require.Equal(t, want, end.all())
			require.Zero(t, p.Snapshot().Stages[0].Queue.Waiting)
		})
	}
}

// The first command takes long. The others are handled, and wait, up to as many as the stage has slots.
func TestASlowCommandHoldsBackResultsAndNotHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := newRecord()
		var handled atomic.Int32
		release := make(chan struct{})
		st := stage.Func("ordered", func(_ context.Context, n int) behaviour.Outcome {
			if n == 0 {
				<-release
			}
			handled.Add(1)
			return behaviour.Forward(end.Stage, n)
		}, stage.Ordered(), stage.Workers(3, 3), stage.Batch(1), stage.Capacity(10))
		p := startAlone(t, st, end.Stage)
		go func() {
			for i := range 100 {
				assert.NoError(t, st.Submit(context.Background(), i))
			}
		}()
		synctest.Wait()
		s := p.Snapshot()
		waiting := s.Stages[0].Queue.Waiting
		assert.GreaterOrEqual(t, waiting, 10)
		assert.LessOrEqual(t, waiting, 11, "as many as there are slots, and what the other worker had when they were taken")
		assert.EqualValues(t, waiting, handled.Load(), "no further command is started")
		assert.Equal(t, 1, s.Stages[0].Queue.InHand)
		assert.Equal(t, 10, s.Stages[0].Queue.Queued, "the queue fills up")
		assert.Empty(t, end.all())
		assert.True(t, s.Balanced(), s.Law())
		assert.EqualValues(t, waiting+10+1, s.InFlight)
		close(release)
		synctest.Wait()
		require.NoError(t, p.Stop(context.Background()))
		assert.Equal(t, firstNumbers(100), end.all())
	})
}

func firstNumbers(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestTheAnswerOfAnOrderedStageWaitsForNoOtherCommand(t *testing.T) {
	release := make(chan struct{})
	st := stage.Func("ordered", func(_ context.Context, n int) behaviour.Outcome {
		if n == 0 {
			<-release
		}
		return behaviour.OK(n)
	}, stage.Ordered(), stage.Workers(2, 2), stage.Batch(1))
	run(t, st)
	require.NoError(t, st.Submit(soon(t), 0))
	for i := range 100 {
		n, err := stage.Call[int](soon(t), st, i+1)
		require.NoError(t, err)
		require.Equal(t, i+1, n)
	}
	close(release)
}

// Whatever way a command ends without a result, it must not hold back the others for ever.
func TestACommandThatEndsWithoutAResultHoldsBackNoOther(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(ctx context.Context) behaviour.Outcome
		opts []stage.Option
	}{
		"an answer": {func(context.Context) behaviour.Outcome { return behaviour.OK(1) }, nil},
		"an error":  {func(context.Context) behaviour.Outcome { return behaviour.Error(errNo) }, nil},
		"an error after tries": {
			func(context.Context) behaviour.Outcome { return behaviour.Error(errNo) },
			[]stage.Option{stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Second})},
		},
		"a crash": {func(context.Context) behaviour.Outcome { panic("no") }, nil},
		"the end of its goroutine": {
			func(context.Context) behaviour.Outcome { runtime.Goexit(); return behaviour.OK(1) }, nil,
		},
		"crashes": {
			func(context.Context) behaviour.Outcome { panic("no") },
			[]stage.Option{stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Second})},
		},
		"a time limit": {
			func(ctx context.Context) behaviour.Outcome { <-ctx.Done(); return behaviour.Error(ctx.Err()) },
			[]stage.Option{stage.Timeout(time.Second)},
		},
		"a handler that is stuck": {
			func(context.Context) behaviour.Outcome { time.Sleep(time.Hour); return behaviour.OK(1) },
			[]stage.Option{stage.Timeout(time.Second), stage.Grace(time.Second)},
		},
		"a foreign stage": {
			func(context.Context) behaviour.Outcome {
				return behaviour.Forward(stage.Func("foreign", echo[int]), 1)
			}, nil,
		},
	} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, shared workers: %v", name, shared), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					end := newRecord()
					st := stage.Func("ordered", func(ctx context.Context, n int) behaviour.Outcome {
						if n%10 == 3 {
							return test.end(ctx)
						}
						return behaviour.Forward(end.Stage, n)
					}, append([]stage.Option{stage.Defaults(stage.Ordered(), stage.Workers(3, 3))}, test.opts...)...)
					var part pipeline.Part = st
					if shared {
						part = pipeline.Group("shared", 3, 3, st)
					}
					p := startAlone(t, part, end.Stage)
					var want []int
					for i := range 100 {
						require.NoError(t, st.Submit(context.Background(), i))
						if i%10 != 3 {
							want = append(want, i)
						}
					}
					require.NoError(t, p.Stop(context.Background()))
					assert.Equal(t, want, end.all())
					time.Sleep(2 * time.Hour) // until stuck handlers have returned
				})
			})
		}
	}
}

func TestACommandThatExpiresOrWhoseCallerLeftHoldsBackNoOther(t *testing.T) {
	for _, batches := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			end := newRecord()
			u := &unsteady{to: end.Stage, pause: func(context.Context) { time.Sleep(time.Second) }}
			opts := []stage.Option{stage.Ordered(), stage.Workers(2, 2), stage.TTL(10 * time.Second), stage.Batch(3)}
			st := stage.New[int]("ordered", u, opts...)
			if batches {
				st = stage.New("ordered", batched{u}, opts...)
			}
			p := startAlone(t, st, end.Stage)
			called, cancel := context.WithCancel(context.Background())
			for i := range 100 {
				if i%3 == 1 {
					_, err := st.Ask(called, i)
					require.NoError(t, err)
					continue
				}
				require.NoError(t, st.Submit(context.Background(), i))
			}
			time.Sleep(4 * time.Second)
			cancel()
			require.NoError(t, p.Drain(context.Background()))
			s := p.Snapshot().Stages[0]
			assert.NotZero(t, s.Counts.Shed)
			assert.NotZero(t, s.Counts.Errors)
			assert.NotEmpty(t, end.all())
			assert.True(t, slices.IsSorted(end.all()), end.all())
			require.NoError(t, p.Stop(context.Background()))
		})
	}
}

func TestAnOrderedStageThatDropsKeepsTheOrderOfTheRest(t *testing.T) {
	for _, rule := range []overflow.Rule{overflow.Reject, overflow.DropNewest, overflow.DropOldest} {
		end := newRecord()
		u := &unsteady{to: end.Stage, fail: true, pause: func(context.Context) { time.Sleep(50 * time.Microsecond) }}
		st := stage.New[int]("ordered", u, stage.Ordered(), stage.Workers(4, 4), stage.Capacity(8), stage.Overflow(rule),
			stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: 100 * time.Microsecond}))
		p := run(t, st, end.Stage)
		for i := range 5000 {
			if err := st.Submit(soon(t), i); err != nil {
				require.ErrorIs(t, err, stage.ErrFull)
			}
		}
		require.NoError(t, p.Drain(soon(t)))
		assert.NotEmpty(t, end.all())
		assert.True(t, slices.IsSorted(end.all()))
	}
}

// A handler that emits more than a worker holds otherwise.
func TestManyEmittedCommandsLeaveAnOrderedStageInOrder(t *testing.T) {
	const each, n = 1000, 50
	emit := func(to *stage.Stage[int]) func(ctx context.Context, n int) behaviour.Outcome {
		return func(ctx context.Context, n int) behaviour.Outcome {
			if n%3 == 0 {
				time.Sleep(100 * time.Microsecond)
			}
			for i := range each {
				if err := behaviour.Emit(ctx, to, n*each+i); err != nil {
					return behaviour.Error(err)
				}
			}
			return behaviour.OK(n)
		}
	}
	for _, suspends := range []bool{false, true} {
		end := newRecord(stage.Capacity(16))
		opts := []stage.Option{stage.Ordered(), stage.Workers(4, 4), stage.Batch(1), stage.Capacity(16)}
		st := stage.Func("ordered", emit(end.Stage), opts...)
		if suspends {
			st = stage.Coroutine("ordered", func(c behaviour.Suspender, n int) behaviour.Outcome { return emit(end.Stage)(c, n) }, opts...)
		}
		p := run(t, st, end.Stage)
		for i := range n {
			_, err := st.Ask(soon(t), i)
			require.NoError(t, err)
		}
		require.NoError(t, p.Drain(soon(t)))
		assert.Equal(t, firstNumbers(n*each), end.all())
	}
}

func TestAnOrderedStageThatForksKeepsTheOrderForEachTarget(t *testing.T) {
	ends := []*record{newRecord(stage.Capacity(1)), newRecord(), newRecord(stage.Capacity(3))}
	parts := []pipeline.Part{}
	st := stage.Func("ordered", func(_ context.Context, n int) behaviour.Outcome {
		if n%50 == 0 {
			time.Sleep(200 * time.Microsecond)
		}
		return behaviour.Forward(ends[n%3].Stage, n)
	}, stage.Ordered(), stage.Workers(4, 4), stage.Capacity(16))
	for i, e := range ends {
		e.Stage = stage.Func(fmt.Sprintf("record %d", i), e.handle, stage.Workers(1, 1), stage.Capacity(2*i+1))
		parts = append(parts, e.Stage)
	}
	p := run(t, append(parts, st)...)
	for i := range 6000 {
		require.NoError(t, st.Submit(soon(t), i))
	}
	require.NoError(t, p.Drain(soon(t)))
	for i, e := range ends {
		require.Len(t, e.all(), 2000, i)
		require.True(t, slices.IsSorted(e.all()), i)
	}
}

// Policies are swapped, which gives stages to shared pools and back, and numbers of workers change.
func TestAnOrderedStageKeepsItsOrderWhilePoliciesAreSwapped(t *testing.T) {
	end := newRecord(stage.Capacity(16))
	var second *unsteady
	third := stage.Func("third", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(end.Stage, n) },
		stage.Ordered(), stage.Workers(1, 8), stage.Capacity(4))
	second = &unsteady{to: third, fail: true, crash: true, pause: func(context.Context) { time.Sleep(time.Duration(rand.IntN(60)) * time.Microsecond) }}
	st := stage.New[int]("second", second, stage.Ordered(), stage.Workers(1, 8), stage.Capacity(32),
		stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Backoff: time.Microsecond, Max: time.Microsecond}),
		stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: 100 * time.Microsecond}))
	p := run(t, st, third, end.Stage)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		names := admitting()
		for {
			select {
			case <-over:
				return
			case <-time.After(2 * time.Millisecond):
				pol, err := policy.ByName(names[rand.IntN(len(names))])
				assert.NoError(t, err)
				assert.NoError(t, p.SetPolicy(pol))
			}
		}
	}()
	n := 20000
	if testing.Short() {
		n = 2000
	}
	for i := range n {
		submitUntilTaken(t, st, i)
	}
	close(over)
	<-done
	require.NoError(t, p.SetPolicy(policy.Fixed{}))
	require.NoError(t, p.Drain(soon(t)))
	require.Equal(t, second.left(n, 3), end.all())
}

// A hard stop abandons a handler that results wait for.
func TestAHardStopEndsWhatWaitsInAnOrderedStage(t *testing.T) {
	for name, suspends := range map[string]bool{"a handler that does not return": false, "a handler that is suspended": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := newRecord()
				var st *stage.Stage[int]
				opts := []stage.Option{stage.Ordered(), stage.Workers(3, 3), stage.Batch(1)}
				if suspends {
					st = stage.Coroutine("ordered", func(c behaviour.Suspender, n int) behaviour.Outcome {
						if n == 0 {
							_ = c.Suspend(func(func()) {})
						}
						return behaviour.Forward(end.Stage, n)
					}, opts...)
				} else {
					st = stage.Func("ordered", func(_ context.Context, n int) behaviour.Outcome {
						if n == 0 {
							time.Sleep(time.Hour)
						}
						return behaviour.Forward(end.Stage, n)
					}, opts...)
				}
				p := startAlone(t, st, end.Stage, pipeline.Grace(time.Second))
				var tickets []*stage.Ticket
				for i := range 50 {
					ticket, err := st.Ask(context.Background(), i)
					require.NoError(t, err)
					tickets = append(tickets, ticket)
				}
				synctest.Wait()
				assert.Equal(t, 49, p.Snapshot().Stages[0].Queue.Waiting)
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				require.Error(t, p.Stop(ctx))
				for _, ticket := range tickets {
					<-ticket.Done()
				}
				s := p.Snapshot()
				assert.True(t, s.Balanced(), s.Law())
				assert.Zero(t, s.InFlight)
				assert.Zero(t, s.Stages[0].Queue.Waiting)
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

func TestUpgradesKeepTheOrderOfAnOrderedStage(t *testing.T) {
	end := newRecord()
	version := func(crash bool) *unsteady {
		return &unsteady{to: end.Stage, crash: crash, pause: func(context.Context) { time.Sleep(time.Duration(rand.IntN(40)) * time.Microsecond) }}
	}
	st := stage.New[int]("ordered", version(false), stage.Ordered(), stage.Workers(4, 4),
		stage.Retry(stage.RetryPolicy{Attempts: 3}), stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Backoff: time.Microsecond, Max: time.Microsecond}))
	p := run(t, st, end.Stage)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10 {
			_, err := st.Upgrade(soon(t), func() behaviour.Behaviour[int] { return version(true) })
			if !assert.NoError(t, err) {
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	for i := range 10000 {
		require.NoError(t, st.Submit(soon(t), i))
	}
	<-done
	require.NoError(t, p.Drain(soon(t)))
	require.True(t, slices.IsSorted(end.all()))
}

func TestAnOrderedStageRefusesAnotherOrder(t *testing.T) {
	to := stage.Func("to", echo[int])
	_, err := pipeline.New("p", to, stage.Func("a", echo[int], stage.Ordered(), stage.Discipline(queue.LIFO{})))
	require.ErrorContains(t, err, `stage "a": Discipline: an ordered stage has an order of its own`)
	key := func(n int) int { return n }
	_, err = pipeline.New("p", stage.Keyed("b", key, func(int) behaviour.Behaviour[int] { return fn(echo[int]) }, stage.Ordered()))
	require.ErrorContains(t, err, `stage "b": Ordered: a keyed stage keeps the order of each key, and no other`)
}
