package stage_test

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

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/window"
)

func plus1(key int) int { return key + 1 }

// takes makes a fair stage whose handlers take a millisecond, and record the keys.
func takes(order *[]int, opts ...stage.Option) *stage.Stage[item] {
	var mu sync.Mutex
	return stage.Func("fair", func(_ context.Context, i item) behaviour.Outcome {
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		*order = append(*order, i.key)
		return behaviour.OK(nil)
	}, append(opts, stage.Workers(1, 1))...)
}

func TestTenantsWithABacklogShareAStageByTheirWeights(t *testing.T) {
	for name, c := range map[string]struct {
		weight func(int) int
		want   []int // of 600 commands
	}{
		"equal":   {nil, []int{200, 200, 200}},
		"weights": {plus1, []int{100, 200, 300}},
		"percent": {func(k int) int { return 100 * (k + 1) }, []int{100, 200, 300}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order []int
				s := takes(&order, stage.Fair(keyOf, c.weight, 0), stage.Capacity(2000), stage.KeyCapacity(600))
				p := run(t, s)
				for key := range 3 {
					_, err := s.SubmitAll(t.Context(), slices.Repeat([]item{{key: key}}, 600)...)
					require.NoError(t, err)
				}
				require.Equal(t, 3, s.Snapshot().Queue.FairKeys)
				require.Positive(t, s.Snapshot().Queue.FairMost)
				require.Equal(t, 600, s.Snapshot().Queue.KeyCapacity)
				require.NoError(t, p.Drain(t.Context()))
				got := make([]int, 3)
				for _, key := range order[:600] {
					got[key]++
				}
				for key := range got {
					require.InDelta(t, c.want[key], got[key], 5, "%v", got)
				}
				require.Zero(t, s.Snapshot().Queue.FairKeys)
			})
		})
	}
}

// A flood of one tenant comes by one way, and single commands of another tenant by the same way. A handler takes a millisecond.
func TestAFloodOfOneTenantDelaysAnotherByItsShareOnly(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	flooded := map[string]func(order *[]int) (parts []pipeline.Part, first *stage.Stage[item]){
		"at the entry": func(order *[]int) ([]pipeline.Part, *stage.Stage[item]) {
			s := takes(order, stage.Fair(keyOf, nil, 0))
			return []pipeline.Part{s}, s
		},
		"in the middle": func(order *[]int) ([]pipeline.Part, *stage.Stage[item]) {
			s := takes(order, stage.Fair(keyOf, nil, 0))
			before := forwarder("before", s, stage.Fair(keyOf, nil, 2), stage.Capacity(100), stage.Workers(4, 4))
			return []pipeline.Part{before, s}, before
		},
		"in the middle, by a shared pool": func(order *[]int) ([]pipeline.Part, *stage.Stage[item]) {
			s := takes(order, stage.Fair(keyOf, nil, 0))
			before := forwarder("before", s, stage.Fair(keyOf, nil, 2), stage.Capacity(100))
			return []pipeline.Part{pipeline.Group("g", 2, 2, before), s}, before
		},
	}
	for way, by := range flooded {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order []int
				parts, first := by(&order)
				p := run(t, append(parts, pipeline.Feed("flood", first, source.Slice(make([]item, 20_000))))...)
				time.Sleep(time.Second)
				most := 10 * time.Millisecond
				if way == "in the middle, by a shared pool" {
					most = 50 * time.Millisecond // until the flood has a slot, the pool takes nothing from the stage before
				}
				for i := range 100 {
					began := time.Now()
					_, err := stage.Call[any](t.Context(), first, item{1, i})
					require.NoError(t, err)
					require.LessOrEqual(t, time.Since(began), most, "command %d", i)
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(20 * time.Second)
				require.NoError(t, p.Drain(t.Context()))
				require.Len(t, order, 20_100)
			})
		})
	}
}

// The kinds of stages that can be fair. Try is called for each try of a command.
var fairKinds = map[string]func(try func(item) error, opts ...stage.Option) *stage.Stage[item]{
	"Func": func(try func(item) error, opts ...stage.Option) *stage.Stage[item] {
		return stage.Func("fair", func(_ context.Context, i item) behaviour.Outcome { return outcome(try(i)) }, opts...)
	},
	"Each": func(try func(item) error, opts ...stage.Option) *stage.Stage[item] {
		return stage.Each("fair", func() behaviour.Func[item] {
			return func(_ context.Context, i item) behaviour.Outcome { return outcome(try(i)) }
		}, opts...)
	},
	"with a time limit": func(try func(item) error, opts ...stage.Option) *stage.Stage[item] {
		return stage.Func("fair", func(_ context.Context, i item) behaviour.Outcome { return outcome(try(i)) }, append(opts, stage.Timeout(time.Minute))...)
	},
	"Batcher": func(try func(item) error, opts ...stage.Option) *stage.Stage[item] {
		return stage.New("fair", batchOf(try), opts...)
	},
	"Coroutine": func(try func(item) error, opts ...stage.Option) *stage.Stage[item] {
		return stage.Coroutine("fair", func(c behaviour.Suspender, i item) behaviour.Outcome {
			if i.n%2 == 0 {
				if err := coroutine.Sleep(c, 10*time.Microsecond); err != nil {
					return behaviour.Error(err)
				}
			}
			return outcome(try(i))
		}, opts...)
	},
}

func outcome(err error) behaviour.Outcome {
	if err != nil {
		return behaviour.Error(err)
	}
	return behaviour.OK(nil)
}

// batchOf is a Batcher.
type batchOf func(item) error

func (b batchOf) HandleCommand(_ context.Context, i item) behaviour.Outcome { return outcome(b(i)) }

func (b batchOf) HandleBatch(_ context.Context, is []item) (outcomes []behaviour.Outcome) {
	for _, i := range is {
		outcomes = append(outcomes, outcome(b(i)))
	}
	return outcomes
}

// Some commands fail once, and some crash once. Meanwhile policies are swapped, so that private, shared and polled workers come and go.
func TestEveryCommandOfEveryTenantIsHandledOnce(t *testing.T) {
	const tenants, each = 20, 200
	for name, fair := range fairKinds {
		for _, atOnce := range []int{0, 1, 3} {
			t.Run(fmt.Sprintf("%s/%d", name, atOnce), func(t *testing.T) {
				t.Parallel()
				var tries, done [tenants][each]atomic.Int32
				s := fair(func(i item) error {
					first := tries[i.key][i.n].Add(1) == 1
					switch {
					case first && i.oneIn(50):
						panic("a crash")
					case first && i.oneIn(7):
						return errors.New("once more")
					}
					done[i.key][i.n].Add(1)
					return nil
				}, stage.Fair(keyOf, plus1, atOnce), stage.Capacity(64), stage.Retry(stage.RetryPolicy{Attempts: 100, Backoff: time.Microsecond, Jitter: 1}))
				before := forwarder("before", s, stage.Fair(keyOf, nil, atOnce))
				p, err := pipeline.New("test", before, s, quiet)
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				var submitters sync.WaitGroup
				for tenant := range tenants {
					submitters.Go(func() {
						for n := range each {
							to := s
							if n%2 == 0 {
								to = before
							}
							err := to.Submit(t.Context(), item{tenant, n})
							for refused(err) { // by the policy of the moment
								time.Sleep(100 * time.Microsecond)
								err = to.Submit(t.Context(), item{tenant, n})
							}
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
				laws := slices.DeleteFunc(policy.Names(), func(name string) bool { return name == "color" || name == "codel" }) // codel discards commands that have waited
				for _, name := range laws {
					law, err := policy.ByName(name)
					require.NoError(t, err)
					require.NoError(t, p.SetPolicy(law))
					time.Sleep(time.Millisecond)
				}
				submitters.Wait()
				require.NoError(t, p.Drain(t.Context()))
				for tenant := range tenants {
					for n := range each {
						if got := done[tenant][n].Load(); got != 1 && name != "Batcher" { // of a batch that crashed some were handled
							t.Fatalf("command %d of tenant %d was handled %d times", n, tenant, got)
						} else if got == 0 {
							t.Fatalf("command %d of tenant %d was not handled", n, tenant)
						}
					}
				}
				snap := s.Snapshot()
				require.EqualValues(t, tenants*each, snap.Counts.OK)
				require.True(t, snap.Balanced())
				require.Zero(t, snap.Queue.FairKeys)
				require.NoError(t, p.Stop(context.Background()))
				require.Zero(t, p.Snapshot().InFlight)
			})
		}
	}
}

func refused(err error) bool {
	_, refused := stage.Overloaded(err)
	return refused
}

func TestNoTenantHasMoreHandlersThanItsBound(t *testing.T) {
	for name, fair := range fairKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const tenants, most = 3, 2
			var at [tenants]atomic.Int32
			var over, seen atomic.Int32
			s := fair(func(i item) error {
				if now := at[i.key].Add(1); now > most {
					over.Store(now)
				} else if now == most {
					seen.Store(now)
				}
				time.Sleep(100 * time.Microsecond)
				at[i.key].Add(-1)
				return nil
			}, stage.Fair(keyOf, nil, most), stage.Workers(8, 8))
			p := run(t, s)
			for i := range 600 {
				require.NoError(t, s.Submit(t.Context(), item{i % tenants, i}))
			}
			require.NoError(t, p.Drain(t.Context()))
			require.Zero(t, over.Load(), "handlers of one tenant at once")
			require.EqualValues(t, most, seen.Load())
		})
	}
}

func TestATenantAloneHasTheWholeFairStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage.Func("s", func(context.Context, item) behaviour.Outcome { time.Sleep(time.Second); return behaviour.OK(nil) },
			stage.Fair(keyOf, nil, 0), stage.Workers(4, 4), stage.Batch(1))
		p := run(t, s)
		began := time.Now()
		for i := range 40 {
			require.NoError(t, s.Submit(t.Context(), item{1, i}))
		}
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}

// The stage's worker is busy, so that all commands wait.
func busyFair(t *testing.T, opts ...stage.Option) (s *stage.Stage[item], p *pipeline.Pipeline, handled *[]int) {
	t.Helper()
	var order []int
	s = stage.Func("s", func(_ context.Context, i item) behaviour.Outcome {
		time.Sleep(time.Second)
		order = append(order, i.key)
		return behaviour.OK(nil)
	}, append(opts, stage.Fair(keyOf, nil, 0), stage.Workers(1, 1))...)
	p = run(t, s)
	require.NoError(t, s.Submit(t.Context(), item{9, 0}))
	synctest.Wait()
	return s, p, &order
}

func TestATenantWithAFullShareIsRefusedAndOthersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, _ := busyFair(t, stage.Capacity(8), stage.Overflow(overflow.Reject))
		n, err := s.SubmitAll(t.Context(), make([]item, 8)...)
		require.ErrorIs(t, err, stage.ErrFull)
		require.ErrorContains(t, err, "2 of its commands wait, as many as KeyCapacity allows")
		require.Equal(t, 2, n, "a quarter")
		for key := 1; key < 4; key++ {
			n, err := s.SubmitAll(t.Context(), item{key, 0}, item{key, 1}, item{key, 2})
			require.ErrorIs(t, err, stage.ErrFull)
			require.Equal(t, 2, n)
		}
		require.NoError(t, p.Drain(t.Context()))
	})
}

// Ten callers of one tenant wait for its share. Then one of another tenant comes.
func TestCallersThatWaitForTheirShareHoldUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, handled := busyFair(t, stage.Capacity(8))
		for i := range 12 {
			go func() { _ = s.Submit(context.Background(), item{1, i}) }()
		}
		synctest.Wait()
		require.Equal(t, 10, s.Snapshot().Queue.Submitters)
		began := time.Now()
		require.NoError(t, s.Submit(t.Context(), item{2, 0}))
		require.Zero(t, time.Since(began), "it did not wait")
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, 1, slices.Index(slices.DeleteFunc(*handled, func(k int) bool { return k == 9 }), 2), "its turn is next but one")
	})
}

func TestAFullFairStageDropsOfTheTenantWithTheMostCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shed []item
		s, p, handled := busyFair(t, stage.Capacity(8), stage.KeyCapacity(7), stage.Overflow(overflow.DropOldest))
		for i := range 20 {
			require.NoError(t, s.Submit(t.Context(), item{1, i}))
		}
		require.NoError(t, s.Submit(t.Context(), item{2, 0}))
		require.NoError(t, s.Submit(t.Context(), item{3, 0})) // the stage is full now
		require.NoError(t, s.Submit(t.Context(), item{3, 1}))
		require.EqualValues(t, 15, s.Snapshot().Reasons.Shed[reason.Oldest])
		require.NoError(t, p.Drain(t.Context()))
		for _, l := range p.Quarantine().List(letters.Filter{}) {
			shed = append(shed, l.Command.(item))
		}
		require.NotContains(t, shed, item{2, 0})
		require.Equal(t, []int{9, 1, 2, 3, 1, 3, 1, 1, 1}, (*handled)[:9])
	})
}

func TestCommandsOfAFairStageExpireWhereTheyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, handled := busyFair(t, stage.Capacity(100), stage.TTL(2500*time.Millisecond), stage.Batch(1))
		for i := range 20 {
			require.NoError(t, s.Submit(t.Context(), item{1, i}))
		}
		require.NoError(t, s.Submit(t.Context(), item{2, 0}))
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, []int{9, 1, 2}, *handled)
		require.EqualValues(t, 19, s.Snapshot().Reasons.Shed[reason.Expired])
	})
}

// The commands of one tenant fail again and again. While they wait for their next tries they have slots of their tenant.
func TestRetriesOfATenantHoldItsSlotsAndNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage.Func("s", func(_ context.Context, i item) behaviour.Outcome {
			if i.key == 1 {
				return behaviour.Error(errors.New("no"))
			}
			return behaviour.OK(nil)
		}, stage.Fair(keyOf, nil, 0), stage.Capacity(16), stage.Retry(stage.RetryPolicy{Attempts: 5, Backoff: time.Minute}))
		p := run(t, s)
		for i := range 12 {
			go func() { _ = s.Submit(context.Background(), item{1, i}) }()
		}
		time.Sleep(time.Second)
		require.LessOrEqual(t, s.Snapshot().Queue.Delayed, 4+4, "a quarter, and a batch that was taken before")
		require.Equal(t, 12, s.Snapshot().Queue.Delayed+s.Snapshot().Queue.Submitters)
		for i := range 100 {
			_, err := stage.Call[any](t.Context(), s, item{2, i})
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Hour)
		require.NoError(t, p.Drain(t.Context()))
		require.EqualValues(t, 12, s.Snapshot().Counts.Errors)
		require.Zero(t, s.Snapshot().Queue.FairKeys)
	})
}

func TestABatcherIsGivenNoCommandWithoutAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int32
		s := stage.New("s", batchOf(func(i item) error { handled.Add(1); return nil }),
			stage.Fair(func(i item) int {
				if i.n%10 == 3 {
					panic("no tenant")
				}
				return i.key
			}, nil, 0), stage.Retry(stage.RetryPolicy{Attempts: 2}))
		p := run(t, s)
		for i := range 200 {
			require.NoError(t, s.Submit(t.Context(), item{i % 7, i}))
		}
		require.NoError(t, p.Drain(t.Context()))
		synctest.Wait()
		require.Equal(t, 20, p.Quarantine().Len())
		require.EqualValues(t, 180, s.Snapshot().Counts.OK)
	})
}

func TestAHandlerThatCallsItsOwnFairStageForItsKeyIsRefusedIfThereIsABound(t *testing.T) {
	for _, c := range []struct {
		atOnce int
		want   error
	}{{0, nil}, {1, stage.ErrSelfCall}} {
		synctest.Test(t, func(t *testing.T) {
			var s *stage.Stage[item]
			s = stage.Coroutine("s", func(c behaviour.Suspender, i item) behaviour.Outcome {
				if i.n > 0 {
					_, err := stage.Call[any](c, s, item{i.key, i.n - 1})
					return outcome(err)
				}
				return behaviour.OK(nil)
			}, stage.Fair(keyOf, nil, c.atOnce))
			run(t, s)
			_, err := stage.Call[any](t.Context(), s, item{1, 1})
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestTenantsTakeTurnsAtAStageWithWindowsWhichTakesNoBoundForHandlers(t *testing.T) {
	windows := func(opts ...stage.Option) *stage.Flow[item, window.Window[struct{}, []item]] {
		return window.All("w", window.Bounds[item]{Count: 2}, opts...)
	}
	keep := &collector[window.Window[struct{}, []item]]{}
	w := windows(stage.Fair(keyOf, nil, 0))
	p := run(t, w.To(keep.stage("keep")))
	require.NoError(t, p.Pause(w))
	for _, key := range []int{1, 1, 1, 1, 2, 2} {
		require.NoError(t, w.Submit(t.Context(), item{key: key}))
	}
	require.NoError(t, p.Resume(w))
	require.NoError(t, p.Drain(t.Context()))
	require.Len(t, keep.got, 3)

	_, err := pipeline.New("p", windows(stage.Fair(keyOf, nil, 1)).To(keep.stage("keep")), quiet)
	require.ErrorContains(t, err, "Fair(key, weight, 1): a stage with windows holds its commands until the windows close")
}

// The commands are suspended, expire, end with their callers, crash and are tried again. If one of them were counted as a handler for
// ever, its tenant would stand still.
func TestNoEndOfASuspendedCommandLeavesAHandlerBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *stage.Stage[item]
		s = stage.Coroutine("s", func(c behaviour.Suspender, i item) behaviour.Outcome {
			if err := coroutine.Sleep(c, 10*time.Millisecond); err != nil {
				return behaviour.Error(err)
			}
			switch i.n % 5 {
			case 0:
				panic("a crash")
			case 1:
				runtime.Goexit()
			case 2:
				return behaviour.Error(errors.New("once more"))
			}
			return behaviour.OK(nil)
		}, stage.Fair(keyOf, nil, 1), stage.Workers(2, 2), stage.TTL(100*time.Millisecond), stage.Timeout(20*time.Millisecond),
			stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Millisecond}))
		p := run(t, s)
		for i := range 300 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%50+1)*time.Duration(1+i%4)*time.Millisecond)
			defer cancel()
			if _, err := s.Ask(ctx, item{i % 3, i}); err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		}
		time.Sleep(10 * time.Second)
		for key := range 3 {
			_, err := stage.Call[any](t.Context(), s, item{key, 3})
			require.NoError(t, err)
		}
		require.NoError(t, p.Drain(t.Context()))
		snap := s.Snapshot()
		require.Positive(t, snap.Counts.Crashes)
		require.Positive(t, snap.Counts.Shed)
		require.True(t, snap.Balanced())
	})
}

func TestWhatIsWrongWithAFairStageIsReported(t *testing.T) {
	ok := func(context.Context, item) behaviour.Outcome { return behaviour.OK(nil) }
	fair := stage.Fair(keyOf, nil, 0)
	for name, c := range map[string]struct {
		make func() *stage.Stage[item]
		want string
	}{
		"no key": {func() *stage.Stage[item] { return stage.Func("s", ok, stage.Fair[item, int](nil, nil, 0)) },
			"Fair(key, weight, 0): the function for the key is nil"},
		"another type": {func() *stage.Stage[item] { return stage.Func("s", ok, stage.Fair(hostOf, nil, 0)) },
			"Fair(key, weight, 0): the key takes string, and the stage's commands are stage_test.item"},
		"less than no handlers": {func() *stage.Stage[item] { return stage.Func("s", ok, stage.Fair(keyOf, nil, -1)) },
			"Fair(key, weight, -1): the number of handlers must not be negative"},
		"twice": {func() *stage.Stage[item] { return stage.Func("s", ok, fair, fair) }, "Fair: is given twice"},
		"Keyed": {func() *stage.Stage[item] {
			return stage.Keyed("s", keyOf, func(k int) *account { return &account{key: k} }, fair)
		}, "a Keyed stage has an order of its own, and takes no Fair"},
		"Ordered": {func() *stage.Stage[item] { return stage.Func("s", ok, fair, stage.Ordered()) },
			"Fair(key, weight, 0): a stage that is Ordered has an order of its own, and takes no Fair"},
		"a discipline": {func() *stage.Stage[item] { return stage.Func("s", ok, fair, stage.Discipline(queue.LIFO{})) },
			"Fair(key, weight, 0): a stage with Fair has an order of its own, and takes no Discipline"},
		"a rate by key": {func() *stage.Stage[item] { return stage.Func("s", ok, fair, stage.RateBy(keyOf, 1, time.Second, 1)) },
			"Fair(key, weight, 0): a stage with RateBy has an order of its own, and takes no Fair"},
		"a guard": {func() *stage.Stage[item] {
			return stage.Func("s", ok, fair, stage.Guard("item", func(func(string) guard.Counters) bool { return true }))
		}, "Guard: a stage with guards has an order of its own, and takes no Fair"},
		"a share above the stage": {func() *stage.Stage[item] { return stage.Func("s", ok, fair, stage.Capacity(4), stage.KeyCapacity(5)) },
			"KeyCapacity(5): must be at most the capacity, 4"},
		"a share of nothing": {func() *stage.Stage[item] { return stage.Func("s", ok, stage.KeyCapacity(5)) }, "is for stages with keys, Keyed and Fair"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New("p", c.make(), quiet)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A thousand tenants send, the first of them most, and the last ones seldom. One more tenant sends as much as all of them, which is
// more than the stage can do. A handler takes ten milliseconds, which is the time of a command in an empty stage.
func TestATenantThatSendsHalfOfAllTakesNothingFromAThousandOthers(t *testing.T) {
	const tenants, flooder, takes = 1000, 1000, 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sent, done := make([]int, tenants+1), make([]int, tenants+1)
		var quiet []time.Duration
		s := stage.Func("s", func(_ context.Context, i item) behaviour.Outcome {
			time.Sleep(takes)
			mu.Lock()
			defer mu.Unlock()
			done[i.key]++
			if i.key >= tenants/2 && i.key != flooder {
				quiet = append(quiet, time.Duration(time.Now().UnixNano()-int64(i.n)))
			}
			return behaviour.OK(nil)
		}, stage.Fair(keyOf, nil, 0), stage.Workers(16, 16), stage.Overflow(overflow.Reject))
		p := run(t, s, pipeline.Control(policy.Fixed{}))
		draw := rand.New(rand.NewPCG(1, 2))
		zipf := rand.NewZipf(draw, 1.1, 10, tenants-1)
		const rate = 2400 // in a second, and the workers can do 1,600
		for range 20 * rate {
			key := flooder
			if draw.IntN(2) == 0 {
				key = int(zipf.Uint64())
			}
			sent[key]++
			_ = s.Submit(t.Context(), item{key, int(time.Now().UnixNano())})
			time.Sleep(time.Duration(draw.ExpFloat64() * float64(time.Second) / rate))
		}
		require.NoError(t, p.Drain(t.Context()))
		for key := range tenants {
			require.GreaterOrEqual(t, float64(done[key]), 0.95*float64(sent[key]), "tenant %d", key)
		}
		slices.Sort(quiet)
		t.Logf("quiet tenants: p50 %v, p99 %v", quiet[len(quiet)/2], quiet[len(quiet)*99/100])
		require.LessOrEqual(t, quiet[len(quiet)*99/100], 2*takes, "the 99th percentile of the time of quiet tenants")
		require.Less(t, done[flooder], sent[flooder], "it is not overload otherwise")
	})
}
