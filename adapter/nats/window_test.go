package nats_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// inWindow is how many numbers are collected.
const inWindow = 10

type handleAll = func(ctx context.Context, all []int) error

// collectors make a stage that collects numbers for at most a time, and a sink behind it.
var collectors = map[string]func(most time.Duration, handle handleAll) (behaviour.Target[int], pipeline.Part){
	"All": func(most time.Duration, handle handleAll) (behaviour.Target[int], pipeline.Part) {
		of := window.All("collect", window.Bounds[int]{Count: inWindow, Time: most})
		return of, of.To(stage.Sink("sink", func(ctx context.Context, w window.Window[none, []int]) error {
			return handle(ctx, w.Value)
		}, stage.Workers(1, 1)))
	},
	"Aggregate": func(most time.Duration, handle handleAll) (behaviour.Target[int], pipeline.Part) {
		of := window.Aggregate("collect", func(int) none { return none{} }, func(all []int, n int) []int { return append(all, n) },
			window.Bounds[int]{Count: inWindow, Time: most})
		return of, of.To(stage.Sink("sink", func(ctx context.Context, w window.Window[none, []int]) error {
			return handle(ctx, w.Value)
		}, stage.Workers(1, 1)))
	},
}

// handleAll notes all numbers of a window.
func (c *tally) handleAll(_ context.Context, all []int) error {
	for _, n := range all {
		c.add(n)
	}
	return nil
}

func TestAWindowBehindAnInletLosesNoMessage(t *testing.T) {
	for name, collector := range collectors {
		t.Run(name, func(t *testing.T) {
			numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{
				UntilEmpty: true, Retry: stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond},
			})
			publish(t, numbers, inWindow)
			var handled tally
			fails := true
			to, part := collector(time.Minute, func(ctx context.Context, all []int) error {
				if fails {
					fails = false
					return errors.New("the database is down")
				}
				return handled.handleAll(ctx, all)
			})
			run(t, numbers, to, part)
			require.Equal(t, inWindow, handled.len())
			require.Equal(t, nats.Status{Published: inWindow}, status(t, numbers))
			require.EqualValues(t, inWindow, numbers.Counts().GivenBack)
		})
	}
}

func TestAHardStopGivesAllMessagesOfWindowsBack(t *testing.T) {
	for name, collector := range collectors {
		t.Run(name, func(t *testing.T) {
			numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{UntilEmpty: true})
			const n = inWindow + 5 // one window is being handled, and one is open
			publish(t, numbers, n)
			begun := make(chan struct{}, 2)
			to, part := collector(time.Minute, func(ctx context.Context, _ []int) error {
				begun <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			})
			p := start(t, numbers, to, part)
			<-begun
			eventually(t, "all are in flight", func() bool { return numbers.Counts().InFlight == n })
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.Error(t, p.Stop(ended))
			eventually(t, "all are given back", func() bool { return numbers.Counts().InFlight == 0 })
			require.Zero(t, numbers.Counts().Acknowledged)

			var handled tally
			to, part = collector(10*time.Millisecond, handled.handleAll)
			run(t, numbers, to, part)
			require.Equal(t, n, handled.len())
		})
	}
}

// led has the results of a flow answer the callers, by a last stage.
func led[In, Out any](of *stage.Flow[In, Out]) *stage.Flow[In, Out] {
	return stage.Chain(of, stage.Map("end", func(_ context.Context, out Out) (Out, error) { return out, nil }))
}

func TestAWindowThatAnInletNeverFillsIsRefused(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{MaxInFlight: 8})
	others := inlet(t, embed(t, t.TempDir(), nats.Store{}), "others", nats.Options[int]{MaxInFlight: 8})
	of := func(count int, most time.Duration) *stage.Flow[int, window.Window[none, []int]] {
		return led(window.All("collect", window.Bounds[int]{Count: count, Time: most}))
	}
	const why = `inlet "numbers" has at most 8 messages in the pipeline at once, and only 9 commands close a window of stage "collect"`
	refused := func(parts ...pipeline.Part) {
		t.Helper()
		_, err := pipeline.New("test", parts...)
		require.ErrorContains(t, err, `Feed "numbers": `+why)
	}
	accepted := func(parts ...pipeline.Part) {
		t.Helper()
		_, err := pipeline.New("test", parts...)
		require.NoError(t, err)
	}
	refused(pipeline.Feed("numbers", of(9, 0), numbers.Feed))
	same := stage.Map("same", func(_ context.Context, n int) (int, error) { return n, nil })
	refused(same.To(of(9, 0)), pipeline.Feed("numbers", same, numbers.Feed))
	accepted(pipeline.Feed("numbers", of(8, 0), numbers.Feed))
	accepted(pipeline.Feed("numbers", of(9, time.Minute), numbers.Feed))
	both := of(9, 0) // each closes windows of the other
	accepted(pipeline.Feed("numbers", both, numbers.Feed), pipeline.Feed("others", both, others.Feed))

	// New does not see into a function around the inlet. Then the feed gives up, instead of waiting for ever.
	hidden := func(ctx context.Context, submit func(int) error) error { return numbers.Feed(ctx, submit) }
	p, err := pipeline.New("test", pipeline.Feed("numbers", of(9, 0), hidden), quiet)
	require.NoError(t, err)
	require.ErrorContains(t, p.Run(t.Context()), why)
}

// Only a further command of its key closes a window, and the inlet has none until some windows are closed, or none at all.
func TestWindowsThatOnlyTheirCountClosesDoNotHoldUpAnInletForEver(t *testing.T) {
	for name, c := range map[string]struct{ messages, keys int }{
		"more keys than messages may be in flight": {60, 30},
		"the stream is empty":                      {35, 10},
	} {
		t.Run(name, func(t *testing.T) {
			numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{UntilEmpty: true, MaxInFlight: 20})
			publish(t, numbers, c.messages)
			var handled tally
			of := window.By("collect", func(n int) int { return n % c.keys }, window.Bounds[int]{Count: 2})
			run(t, numbers, of, of.To(stage.Sink("sink", func(ctx context.Context, w window.Window[int, []int]) error {
				return handled.handleAll(ctx, w.Value)
			}, stage.Workers(1, 1))))
			require.Equal(t, c.messages, handled.len())
		})
	}
}
