package stage_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// deed is a command: what an instance that counts is to do.
type deed func(c *tallier) behaviour.Outcome

// tallier is an instance with a number that outlives it.
type tallier struct {
	n        int
	snapshot func(c *tallier) any
	restore  func(c *tallier, state any) error
	stopped  *atomic.Int64
}

func (c *tallier) HandleCommand(_ context.Context, d deed) behaviour.Outcome { return d(c) }

func (c *tallier) Stop() {
	if c.stopped != nil {
		c.stopped.Add(1)
	}
}

func (c *tallier) Snapshot() any {
	if c.snapshot != nil {
		return c.snapshot(c)
	}
	return c.n
}

func (c *tallier) Restore(state any) error {
	if c.restore != nil {
		return c.restore(c, state)
	}
	c.n = state.(int)
	return nil
}

// add counts and answers how many there are.
func add(c *tallier) behaviour.Outcome { c.n++; return behaviour.OK(c.n) }

// addAndCrash counts and crashes.
func addAndCrash(c *tallier) behaviour.Outcome { c.n += 1000; panic("crash") }

// addAndFail counts and answers with an error.
func addAndFail(c *tallier) behaviour.Outcome {
	c.n++
	return behaviour.Error(errors.New("failed"))
}

// counting calls test for a stage of Each and one of Keyed, each with one instance at a time. Make returns a fresh instance; if it is
// nil, a tallier.
func counting(t *testing.T, makes func() *tallier, test func(t *testing.T, s *stage.Stage[deed]), opts ...stage.Option) {
	t.Helper()
	if makes == nil {
		makes = func() *tallier { return &tallier{} }
	}
	opts = append(opts, stage.Workers(1, 1))
	t.Run("of Each", func(t *testing.T) { test(t, stage.Each("count", makes, opts...)) })
	t.Run("of Keyed", func(t *testing.T) {
		test(t, stage.Keyed("count", func(deed) int { return 0 }, func(int) *tallier { return makes() }, opts...))
	})
}

// do has a stage do something, and returns the answer.
func do(t *testing.T, s *stage.Stage[deed], d deed) (int, error) {
	t.Helper()
	return stage.Call[int](t.Context(), s, d)
}

// requireCount checks what a tallier has counted, with this.
func requireCount(t *testing.T, s *stage.Stage[deed], want int) {
	t.Helper()
	n, err := do(t, s, add)
	require.NoError(t, err)
	require.Equal(t, want, n)
}

func TestAnInstanceThatComesAfterACrashHasWhatTheCommandsBeforeItChanged(t *testing.T) {
	counting(t, nil, func(t *testing.T, s *stage.Stage[deed]) {
		run(t, s)
		requireCount(t, s, 1)
		_, err := do(t, s, addAndFail)
		require.ErrorContains(t, err, "failed")
		for want := 3; want < 6; want++ {
			_, err = do(t, s, addAndCrash)
			require.True(t, stage.Crashed(err), "%v", err)
			_, err = do(t, s, func(c *tallier) behaviour.Outcome { c.n += 1000; runtime.Goexit(); return behaviour.OK(0) })
			require.True(t, stage.Crashed(err), "%v", err)
			requireCount(t, s, want)
		}
	})
}

func TestAnInstanceWithoutASnapshotIsFollowedByAFreshOne(t *testing.T) {
	counting(t, func() *tallier { return &tallier{snapshot: func(*tallier) any { return nil }} }, func(t *testing.T, s *stage.Stage[deed]) {
		run(t, s)
		requireCount(t, s, 1)
		_, _ = do(t, s, addAndCrash)
		requireCount(t, s, 1)
	})
}

func TestASnapshotThatCrashesIsACrashOfItsCommand(t *testing.T) {
	for name, crash := range map[string]func(){
		"by a panic":  func() { panic("no snapshot") },
		"by a Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			var broken atomic.Bool
			snapshot := func(c *tallier) any {
				if broken.CompareAndSwap(true, false) {
					crash()
				}
				return c.n
			}
			counting(t, func() *tallier { return &tallier{snapshot: snapshot} }, func(t *testing.T, s *stage.Stage[deed]) {
				p := run(t, s)
				requireCount(t, s, 1)
				broken.Store(true)
				_, err := do(t, s, add)
				require.True(t, stage.Crashed(err), "%v", err)
				requireCount(t, s, 2)
				require.Equal(t, uint64(1), p.Snapshot().Stages[0].Counts.Crashes)
			})
		})
	}
}

func TestAnInstanceThatCannotBeRestoredIsFollowedByAFreshOneAndNoCommandIsCharged(t *testing.T) {
	for name, restore := range map[string]func(c *tallier, state any) error{
		"an error":              func(*tallier, any) error { return errors.New("not my state") },
		"a panic":               func(*tallier, any) error { panic("not my state") },
		"a Goexit":              func(*tallier, any) error { runtime.Goexit(); return nil },
		"a snapshot that fails": func(c *tallier, _ any) error { c.snapshot = func(*tallier) any { panic("not my state") }; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			var stopped atomic.Int64
			half := func(c *tallier, state any) error { c.n = 500; return restore(c, state) }
			counting(t, func() *tallier { return &tallier{restore: half, stopped: &stopped} }, func(t *testing.T, s *stage.Stage[deed]) {
				stopped.Store(0)
				var log safeBuffer
				p, err := pipeline.New("p", s, pipeline.Logger(slog.New(slog.NewTextHandler(&log, nil))))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				requireCount(t, s, 1)
				_, err = do(t, s, addAndCrash)
				require.True(t, stage.Crashed(err))
				requireCount(t, s, 1)
				snap := s.Snapshot()
				require.Equal(t, uint64(1), snap.Counts.Crashes)
				require.Contains(t, log.String(), "could not be restored; a fresh one begins without its state")
				if name != "a Goexit" {
					require.Contains(t, log.String(), "not my state")
				}
				require.Equal(t, int64(2), stopped.Load(), "the one that crashed, and the one that was not restored")
				require.NoError(t, p.Stop(t.Context()))
				require.Equal(t, int64(3), stopped.Load())
			})
		})
	}
}

// safeBuffer is a buffer that several goroutines may use.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestWithASnapshotEveryThreeCommandsACrashUndoesAtMostTwoMore(t *testing.T) {
	counting(t, nil, func(t *testing.T, s *stage.Stage[deed]) {
		run(t, s)
		for want := 1; want <= 5; want++ {
			requireCount(t, s, want)
		}
		_, _ = do(t, s, addAndCrash)
		requireCount(t, s, 4)
		requireCount(t, s, 5)
		_, _ = do(t, s, addAndCrash)
		requireCount(t, s, 4)
		requireCount(t, s, 5)
		requireCount(t, s, 6)
		_, _ = do(t, s, addAndCrash)
		requireCount(t, s, 7)
	}, stage.SnapshotEvery(3))
}

func TestAnInstanceThatIsReplacedWithoutACrashLeavesAllOfItsState(t *testing.T) {
	var s *stage.Stage[deed]
	makes := func() *tallier { return &tallier{} }
	for name, replace := range map[string]func(*testing.T){
		"by an upgrade": func(t *testing.T) {
			r, err := s.Upgrade(t.Context(), func() behaviour.Behaviour[deed] { return makes() })
			require.NoError(t, err)
			<-r
		},
		"by two upgrades": func(t *testing.T) {
			for range 2 {
				_, err := s.Upgrade(t.Context(), func() behaviour.Behaviour[deed] { return makes() })
				require.NoError(t, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s = stage.Each("count", makes, stage.Workers(1, 1), stage.SnapshotEvery(100))
			run(t, s)
			for want := 1; want <= 5; want++ {
				requireCount(t, s, want)
			}
			replace(t)
			requireCount(t, s, 6)
		})
	}
	t.Run("because its key was idle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage.Keyed("count", func(deed) int { return 0 }, func(int) *tallier { return makes() },
				stage.SnapshotEvery(100), stage.Passivate(time.Minute, 0), stage.KeepStates(1))
			p, err := pipeline.New("p", s, quiet)
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			requireCount(t, s, 1)
			requireCount(t, s, 2)
			time.Sleep(2 * time.Minute)
			snap := s.Snapshot()
			assert.Equal(t, []int{0, 1, 1}, []int{snap.Workers.Keys, int(snap.Counts.Passivated), snap.Workers.KeptStates})
			requireCount(t, s, 3)
			snap = s.Snapshot()
			assert.Equal(t, []int{1, 1, 0}, []int{snap.Workers.Keys, int(snap.Counts.Passivated), snap.Workers.KeptStates})
			_, _ = do(t, s, addAndCrash)
			time.Sleep(2 * time.Minute)
			requireCount(t, s, 3)
			require.NoError(t, p.Stop(t.Context()))
			snap = s.Snapshot()
			assert.Equal(t, []int{0, 0}, []int{snap.Workers.Keys, snap.Workers.KeptStates})
		})
	})
}

// rememberer counts the commands of its key.
type rememberer struct{ n int }

func (r *rememberer) HandleCommand(context.Context, item) behaviour.Outcome {
	r.n++
	return behaviour.OK(r.n)
}

func (r *rememberer) Snapshot() any           { return r.n }
func (r *rememberer) Restore(state any) error { r.n = state.(int); return nil }

func TestStatesOfPassivatedInstancesAreKeptUpToABound(t *testing.T) {
	s := stage.Keyed("s", keyOf, func(int) *rememberer { return &rememberer{} },
		stage.Passivate(0, 1), stage.KeepStates(10), stage.Workers(1, 1))
	run(t, s)
	for k := range 30 {
		_, err := stage.Call[int](t.Context(), s, item{k, 0})
		require.NoError(t, err)
	}
	snap := s.Snapshot()
	require.Equal(t, []int{1, 10}, []int{snap.Workers.Keys, snap.Workers.KeptStates})
	for k := 29; k >= 0; k-- {
		n, err := stage.Call[int](t.Context(), s, item{k, 1})
		require.NoError(t, err)
		want := 1
		if k >= 30-1-10 {
			want = 2
		}
		require.Equal(t, want, n, "key %d", k)
		require.LessOrEqual(t, s.Snapshot().Workers.KeptStates, 10)
	}
}

func TestWhatAHandlerThatWasGivenUpChangesIsNotInTheState(t *testing.T) {
	counting(t, nil, func(t *testing.T, s *stage.Stage[deed]) {
		hold, left := make(chan struct{}), make(chan struct{})
		run(t, s)
		requireCount(t, s, 1)
		_, err := do(t, s, func(c *tallier) behaviour.Outcome {
			c.n += 1000
			<-hold
			c.n += 1000
			close(left)
			return behaviour.OK(c.n)
		})
		require.ErrorIs(t, err, stage.ErrStuck)
		requireCount(t, s, 2)
		close(hold)
		<-left
		requireCount(t, s, 3)
		require.Eventually(t, func() bool { return s.Snapshot().Workers.Abandoned == 0 }, 5*time.Second, time.Millisecond)
		_, _ = do(t, s, addAndCrash)
		requireCount(t, s, 4)
	}, stage.Timeout(30*time.Millisecond), stage.Grace(30*time.Millisecond))
}

func TestWhatAMiddlewareThatCrashesOrIsStuckHasCalledIsNotInTheState(t *testing.T) {
	for name, fail := range map[string]func(hold <-chan struct{}){
		"a panic":     func(<-chan struct{}) { panic("crash") },
		"a Goexit":    func(<-chan struct{}) { runtime.Goexit() },
		"being stuck": func(hold <-chan struct{}) { <-hold },
	} {
		t.Run(name, func(t *testing.T) {
			var fails atomic.Bool
			var hold chan struct{}
			after := stage.Middleware(func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
				o := next(ctx, cmd)
				if fails.CompareAndSwap(true, false) {
					fail(hold)
				}
				return o
			})
			var stopped atomic.Int64
			counting(t, func() *tallier { return &tallier{stopped: &stopped} }, func(t *testing.T, s *stage.Stage[deed]) {
				stopped.Store(0)
				hold = make(chan struct{})
				p := run(t, s)
				requireCount(t, s, 1)
				requireCount(t, s, 2)
				fails.Store(true)
				_, err := do(t, s, add)
				require.True(t, stage.Crashed(err), "%v", err)
				requireCount(t, s, 3)
				close(hold)
				require.Eventually(t, func() bool { return s.Snapshot().Workers.Abandoned == 0 }, 5*time.Second, time.Millisecond)
				requireCount(t, s, 4)
				require.Equal(t, int64(1), stopped.Load())
				require.NoError(t, p.Stop(t.Context()))
				require.Equal(t, int64(2), stopped.Load(), "each instance is stopped once")
			}, after, stage.Timeout(30*time.Millisecond), stage.Grace(30*time.Millisecond))
		})
	}
}

func TestAMiddlewareMayCallTheHandlerTwiceOrWithAnotherContext(t *testing.T) {
	twice := stage.Middleware(func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		next(ctx, cmd)
		return next(context.WithoutCancel(ctx), cmd)
	})
	counting(t, nil, func(t *testing.T, s *stage.Stage[deed]) {
		run(t, s)
		requireCount(t, s, 2)
		_, _ = do(t, s, func(c *tallier) behaviour.Outcome {
			if c.n++; c.n == 4 {
				panic("crash") // after a first call that did not
			}
			return behaviour.OK(c.n)
		})
		requireCount(t, s, 4)
	}, twice)
	counting(t, nil, func(t *testing.T, s *stage.Stage[deed]) {
		run(t, s)
		requireCount(t, s, 1)
		_, _ = do(t, s, addAndCrash)
		requireCount(t, s, 2)
	}, stage.Middleware(func(_ context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		return next(context.Background(), cmd) //nolint:contextcheck // on purpose
	}))
}

func TestAStageThatBrokeBeginsWithoutState(t *testing.T) {
	counting(t, nil, func(t *testing.T, s *stage.Stage[deed]) {
		run(t, s, pipeline.Intensity(1, time.Minute))
		requireCount(t, s, 1)
		// the state is why all commands crash
		requireCrash := func(d deed) {
			_, err := do(t, s, d)
			require.True(t, stage.Crashed(err), "%v", err)
		}
		for range 3 {
			requireCrash(addAndCrash)
		}
		require.Eventually(t, func() bool {
			n, err := do(t, s, add)
			return err == nil && n == 1
		}, 5*time.Second, time.Millisecond)
	}, stage.Restart(stage.RestartPolicy{Limit: 1}))
}

// onlySnapshots has no Restore, and onlyRestores no Snapshot.
type (
	onlySnapshots struct{}
	onlyRestores  struct{}
)

func (*onlySnapshots) Snapshot() any    { return nil }
func (*onlyRestores) Restore(any) error { return nil }

func (*onlySnapshots) HandleCommand(context.Context, item) behaviour.Outcome {
	return behaviour.OK(nil)
}

func (*onlyRestores) HandleCommand(context.Context, item) behaviour.Outcome { return behaviour.OK(nil) }

func TestOptionsAndBehavioursThatDoNotFitSnapshotsAreFaults(t *testing.T) {
	each := func(opts ...stage.Option) *stage.Stage[deed] {
		return stage.Each("s", func() *tallier { return &tallier{} }, opts...)
	}
	heirOf := func(k int) *heir { return &heir{key: k} }
	for name, c := range map[string]struct {
		s    pipeline.Part
		want string
	}{
		"a shared behaviour":           {stage.New("s", &tallier{}), `stage "s": New: *stage_test.tallier is a Snapshotter, but all workers share it`},
		"no Restore":                   {stage.Keyed("s", keyOf, func(int) *onlySnapshots { return nil }), `no Restore(any) error`},
		"no Snapshot":                  {stage.Keyed("s", keyOf, func(int) *onlyRestores { return nil }), `no Snapshot() any`},
		"every zero commands":          {each(stage.SnapshotEvery(0)), `SnapshotEvery(0): must be at least 1`},
		"snapshots of a function":      {stage.Func("s", stay, stage.SnapshotEvery(2)), `SnapshotEvery(2): is for stages with instances of their own`},
		"no states":                    {stage.Keyed("s", keyOf, heirOf, stage.Passivate(0, 1), stage.KeepStates(0)), `KeepStates(0): must be at least 1`},
		"states that are never needed": {stage.Keyed("s", keyOf, heirOf, stage.KeepStates(1)), `KeepStates(1): means nothing without Passivate`},
		"states of no key":             {each(stage.KeepStates(1)), `KeepStates(1): means nothing without Passivate`},
		"no states to keep": {
			stage.Keyed("s", keyOf, func(int) *account { return nil }, stage.Passivate(0, 1), stage.KeepStates(1)), `KeepStates: *stage_test.account is no Snapshotter`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New("p", c.s)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func stay(context.Context, item) behaviour.Outcome { return behaviour.OK(nil) }

func TestAFactoryWhoseInstancesCannotBeRestoredIsReported(t *testing.T) {
	each := stage.Each("s", func() *onlySnapshots { return &onlySnapshots{} })
	p, err := pipeline.New("p", each, quiet)
	if err == nil {
		err = p.Start(t.Context())
	}
	require.ErrorContains(t, err, "no Restore(any) error")

	keyed := stage.Keyed("s", keyOf, func(int) behaviour.Behaviour[item] { return &onlySnapshots{} })
	run(t, keyed)
	_, err = stage.Call[any](t.Context(), keyed, item{})
	require.ErrorContains(t, err, "no Restore(any) error")

	shared := stage.New("s", behaviour.Func[deed](func(context.Context, deed) behaviour.Outcome { return behaviour.OK(nil) }))
	run(t, shared)
	_, err = shared.Upgrade(t.Context(), func() behaviour.Behaviour[deed] { return &tallier{} })
	require.ErrorContains(t, err, "a Snapshotter, but all workers share it")
}
