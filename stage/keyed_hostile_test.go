package stage_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// slowStarter is an instance whose first Start of all waits until hold is closed.
type slowStarter struct {
	visits
	no             int64
	hold           <-chan struct{}
	started, ended *atomic.Int64
}

func (s *slowStarter) Start(context.Context) error {
	if s.no == 1 {
		<-s.hold
	}
	s.started.Add(1)
	return nil
}

func (s *slowStarter) Stop() { s.ended.Add(1) }

func (s *slowStarter) HandleCommand(context.Context, item) behaviour.Outcome {
	s.n++
	return behaviour.OK(s.n)
}

func TestAnInstanceThatStartsTooLateTakesNoKeyFromItsSuccessor(t *testing.T) {
	for name, inFactory := range map[string]bool{"in the factory": true, "in Start": false} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			var made, started, stopped atomic.Int64
			s := stage.Keyed("keyed", keyOf, func(int) *slowStarter {
				one := &slowStarter{no: made.Add(1), hold: hold, started: &started, ended: &stopped}
				if inFactory && one.no == 1 {
					<-hold
				}
				return one
			}, stage.Timeout(100*time.Millisecond), stage.Grace(5*time.Millisecond))
			p := run(t, s)
			_, err := stage.Call[int](t.Context(), s, item{1, 0})
			require.ErrorIs(t, err, stage.ErrStuck)
			n, err := stage.Call[int](t.Context(), s, item{1, 1})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			close(hold)
			require.Eventually(t, func() bool { return stopped.Load() == 1 }, 5*time.Second, time.Millisecond, "the late one is stopped")
			n, err = stage.Call[int](t.Context(), s, item{1, 2})
			require.NoError(t, err)
			require.Equal(t, 2, n, "the instance of the last command goes on")
			require.Equal(t, 1, s.Snapshot().Workers.Keys)
			require.NoError(t, p.Stop(t.Context()))
			require.Equal(t, int64(2), started.Load())
			require.Equal(t, int64(2), stopped.Load())
			require.Zero(t, s.Snapshot().Workers.Keys)
			require.Zero(t, s.Snapshot().Counts.Passivated)
		})
	}
}

func TestAnInstanceThatIsInUseWhenTheStageStopsIsStoppedLater(t *testing.T) {
	hold := make(chan struct{})
	l := newLedger()
	s := l.stage(func(i item, _ int) behaviour.Outcome {
		if i.n == 0 {
			<-hold
		}
		return behaviour.OK(nil)
	}, stage.Timeout(time.Millisecond), stage.Grace(time.Millisecond))
	p := run(t, s)
	for stuck := false; !stuck; { // on a busy machine the time limit may pass before the handler begins
		_, err := stage.Call[any](t.Context(), s, item{1, 0})
		stuck = errors.Is(err, stage.ErrStuck)
		require.True(t, stuck || errors.Is(err, stage.ErrTimeout), "%v", err)
	}
	require.NoError(t, p.Stop(t.Context()))
	close(hold)
	require.Eventually(t, func() bool { return l.stopped.Load() == 1 }, 5*time.Second, time.Millisecond)
}

func TestAKeyThatIsNotEqualToItselfCrashesItsCommand(t *testing.T) {
	type nothing struct{ visits }
	s := stage.Keyed("keyed", func(string) float64 { return math.NaN() }, func(float64) *nothing { return new(nothing) })
	run(t, s)
	_, err := stage.Call[any](t.Context(), s, "a")
	require.True(t, stage.Crashed(err))
	require.ErrorContains(t, err, "NaN")
	require.Zero(t, s.Snapshot().Workers.Keys)
}

func TestAKeyThatEndsTheGoroutineDoesNotMixTheOthers(t *testing.T) {
	l := newLedger()
	hold := make(chan struct{})
	at := make(chan struct{}, 10)
	s := stage.Keyed("keyed", func(i item) int {
		if i.key < 0 {
			runtime.Goexit()
		}
		return i.key
	}, func(k int) *account {
		return &account{l, k, func(i item, _ int) behaviour.Outcome {
			at <- struct{}{}
			if i.n == 0 {
				<-hold
			}
			return behaviour.OK(nil)
		}}
	}, stage.Workers(2, 2))
	p := run(t, s)
	require.NoError(t, s.Submit(t.Context(), item{5, 0}))
	<-at
	var ends sync.WaitGroup
	for range 2 {
		ends.Go(func() { _ = s.Submit(t.Context(), item{-1, 0}) })
		ends.Wait()
	}
	require.NoError(t, s.Submit(t.Context(), item{5, 1}))
	_, err := stage.Call[any](t.Context(), s, item{6, 1})
	require.NoError(t, err)
	close(hold)
	require.NoError(t, p.Drain(t.Context()))
	require.Zero(t, l.overlap.Load())
	require.Equal(t, map[int][]int{5: {0, 1}, 6: {1}}, l.seen)
}

// A Stop that hangs holds up its own key, and only for as long as the time limit says.
func TestAnInstanceThatDoesNotStopHoldsUpNoOtherKey(t *testing.T) {
	hold := make(chan struct{})
	entered := make(chan struct{}, 100)
	s := stage.Keyed("keyed", keyOf, func(k int) *hanger { return &hanger{k, hold, entered} },
		stage.Passivate(time.Millisecond, 0), stage.Timeout(20*time.Millisecond), stage.Workers(1, 1))
	p := run(t, s)
	_, err := stage.Call[any](t.Context(), s, item{0, 0})
	require.NoError(t, err)
	<-entered
	_, err = stage.Call[any](t.Context(), s, item{0, 1})
	require.ErrorIs(t, err, stage.ErrTimeout)
	require.NotErrorIs(t, err, stage.ErrStuck)
	_, err = stage.Call[any](t.Context(), s, item{1, 0})
	require.NoError(t, err)
	close(hold)
	require.Eventually(t, func() bool { _, err := stage.Call[any](t.Context(), s, item{0, 2}); return err == nil }, 5*time.Second, time.Millisecond)
	require.NoError(t, p.Stop(t.Context()))
}

type hanger struct {
	key     int
	hold    <-chan struct{}
	entered chan<- struct{}
}

func (h *hanger) Stop() {
	if h.key == 0 {
		h.entered <- struct{}{}
		<-h.hold
	}
}

func (h *hanger) HandleCommand(context.Context, item) behaviour.Outcome { return behaviour.OK(nil) }

// A handler that was given up may come back when the stage has stopped, and its middleware may call it once more.
func TestAHandlerThatIsCalledWhenTheStageHasStoppedGetsNoInstance(t *testing.T) {
	hold := make(chan struct{})
	outcomes := make(chan behaviour.Outcome, 1)
	l := newLedger()
	s := l.stage(func(item, int) behaviour.Outcome {
		<-hold
		return behaviour.OK(nil)
	}, stage.Timeout(time.Millisecond), stage.Grace(time.Millisecond),
		stage.Middleware(func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
			_ = next(ctx, cmd)
			select {
			case <-hold:
				outcomes <- next(ctx, cmd)
			default: // the time limit had passed before the handler began
			}
			return behaviour.OK(nil)
		}))
	p := run(t, s)
	for stuck := false; !stuck; {
		_, err := stage.Call[any](t.Context(), s, item{1, 0})
		stuck = errors.Is(err, stage.ErrStuck)
		require.True(t, stuck || err == nil || errors.Is(err, stage.ErrTimeout), "%v", err)
	}
	require.NoError(t, p.Stop(t.Context()))
	close(hold)
	require.Error(t, (<-outcomes).Err())
	require.Eventually(t, func() bool { return l.stopped.Load() == l.started.Load() }, 5*time.Second, time.Millisecond)
}
