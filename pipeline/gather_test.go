package pipeline_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// One worker has a hundred handlers under way, each of which asks two stages, and no handler is slower for it.
func TestHandlersThatGatherHoldNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(name string, d time.Duration) *stage.Flow[int, int] {
			return stage.Map(name, func(_ context.Context, n int) (int, error) { time.Sleep(d); return n, nil }, stage.Workers(100, 100))
		}
		a, b := slow("a", time.Second), slow("b", 2*time.Second)
		sum := stage.Coroutine("sum", func(c coroutine.Context, n int) behaviour.Outcome {
			got, err := coroutine.Gather(c,
				func(ctx context.Context) (int, error) { return a.Call(ctx, n) },
				func(ctx context.Context) (int, error) { return b.Call(ctx, 2*n) })
			if err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(got[0] + got[1])
		}, stage.Workers(1, 1))
		p, err := pipeline.New("test", sum, a, b, pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		begin := time.Now()
		var tickets []*stage.Ticket
		for n := range 100 {
			ticket, err := sum.Ask(t.Context(), n)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		for n, ticket := range tickets {
			answers(t, ticket, 3*n)
		}
		assert.Equal(t, 2*time.Second, time.Since(begin))
		require.NoError(t, p.Stop(t.Context()))
	})
}

// The call that lost is cancelled: its handler's context ends, and a command that still waits is not handled.
func TestTheCallsThatLoseARaceEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handled, cancelled := 0, 0
		slow := stage.Sink("slow", func(ctx context.Context, _ int) error {
			handled++
			select {
			case <-ctx.Done():
				cancelled++
				return ctx.Err()
			case <-time.After(time.Hour):
				return nil
			}
		}, stage.Workers(1, 1))
		quick := stage.Map("quick", func(context.Context, int) (struct{}, error) { time.Sleep(time.Second); return struct{}{}, nil })
		first := stage.Coroutine("first", func(c coroutine.Context, n int) behaviour.Outcome {
			ask := func(s *stage.Flow[int, struct{}]) func(context.Context) (struct{}, error) {
				return func(ctx context.Context) (struct{}, error) { return s.Call(ctx, n) }
			}
			_, err := coroutine.First(c, ask(slow), ask(slow), ask(quick))
			if err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK("done")
		})
		p, err := pipeline.New("test", first, slow, quick, pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		ticket, err := first.Ask(t.Context(), 1)
		require.NoError(t, err)
		answers(t, ticket, "done")
		begin := time.Now()
		require.NoError(t, p.Stop(t.Context()))
		assert.Zero(t, time.Since(begin), "nothing is left to wait for")
		assert.Equal(t, 1, handled)
		assert.Equal(t, 1, cancelled)
		assert.Zero(t, p.Failures().Len(), "the callers have given them up")
	})
}
