package window_test

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

func TestACommandThatWaitsLongerThanTheTimeLimitLeavesItsWindow(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, by(window.Bounds[word]{Count: 3}, stage.Timeout(time.Minute)), textOf)
		first := b.ask("a1")
		time.Sleep(30 * time.Second)
		b.submit("a2")
		time.Sleep(time.Minute - 1)
		assert.True(t, hasEnded(first))
		require.ErrorIs(t, first.Err(), stage.ErrTimeout)
		b.submit("a3", "a4")
		assert.Equal(t, []string{"1m29.999999999s full a2 a3 a4"}, b.take())
		assert.Empty(t, b.stop())
	})
}

// A function that hangs holds up the commands of its key only, and its late return changes nothing.
func TestAFunctionThatHangsHoldsUpItsKeyOnly(t *testing.T) {
	virtual(t, func(t *testing.T) {
		hangs := make(chan struct{})
		of := window.Aggregate("sum", word.of, func(n int, w word) int {
			if w.text == "a2" {
				<-hangs
			}
			return n + 1
		}, window.Bounds[word]{Count: 3}, stage.Timeout(time.Second))
		b := start(t, of, func(w window.Window[string, int]) string { return w.Key })
		b.submit("a2", "a3", "b1", "b2", "b3")
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"2s b"}, b.take(), "the hanging worker is given up after limit and grace")
		assert.Equal(t, 1, b.p.Quarantine().Len(), "a2")
		assert.Equal(t, 1, b.p.Failures().Len(), "a3 waited for its window as long as it may")
		close(hangs)
		b.submit("a4", "a5", "a6")
		assert.Equal(t, []string{"10s a"}, b.take())
		assert.Empty(t, b.stop())
	})
}

// The function of the route is slower than the stage's time limit and grace, so the worker that passes on the window is given up. It
// returns before the other commands of the window are over their time.
func TestCommandsWhoseWindowWasPassedOnTooSlowlyAreOverTheirTime(t *testing.T) {
	virtual(t, func(t *testing.T) {
		of := by(window.Bounds[word]{Count: 3}, stage.Timeout(time.Second), stage.Grace(100*time.Millisecond))
		sink := stage.Sink("sink", func(context.Context, group) error { return nil })
		p, err := pipeline.New("test", of.Route(func(group, int) int { time.Sleep(600 * time.Millisecond); return 0 }, sink),
			pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		var tickets []*stage.Ticket
		for _, w := range words("a1", "a2", "a3") {
			ticket, err := of.Ask(t.Context(), w)
			require.NoError(t, err)
			if tickets = append(tickets, ticket); len(tickets) == 1 {
				time.Sleep(900 * time.Millisecond)
			}
		}
		time.Sleep(time.Minute)
		require.True(t, stage.Crashed(tickets[0].Err()), "it is the one that passes on: %v", tickets[0].Err())
		for _, ticket := range tickets[1:] {
			require.ErrorIs(t, ticket.Err(), stage.ErrTimeout)
			require.ErrorContains(t, ticket.Err(), "window: the worker that passed on the window was given up")
		}
		require.Zero(t, sink.Snapshot().Counts.Accepted)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAFunctionThatEndsItsGoroutineCostsItsCommandOnly(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, window.Join("join", word.of, window.Parts[word]{Limit: time.Minute, Whole: func(all []word) bool {
			if all[len(all)-1].text == "a2" {
				runtime.Goexit()
			}
			return len(all) == 3
		}}), textOf)
		b.submit("a2", "a0", "a1", "a2", "a3")
		time.Sleep(time.Second)
		b.take()
		require.Len(t, b.raw, 1)
		assert.Equal(t, "full a0 a1 a3", textOf(b.raw[0]))
		assert.Equal(t, 2, b.p.Quarantine().Len())
		b.stop()
	})
}

// A checkpoint is not past a window before its result has ended, although the commands of other windows have.
func TestACheckpointWaitsForTheResultOfTheFirstCommandsWindow(t *testing.T) {
	virtual(t, func(t *testing.T) {
		of := window.Aggregate("sum", func(n int64) bool { return n >= 3 }, func(sum, n int64) int64 { return sum + n },
			window.Bounds[int64]{Count: 3})
		release := make(chan struct{})
		sink := stage.Sink("sink", func(_ context.Context, w window.Window[bool, int64]) error {
			if !w.Key {
				<-release
			}
			return nil
		}, stage.Workers(2, 2))
		saved := int64(-1)
		numbers := func(ctx context.Context, submit func(int64) error) error {
			for n := source.Position(ctx); n < 6; n++ {
				if err := submit(n); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return ctx.Err()
		}
		p, err := pipeline.New("test", of.To(sink), pipeline.Logger(slog.New(slog.DiscardHandler)),
			pipeline.Feed("numbers", of, source.Checkpoint(numbers, 0, func(_ context.Context, at int64) error { saved = at; return nil })))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, saved, int64(0))
		close(release)
		time.Sleep(time.Minute)
		assert.EqualValues(t, 6, saved)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAResultHasTheValuesOfItsFirstCommand(t *testing.T) {
	virtual(t, func(t *testing.T) {
		type key struct{}
		of := by(window.Bounds[word]{Count: 2})
		var got any
		sink := stage.Sink("sink", func(ctx context.Context, _ group) error { got = ctx.Value(key{}); return nil })
		p, err := pipeline.New("test", of.To(sink))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for i, w := range words("a1", "a2") {
			ticket, err := of.Ask(context.WithValue(t.Context(), key{}, i), w)
			require.NoError(t, err)
			defer func() { <-ticket.Done() }()
			synctest.Wait()
		}
		require.NoError(t, p.Stop(t.Context()))
		assert.Equal(t, 0, got)
	})
}

// A command leaves an open window at its deadline, and not a closed one.
func TestAResultDoesNotHaveTheDeadlineOfItsFirstCommand(t *testing.T) {
	virtual(t, func(t *testing.T) {
		of := by(window.Bounds[word]{Count: 2})
		var got []string
		slow := stage.Sink("slow", func(ctx context.Context, g group) error {
			time.Sleep(10 * time.Minute)
			got = append(got, textOf(g))
			return ctx.Err()
		}, stage.Workers(1, 1))
		p, err := pipeline.New("test", of.To(slow), pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		ctx, cancel := stage.WithDeadline(t.Context(), time.Now().Add(time.Minute))
		defer cancel()
		for _, w := range words("a1", "a2", "a3", "a4", "a5") {
			require.NoError(t, of.Submit(ctx, w))
		}
		time.Sleep(2 * time.Minute)
		require.NoError(t, of.Submit(t.Context(), words("a6")[0]))
		require.NoError(t, p.Stop(t.Context()))
		assert.Equal(t, []string{"full a1 a2", "full a3 a4", "early a6"}, got)
		assert.Equal(t, 1, p.Failures().Len(), "a5")
	})
}

func TestAStageWithWindowsIsNotUpgraded(t *testing.T) {
	_, err := by(window.Bounds[word]{Count: 2}).Upgrade(t.Context(), nil)
	var fault *stage.OptionError
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, "Upgrade", fault.Option)
}

// Windows in a loop are closed when nothing is left in the loop, again and again until all is done.
func TestALoopThroughWindowsIsDrained(t *testing.T) {
	virtual(t, func(t *testing.T) {
		of := window.All("pairs", window.Bounds[int]{Count: 2})
		ended := 0
		lap := stage.FlatMap("lap", func(_ context.Context, w window.Window[struct{}, []int], emit func(int) error) error {
			for _, n := range w.Value {
				if n == 0 {
					ended++
					continue
				}
				if err := emit(n - 1); err != nil {
					return err
				}
			}
			return nil
		}, stage.Workers(1, 1))
		p, err := pipeline.New("test", of.To(lap), lap.To(of), pipeline.MaxInFlight(1000), pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for n := range 9 {
			require.NoError(t, of.Submit(t.Context(), n))
		}
		require.NoError(t, p.Stop(t.Context()))
		assert.Equal(t, 9, ended)
	})
}
