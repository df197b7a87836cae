package engine

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/internal/version"
	"github.com/golda-dev/golda/worker"
)

// system is made once, because that is slow.
var system = actor.NewSystem(slog.New(slog.DiscardHandler))

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errNo = errors.New("no")

// counted is an instance that handles nothing, and counts starts and ends. Its start calls a function.
type counted struct {
	Instance
	of             *version.Version
	start          func() error
	begun, stopped *atomic.Int64
}

func (c counted) Start(context.Context) error { c.begun.Add(1); return c.start() }
func (c counted) Stop()                       { c.stopped.Add(1) }
func (c counted) Stops() bool                 { return true }
func (c counted) Of() *version.Version        { return c.of }
func (c counted) Version() string             { return "" }
func (c counted) Saved() *version.Saved       { return nil }
func (c counted) Suspends() bool              { return false }
func (c counted) Many() bool                  { return false }

// above is an actor in the place of the supervisor above a pool's.
type above struct {
	pool     *Pool
	reports  []error // what the pool's supervisor reported when it was ready
	failures []any   // why it failed
}

func (a *above) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(*actor.Started); ok {
		_, _ = a.pool.Spawn(ctx, actor.Unique(system, "pool"), func(err error) { a.reports = append(a.reports, err) })
	}
}

func (a *above) HandleFailure(_ *actor.System, _ actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	a.failures = append(a.failures, reason)
	actor.Stop(system, child)
}

// untyped is the typed side of a stage that takes no middleware.
type untyped struct{ Typed }

func (untyped) Surround(any) {}

// fixture is a stage whose workers have instances of their own, and its pool's supervisor.
type fixture struct {
	*Core
	above
	begun, stopped atomic.Int64
	stop           func()
}

// newFixture returns a stage with n workers, whose instances call start when they start.
func newFixture(n int, start func() error) *fixture {
	f := &fixture{}
	f.Core = New(&Config{
		Inbox: &inbox.Config{Name: "s", Capacity: 1, Batch: 1, StreakEnds: time.Hour, Pauses: &inbox.Pauses{
			Start: func(beyond int) time.Duration { return time.Duration(beyond) * time.Second },
		}},
		Fewest: n, Most: 9, Endures: 1 << 20, EnduresStart: 2,
	}, untyped{})
	f.Install(func(of *version.Version) Instance {
		return counted{of: of, start: start, begun: &f.begun, stopped: &f.stopped}
	})
	host := &inbox.Pipeline{Base: time.Now()}
	host.Attach(f.inbox)
	f.Attach(&Env{Host: host, System: system, Name: "test", Log: slog.New(slog.DiscardHandler), Context: context.Background()})
	f.pool = f.Pool
	return f
}

// run starts the pool's supervisor below one that records what it reports.
func (f *fixture) run(t *testing.T) {
	t.Helper()
	pid, err := actor.Spawn(system.Root, actor.Unique(system, "above"), actor.NewMailbox(nil), func() actor.Actor { return &f.above })
	require.NoError(t, err)
	f.stop = func() {
		actor.Stop(system, pid)
		synctest.Wait()
		f.inbox.Phases().Halt()()
		f.Clear()
		f.inbox.Phases().StopTimers()
		time.Sleep(time.Minute) // the throttle of dead letters has to end
	}
	synctest.Wait()
}

// workers returns the names of the actors of the workers.
func (f *fixture) workers() []string {
	return actor.Processes(system, f.supervisor.Load().Id+"/worker-")
}

func TestScalingWhileThePoolStartsTakesEffectWhenItHasStarted(t *testing.T) {
	for _, to := range []int{0, 1, 2, 3, 5} {
		t.Run(strconv.Itoa(to), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				f := newFixture(2, func() error { <-gate; return nil })
				f.run(t)
				f.Scale(part.Seal{}, 7)
				f.Scale(part.Seal{}, to)
				synctest.Wait()
				require.Len(t, f.workers(), 2, "those that it started with")
				require.Empty(t, f.reports)
				close(gate)
				synctest.Wait()
				require.Len(t, f.workers(), to)
				require.Equal(t, []error{nil}, f.reports)
				f.stop()
				require.Equal(t, f.begun.Load(), f.stopped.Load())
				require.Empty(t, f.failures)
			})
		})
	}
}

func TestAWorkerThatCannotStartIsReportedOnceAndNoOtherIsStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(3, func() error { return errNo })
		f.run(t)
		// The end of a worker may overtake its report that it could not start. Then it was started again meanwhile.
		begun := f.begun.Load()
		require.GreaterOrEqual(t, begun, int64(3))
		f.Scale(part.Seal{}, 5)
		time.Sleep(time.Minute)
		require.Len(t, f.reports, 1)
		require.ErrorIs(t, f.reports[0], errNo)
		require.Equal(t, begun, f.begun.Load())
		require.Empty(t, f.failures, "the supervisor above stops it")
		f.stop()
	})
}

func TestAPoolThatRetiresEndsItsWorkersAndThenItself(t *testing.T) {
	cases := map[string]struct {
		early func(f *fixture)                     // before the supervisor starts
		late  func(f *fixture, gate chan struct{}) // then
		begun int
	}{
		"before it starts": {func(f *fixture) { f.Retire() }, func(_ *fixture, gate chan struct{}) { close(gate) }, 0},
		"while it starts":  {nil, func(f *fixture, gate chan struct{}) { f.Retire(); synctest.Wait(); close(gate) }, 2},
		"when it is idle":  {nil, func(f *fixture, gate chan struct{}) { close(gate); synctest.Wait(); f.Retire() }, 2},
		"twice":            {nil, func(f *fixture, gate chan struct{}) { close(gate); synctest.Wait(); f.Retire(); f.Retire() }, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				f := newFixture(2, func() error { <-gate; return nil })
				if c.early != nil {
					c.early(f)
				}
				f.run(t)
				c.late(f, gate)
				f.Scale(part.Seal{}, 5)
				synctest.Wait()
				require.Equal(t, []any{ErrRetired}, f.failures)
				require.Equal(t, []error{nil}, f.reports)
				require.Empty(t, f.workers())
				require.EqualValues(t, c.begun, f.begun.Load())
				require.EqualValues(t, c.begun, f.stopped.Load())
				f.stop()
			})
		})
	}
}

// Each worker is stopped from outside, which counts as a crash. Up to as many in a row as there are workers cost no pause.
func TestPausesGrowWithEachCrashBeyondTheWorkersUntilThePoolGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(2, func() error { return nil })
		f.run(t)
		for i, pause := range []time.Duration{0, 0, time.Second, 2 * time.Second} {
			before := time.Now()
			actor.Stop(system, actor.Local(system, f.workers()[0]))
			synctest.Wait()
			for len(f.workers()) < 2 {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			require.Equal(t, pause, time.Since(before), "after crash %d", i+1)
		}
		actor.Stop(system, actor.Local(system, f.workers()[0]))
		synctest.Wait()
		require.Len(t, f.failures, 1)
		var broken *BrokenError
		require.ErrorAs(t, f.failures[0].(error), &broken)
		require.Equal(t, 5, broken.Crashes)
		require.Equal(t, 2, broken.Pauses)
		require.Equal(t, 3*time.Second, broken.Paused)
		require.Len(t, broken.Last, keptCrashes)
		require.ErrorIs(t, broken, errVanished)
		f.stop()
	})
}

func TestAWorkerThatPausesIsNotStartedWhenThePoolEnds(t *testing.T) {
	for name, end := range map[string]func(f *fixture){"retired": func(f *fixture) { f.Retire() }, "stopped": func(*fixture) {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(2, func() error { return nil })
				f.run(t)
				for range 3 {
					actor.Stop(system, actor.Local(system, f.workers()[0]))
					synctest.Wait()
				}
				require.Len(t, f.workers(), 1, "the other pauses")
				spawned := f.spawns.Load()
				end(f)
				synctest.Wait()
				f.stop()
				require.Equal(t, spawned, f.spawns.Load())
				require.Equal(t, f.begun.Load(), f.stopped.Load())
				vacant := 0
				f.vacant(func(*worker.Worker) { vacant++ })
				require.Equal(t, 2, vacant, "no worker is claimed")
			})
		})
	}
}
