package pipeline_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// timeless is a test without a deadline: [testing.T.Deadline] panics in a bubble, and rapid calls it.
type timeless struct{ *testing.T }

func (timeless) Deadline() (time.Time, bool) { return time.Time{}, false }

// limit is the argument of stage.Rate.
type limit struct {
	n, burst int
	per      time.Duration
}

func (l limit) option() stage.Option { return stage.Rate(l.n, l.per, l.burst) }

// after is how long after the i-th start the j-th may be: as many as are started from the one to the other must be at most the
// burst and what the rate allows in that time.
func (l limit) after(i, j int) time.Duration {
	over := j - i + 1 - l.burst
	if over <= 0 {
		return 0
	}
	return (time.Duration(over)*l.per + time.Duration(l.n) - 1) / time.Duration(l.n)
}

// plan is what the handlers of a stage do: the k-th call takes a time, and fails or not.
type plan struct {
	limit
	workers  int
	arrivals []time.Duration // not falling
	lasts    []time.Duration
	fails    []bool
}

const pause = 10 * time.Millisecond // of a retry

func (p *plan) lasting(k int) time.Duration { return p.lasts[k%len(p.lasts)] }
func (p *plan) failing(k int) bool          { return k < len(p.fails) && p.fails[k] }

func drawPlan(t *rapid.T) *plan {
	ms := func(least, most int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(least, most), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
	}
	p := &plan{
		limit: limit{
			n: rapid.SampledFrom([]int{1, 2, 3, 7, 1000}).Draw(t, "n"), burst: rapid.IntRange(1, 5).Draw(t, "burst"),
			per: rapid.SampledFrom([]time.Duration{time.Nanosecond, 10 * time.Millisecond, 50*time.Millisecond + 1, time.Second}).Draw(t, "per"),
		},
		workers: rapid.IntRange(1, 4).Draw(t, "workers"),
		lasts:   []time.Duration{0},
		fails:   rapid.SliceOfN(rapid.Bool(), 0, 10).Draw(t, "fails"),
	}
	if rapid.Bool().Draw(t, "slow") {
		p.lasts = rapid.SliceOfN(ms(1, 100), 1, 5).Draw(t, "lasts")
	}
	at := time.Duration(0)
	for range rapid.IntRange(1, 30).Draw(t, "commands") {
		at += rapid.OneOf(rapid.Just(time.Duration(0)), ms(0, 20), ms(0, 1000)).Draw(t, "gap")
		p.arrivals = append(p.arrivals, at)
	}
	return p
}

// starts is when the calls begin: each as soon as there is a command and a free worker, and all calls before allow it.
func (p *plan) starts() (starts []time.Duration) {
	waiting, free := slices.Clone(p.arrivals), make([]time.Duration, p.workers)
	for k := 0; len(waiting) > 0; k++ {
		slices.Sort(waiting)
		slices.Sort(free)
		at := max(waiting[0], free[0])
		for i, s := range starts {
			at = max(at, s+p.after(i, k))
		}
		starts, waiting = append(starts, at), waiting[1:]
		free[0] = at + p.lasting(k)
		if p.failing(k) {
			waiting = append(waiting, free[0]+pause)
		}
	}
	return starts
}

// calls records the calls of a handler.
type calls struct {
	*plan

	begin  time.Time
	mu     sync.Mutex
	starts []time.Duration
}

// next records a call, and says how long it lasts and whether it fails.
func (c *calls) next() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := len(c.starts)
	c.starts = append(c.starts, time.Since(c.begin))
	return c.lasting(k), c.failing(k)
}

func (c *calls) handle(context.Context, int) behaviour.Outcome {
	d, fails := c.next()
	time.Sleep(d)
	return outcomeOf(fails)
}

func (c *calls) suspend(cc coroutine.Context, _ int) behaviour.Outcome {
	d, fails := c.next()
	if err := coroutine.Sleep(cc, d); d > 0 && err != nil {
		return behaviour.Error(err)
	}
	return outcomeOf(fails)
}

func outcomeOf(fails bool) behaviour.Outcome {
	if fails {
		return behaviour.Error(errNo)
	}
	return behaviour.OK(nil)
}

// HandleCommand makes calls the instance of a key.
func (c *calls) HandleCommand(ctx context.Context, cmd int) behaviour.Outcome {
	return c.handle(ctx, cmd)
}

// rated are stages with a rate, each with the pool that works for it.
func rated(workers int) map[string]func(c *calls, opts ...stage.Option) (*stage.Stage[int], pipeline.Part) {
	own := stage.Workers(workers, workers)
	all := map[string]func(c *calls, opts ...stage.Option) (*stage.Stage[int], pipeline.Part){
		"own workers": func(c *calls, opts ...stage.Option) (*stage.Stage[int], pipeline.Part) {
			return stage.Func("s", c.handle, append(opts, own)...), pipeline.Subgraph()
		},
		"a key for each command": func(c *calls, opts ...stage.Option) (*stage.Stage[int], pipeline.Part) {
			same := func(cmd int) int { return cmd }
			return stage.Keyed("s", same, func(int) *calls { return c }, append(opts, own)...), pipeline.Subgraph()
		},
		"handlers that suspend": func(c *calls, opts ...stage.Option) (*stage.Stage[int], pipeline.Part) {
			opts = append(opts, stage.Workers(1, 1), stage.Instances(workers))
			return stage.Coroutine("s", c.suspend, opts...), pipeline.Subgraph()
		},
	}
	for name, law := range ways(workers) {
		all["shared, "+name] = func(c *calls, opts ...stage.Option) (*stage.Stage[int], pipeline.Part) {
			return stage.Func("s", c.handle, append(opts, stage.Instances(workers))...), pipeline.Control(law)
		}
	}
	return all
}

// The model knows no bucket: a call begins as soon as no window of time that ends with it has too many. So the stage starts
// neither more than it may nor fewer than it can.
func TestAStageStartsAsManyCommandsAsItsRateAllowsAndNoMore(t *testing.T) {
	for name := range rated(1) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rapid.Check(timeless{t}, func(t *rapid.T) {
					c := &calls{plan: drawPlan(t)}
					retries := stage.Retry(stage.RetryPolicy{Attempts: 100, Backoff: pause, Max: pause})
					s, part := rated(c.workers)[name](c, c.option(), retries)
					other := stage.Func("other", echo[int])
					p, err := pipeline.New("rated", unscaled([]pipeline.Part{s, other, part})...)
					require.NoError(t, err)
					require.NoError(t, p.Start(t.Context()))
					time.Sleep(time.Second) // the control loop has looked
					c.begin = time.Now()
					for i, at := range c.arrivals {
						time.Sleep(time.Until(c.begin.Add(at)))
						require.NoError(t, s.Submit(t.Context(), i))
					}
					require.NoError(t, p.Drain(t.Context()))
					require.NoError(t, p.Stop(t.Context()))
					require.Equal(t, c.plan.starts(), c.starts)
					require.True(t, s.Snapshot().Balanced())
				})
			})
		})
	}
}

// starting is a handler that records when it is called.
type starting struct {
	begin time.Time
	mu    sync.Mutex
	at    []time.Duration
	sizes []int // of batches
}

func (s *starting) note(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.sizes = append(s.at, time.Since(s.begin)), append(s.sizes, size)
}

func (s *starting) HandleCommand(context.Context, int) behaviour.Outcome {
	s.note(1)
	return behaviour.OK(nil)
}

// many is starting as a Batcher.
type many struct{ starting }

func (m *many) HandleBatch(_ context.Context, cmds []int) []behaviour.Outcome {
	m.note(len(cmds))
	return slices.Repeat([]behaviour.Outcome{behaviour.OK(nil)}, len(cmds))
}

func seconds(n ...int) (all []time.Duration) {
	for _, s := range n {
		all = append(all, time.Duration(s)*time.Second)
	}
	return all
}

func submitted(t *testing.T, s *stage.Stage[int], n int) {
	t.Helper()
	for i := range n {
		require.NoError(t, s.Submit(t.Context(), i))
	}
}

func TestADrainIsNoFasterThanTheRate(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		h := &starting{begin: time.Now()}
		s := stage.New("s", h, stage.Rate(1, time.Second, 2))
		p := bubble(t, s)
		submitted(t, s, 5)
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, seconds(0, 0, 1, 2, 3), h.at)
		require.EqualValues(t, 5, s.Snapshot().Counts.OK)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAHardStopDoesNotWaitForTheRate(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		h := &starting{begin: time.Now()}
		s := stage.New("s", h, stage.Rate(1, time.Hour, 1))
		p := bubble(t, s)
		submitted(t, s, 5)
		time.Sleep(time.Minute)
		ended, end := context.WithCancel(t.Context())
		end()
		require.Error(t, p.Stop(ended))
		require.Equal(t, time.Minute, time.Since(h.begin))
		require.Equal(t, seconds(0), h.at)
		require.EqualValues(t, 4, s.Snapshot().Counts.DeadLettered)
		require.True(t, s.Snapshot().Balanced())
	})
}

func TestAStageThatWaitsForItsRateExertsBackPressure(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		h := &starting{begin: time.Now()}
		slow := stage.New("slow", h, stage.Rate(1, time.Second, 1), stage.Capacity(2))
		first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome {
			return behaviour.Forward(slow, n)
		}, stage.Capacity(1), stage.Workers(1, 1), stage.Batch(1))
		p := bubble(t, first, slow)
		submitted(t, first, 6) // one is started, two are queued, one is the worker's, and one is queued before it
		require.Equal(t, time.Second, time.Since(h.begin), "the sixth waited for the second to be started")
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, seconds(0, 1, 2, 3, 4, 5), h.at)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestALingeringBatchWaitsForItsPermitsToo(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		m := &many{starting{begin: time.Now()}}
		s := stage.New("s", m, stage.Rate(2, time.Second, 8), stage.Batch(4), stage.Linger(2*time.Second), stage.Workers(2, 2))
		p := bubble(t, s)
		submitted(t, s, 18)
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, []int{4, 4, 4, 4, 2}, m.sizes)
		require.Equal(t, seconds(0, 0, 2, 4, 5), m.at)
		require.NoError(t, p.Stop(t.Context()))
	})
}

// With a rate that is much slower than the batch lingers, each permit is used when it comes.
func TestABatchDoesNotWaitForPermitsLongerThanItLingers(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		m := &many{starting{begin: time.Now()}}
		s := stage.New("s", m, stage.Rate(1, time.Minute, 60), stage.Batch(4), stage.Linger(time.Second))
		p := bubble(t, s)
		submitted(t, s, 62)
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, []int{1, 1}, m.sizes[len(m.sizes)-2:])
		require.Equal(t, seconds(60, 120), m.at[len(m.at)-2:])
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestACommandThatIsNotHandledCostsNoPermit(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		h := &starting{begin: time.Now()}
		s := stage.New("s", h, stage.Rate(1, time.Second, 1), stage.TTL(1500*time.Millisecond), stage.Workers(1, 1))
		p := bubble(t, s)
		submitted(t, s, 10) // all but two expire
		asked, end := context.WithCancel(t.Context())
		time.Sleep(1600 * time.Millisecond)
		for range 3 {
			_, err := s.Ask(asked, 1)
			require.NoError(t, err)
		}
		end()
		submitted(t, s, 2)
		require.NoError(t, p.Drain(t.Context()))
		ms := time.Millisecond
		require.Equal(t, []time.Duration{0, 1000 * ms, 2000 * ms, 3000 * ms}, h.at)
		require.EqualValues(t, 8, s.Snapshot().Counts.Shed)
		require.EqualValues(t, 3, s.Snapshot().Counts.Errors)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAPausedStageSavesPermitsForNoMoreThanItsBurst(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		h := &starting{begin: time.Now()}
		s := stage.New("s", h, stage.Rate(1, time.Second, 2))
		p := bubble(t, s)
		submitted(t, s, 2)
		synctest.Wait()
		require.NoError(t, p.Pause(s))
		submitted(t, s, 4)
		time.Sleep(10 * time.Second)
		require.NoError(t, p.Resume(s))
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, seconds(10, 10, 11, 12), h.at[2:])
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestEachTryOfACommandThatCrashesCostsAPermit(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		h := &starting{begin: time.Now()}
		s := stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome {
			h.note(1)
			if behaviour.Attempt(ctx) < 3 {
				panic("once more")
			}
			return behaviour.OK(nil)
		}, stage.Rate(1, time.Second, 1), stage.Retry(stage.RetryPolicy{Attempts: 3}), stage.Workers(1, 1))
		p := bubble(t, s)
		submitted(t, s, 2)
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, seconds(0, 1, 2, 3, 4, 5), h.at)
		require.EqualValues(t, 2, s.Snapshot().Counts.OK)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestASnapshotSaysForHowLongCommandsHaveWaitedForTheRate(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		h := &starting{begin: time.Now()}
		s := stage.New("s", h, stage.Rate(1, 10*time.Second, 1))
		p := bubble(t, s)
		submitted(t, s, 1)
		time.Sleep(4 * time.Second)
		require.Zero(t, s.Snapshot().Counts.RateWait, "no command waits")
		submitted(t, s, 2)
		time.Sleep(3 * time.Second)
		require.Equal(t, 3*time.Second, s.Snapshot().Counts.RateWait)
		time.Sleep(5 * time.Second)
		require.Equal(t, 8*time.Second, s.Snapshot().Counts.RateWait, "one has been started, and the other waits")
		time.Sleep(time.Minute)
		require.Equal(t, 16*time.Second, s.Snapshot().Counts.RateWait)
		require.EqualValues(t, 3, s.Snapshot().Counts.OK)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestARateThatLetsNothingThroughIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		rate stage.Option
		says string
	}{
		{"no commands", stage.Rate(0, time.Second, 1), `stage "s": Rate(0, 1s, 1): the number must be at least 1`},
		{"fewer than none", stage.Rate(-1, time.Second, 1), `stage "s": Rate(-1, 1s, 1): the number must be at least 1`},
		{"in no time", stage.Rate(1, 0, 1), `stage "s": Rate(1, 0s, 1): the period must be above 0`},
		{"in less than no time", stage.Rate(1, -1, 1), `stage "s": Rate(1, -1ns, 1): the period must be above 0`},
		{"no burst", stage.Rate(1, time.Second, 0), `stage "s": Rate(1, 1s, 0): the burst must be at least 1`},
		{"a negative burst", stage.Rate(1, time.Second, -1), `stage "s": Rate(1, 1s, -1): the burst must be at least 1`},
		{"too much of both", stage.Rate(1, time.Hour, 1<<40), `stage "s": Rate(1, 1h0m0s, 1099511627776): burst times period`},
		{"nothing of anything", stage.Rate(0, 0, 0), `stage "s": Rate(0, 0s, 0): the period must be above 0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stage.Func("s", echo[int], c.rate)
			_, err := pipeline.New("p", s)
			require.ErrorContains(t, err, c.says)
			require.Zero(t, s.Snapshot().Counts.RateWait, "nothing of it breaks")
			require.ErrorIs(t, s.Submit(t.Context(), 1), stage.ErrNotRunning)
		})
	}
}

func TestARateIsKeptWhileManySubmit(t *testing.T) {
	const n, burst, per = 20, 10, time.Millisecond
	var handled atomic.Int64
	s := stage.Func("s", func(context.Context, int) behaviour.Outcome {
		return outcomeOf(handled.Add(1)%3 == 0)
	}, stage.Rate(n, per, burst), stage.Workers(4, 4), stage.Retry(stage.RetryPolicy{Attempts: 2}), stage.Capacity(16))
	p := start(t, s)
	begin := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 50 {
				assert.NoError(t, s.Submit(t.Context(), i))
			}
		})
	}
	all.Wait()
	require.NoError(t, p.Drain(soon(t)))
	took := time.Since(begin)
	require.NoError(t, p.Stop(soon(t)))
	atRest(t, p)
	require.GreaterOrEqual(t, handled.Load(), int64(400))
	require.LessOrEqual(t, handled.Load(), burst+int64(n*took/per)+1)
}
