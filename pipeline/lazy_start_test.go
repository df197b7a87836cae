package pipeline_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestWorkersThatAreNotStartedYetAreCounted(t *testing.T) {
	s := stage.Func("s", fn(echo[int]), stage.Workers(4, 4))
	p := start(t, s)
	require.Equal(t, 4, s.Snapshot().Workers.Live)
	n, err := stage.Call[int](soon(t), s, 7)
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.Equal(t, 4, s.Snapshot().Workers.Live)
	require.NoError(t, p.Stop(soon(t)))
	require.Zero(t, s.Snapshot().Workers.Live)
	atRest(t, p)
}

func TestAsManyWorkersAreStartedAsThereIsWorkFor(t *testing.T) {
	const workers = 5
	all := make(chan struct{})
	var here atomic.Int32
	s := stage.Func("s", func(ctx context.Context, n int) behaviour.Outcome {
		if here.Add(1) == workers {
			close(all)
		}
		select {
		case <-all:
			return behaviour.OK(n)
		case <-ctx.Done():
			return behaviour.Error(ctx.Err())
		}
	}, stage.Workers(workers, workers), stage.Batch(1))
	run(t, s)
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() {
			_, err := stage.Call[int](soon(t), s, n)
			require.NoError(t, err)
		})
	}
	wg.Wait()
}

func TestWorkersThatAreNotStartedYetLeaveWhenAPoolReplacesThem(t *testing.T) {
	s := stage.Func("s", fn(echo[int]), stage.Workers(3, 3))
	p := run(t, s)
	for range 20 {
		require.NoError(t, p.SetPolicy(policy.SRPT{Workers: 3})) // in a smaller pool the stage would keep its own workers
		eventually(t, "its own workers have left", func() bool { return s.Snapshot().Workers.Live == 0 || s.Snapshot().Pool != "s" })
		_, err := stage.Call[int](soon(t), s, 1)
		require.NoError(t, err)
		require.NoError(t, p.SetPolicy(policy.Fixed{}))
		_, err = stage.Call[int](soon(t), s, 2)
		require.NoError(t, err)
		eventually(t, "they are back", func() bool { return s.Snapshot().Workers.Live == 3 })
	}
}

// A command that arrives while the stage stops either starts a worker or is not accepted.
func TestALazyStartThatCrossesAStopLosesNothing(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 40
	}
	for round := range rounds {
		s := stage.Func("s", fn(echo[int]), stage.Workers(2, 2))
		p := start(t, s)
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				_, err := stage.Call[int](soon(t), s, n)
				if err != nil && !errors.Is(err, stage.ErrClosed) && !errors.Is(err, stage.ErrStopped) {
					t.Error(err)
				}
			})
		}
		ctx := soon(t)
		if round%2 == 0 { // hard
			gone, cancel := context.WithCancel(ctx)
			cancel()
			ctx = gone
		}
		_ = p.Stop(ctx)
		wg.Wait()
		s0 := p.Snapshot()
		require.True(t, s0.Balanced(), s0.Law())
		require.Zero(t, s0.InFlight)
		require.Zero(t, s.Snapshot().Workers.Live)
	}
}

// A stage that fails is restarted, and its workers are not started until the queued commands need them.
func TestAFailedStageStartsItsWorkersLazilyAgain(t *testing.T) {
	var bad atomic.Bool
	bad.Store(true)
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
		if bad.Load() {
			panic("bad")
		}
		return behaviour.OK(n)
	}, stage.Workers(2, 2), stage.Restart(stage.RestartPolicy{Limit: -1}))
	p := run(t, s, pipeline.Intensity(100, time.Minute))
	for n := range 8 {
		require.NoError(t, s.Submit(soon(t), n))
		eventually(t, "it has crashed", func() bool { return s.Snapshot().Counts.Crashes == uint64(n+1) })
		if restarts(p) > 0 {
			break
		}
	}
	require.Positive(t, restarts(p), "it broke")
	bad.Store(false)
	got, err := stage.Call[int](soon(t), s, 9)
	require.NoError(t, err)
	require.Equal(t, 9, got)
}

// restarts returns how often the only stage of a pipeline was restarted.
func restarts(p *pipeline.Pipeline) int { return p.Tree().Children[0].Restarts }

// bookish counts its starts and stops.
type bookish struct{ starts, stops *atomic.Int32 }

func (b bookish) Start(context.Context) error { b.starts.Add(1); return nil }
func (b bookish) Stop()                       { b.stops.Add(1) }
func (bookish) HandleCommand(_ context.Context, n int) behaviour.Outcome {
	return behaviour.OK(n)
}

func TestTheInstanceOfALazyWorkerIsStartedAtTheStartAndStoppedAtTheEnd(t *testing.T) {
	for _, call := range []bool{false, true} {
		var made, starts, stops atomic.Int32
		s := stage.Each("s", func() behaviour.Behaviour[int] { made.Add(1); return bookish{&starts, &stops} }, stage.Workers(1, 4))
		p := start(t, s)
		require.EqualValues(t, 1, starts.Load())
		if call {
			_, err := stage.Call[int](soon(t), s, 1)
			require.NoError(t, err)
		}
		require.EqualValues(t, 1, starts.Load(), "the worker took it")
		require.Zero(t, stops.Load())
		require.NoError(t, p.Stop(soon(t)))
		require.EqualValues(t, 1, made.Load())
		require.EqualValues(t, 1, stops.Load())
	}
}
