package pipeline_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// hearing counts the ends of commands by their number.
type hearing struct {
	mu    sync.Mutex
	times map[int]int
	errs  map[int]error
}

func (h *hearing) of(n int) func(error) {
	return func(err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.times[n]++
		h.errs[n] = err
	}
}

func newHearing() *hearing { return &hearing{times: map[int]int{}, errs: map[int]error{}} }

func TestASourceHearsHowEachOfItsCommandsEnded(t *testing.T) {
	h, no := newHearing(), errors.New("no")
	child := stage.Func("child", func(_ context.Context, n int) behaviour.Outcome {
		if n%5 == 0 {
			return behaviour.Error(no)
		}
		return behaviour.OK(nil)
	})
	parent := stage.Func("parent", func(ctx context.Context, n int) behaviour.Outcome {
		if n%7 == 0 {
			panic("no")
		}
		if err := behaviour.Emit(ctx, child, n); err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(nil)
	}, stage.Restart(stage.RestartPolicy{Limit: 1000, Backoff: time.Microsecond, Max: time.Microsecond}))
	const n = 1000
	src := source.Ends(func(_ context.Context, submit func(int, func(error)) error) error {
		for i := range n {
			if err := submit(i, h.of(i)); err != nil {
				return err
			}
		}
		return nil
	})
	p, err := pipeline.New("heard", parent, child, pipeline.Feed("numbers", parent, src), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Run(t.Context()))
	require.Len(t, h.times, n)
	for i := range n {
		require.Equal(t, 1, h.times[i], i)
		var crash *stage.CrashError
		switch {
		case i%7 == 0:
			require.ErrorAs(t, h.errs[i], &crash, i)
		case i%5 == 0:
			require.ErrorIs(t, h.errs[i], no, i)
		default:
			require.NoError(t, h.errs[i], i)
		}
	}
	require.True(t, p.Snapshot().Balanced())
}

func TestAFailureThatItsSourceHearsLeavesNoLetter(t *testing.T) {
	for name, ended := range map[string]func(error){"heard": func(error) {}, "not heard": nil} {
		t.Run(name, func(t *testing.T) {
			fail := stage.Sink("fail", func(context.Context, int) error { return errors.New("no") })
			src := source.Ends(func(_ context.Context, submit func(int, func(error)) error) error { return submit(1, ended) })
			p, err := pipeline.New("letters", pipeline.Feed("one", fail, src), quiet)
			require.NoError(t, err)
			require.NoError(t, p.Run(t.Context()))
			want := 1
			if ended != nil {
				want = 0
			}
			require.Equal(t, want, p.Failures().Len())
		})
	}
}

func TestASourceHearsOfAHardStop(t *testing.T) {
	h, started := newHearing(), make(chan struct{}, 1)
	block := stage.Sink("block", func(ctx context.Context, _ int) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, stage.Workers(1, 1))
	src := source.Ends(func(ctx context.Context, submit func(int, func(error)) error) error {
		for i := range 3 {
			if err := submit(i, h.of(i)); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	})
	p, err := pipeline.New("halted", pipeline.Feed("numbers", block, src), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	<-started
	require.Eventually(t, func() bool { return p.Snapshot().Feeds[0].Submitted == 3 }, time.Minute, time.Millisecond)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Stop(ended)
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1}, h.times)
	require.ErrorIs(t, h.errs[1], stage.ErrStopped)
	require.ErrorIs(t, h.errs[2], stage.ErrStopped)
}

func TestASourceMayHearAndHaveACheckpoint(t *testing.T) {
	h, saved := newHearing(), int64(0)
	done := stage.Sink("done", func(context.Context, int) error { return nil })
	src := source.Checkpoint(source.Ends(func(_ context.Context, submit func(int, func(error)) error) error {
		for i := range 100 {
			if err := submit(i, h.of(i)); err != nil {
				return err
			}
		}
		return nil
	}), 0, func(_ context.Context, position int64) error { saved = position; return nil })
	p, err := pipeline.New("both", pipeline.Feed("numbers", done, src), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Run(t.Context()))
	require.Len(t, h.times, 100)
	require.EqualValues(t, 100, saved)
}

func TestAFeedIsAwayAsLongAsItsSourceSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("the broker is away")
		done := stage.Sink("done", func(context.Context, int) error { return nil })
		src := func(ctx context.Context, submit func(int) error) error {
			if source.Position(ctx) == 0 {
				source.SetAway(ctx, away)
				time.Sleep(time.Second)
				source.SetAway(ctx, nil)
				time.Sleep(time.Second)
				source.SetAway(ctx, away)
				return errors.Join(submit(1), errors.New("a failure"))
			}
			time.Sleep(time.Second) // a new run is not away
			return nil
		}
		p, err := pipeline.New("away", pipeline.Feed("numbers", done, src), quiet)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		is := func() pipeline.FeedSnapshot { synctest.Wait(); return p.Snapshot().Feeds[0] }
		time.Sleep(time.Second / 2)
		require.Equal(t, "away", is().State)
		require.Equal(t, away, is().Err)
		time.Sleep(time.Second)
		require.Equal(t, "running", is().State)
		require.NoError(t, is().Err)
		time.Sleep(time.Second / 2)
		require.Equal(t, "restarting", is().State)
		require.ErrorContains(t, is().Err, "a failure")
		time.Sleep(time.Second / 2)
		require.Equal(t, "running", is().State)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestASourceThatHearsNeedsAFeed(t *testing.T) {
	require.ErrorContains(t, source.Ends[int](nil)(t.Context(), func(int) error { return nil }), "source: Ends: the function is nil")
	src := source.Ends(func(context.Context, func(int, func(error)) error) error { return nil })
	require.ErrorContains(t, src(t.Context(), func(int) error { return nil }), "no feed")
	source.SetAway(t.Context(), errors.New("no feed"))
}
