package pipeline_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A server answers eight queries at a time, each in ten milliseconds, and lets others wait. Hill finds about eight
// workers for the stage that asks it, which do as much as 64 would; the stage behind it has the policy of the pipeline.
// Each query is answered once, and has its own answer.
func TestHillFindsHowManyWorkersAServerIsWorth(t *testing.T) {
	unraced(t)
	synctest.Test(t, func(t *testing.T) {
		server := make(chan struct{}, 8)
		var sum, answers, wrong, before atomic.Int64
		book := stage.Sink("book", func(_ context.Context, a [2]int) error {
			if a[1] != a[0]*a[0] {
				wrong.Add(1)
			}
			sum.Add(int64(a[0]))
			answers.Add(1)
			return nil
		}, stage.Workers(1, 2))
		query := stage.Map("query", func(_ context.Context, n int) ([2]int, error) {
			server <- struct{}{}
			defer func() { <-server }()
			time.Sleep(10 * time.Millisecond)
			return [2]int{n, n * n}, nil
		}, stage.Workers(1, 64), stage.Blocking(), stage.Capacity(100))
		p := startAlone(t, query.To(book), pipeline.Control(policy.Backlog{}), pipeline.ControlFor("query", policy.Hill{}))

		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		n := 0
		var workers, samples int
		watch := time.AfterFunc(2*time.Minute, func() { before.Store(answers.Load()) })
		defer watch.Stop()
		for ctx.Err() == nil {
			if query.Submit(ctx, n) == nil {
				n++
			}
			if n%100 == 0 && before.Load() > 0 {
				workers += query.Snapshot().Workers.Live
				samples++
			}
		}
		require.GreaterOrEqual(t, float64(answers.Load()-before.Load()), 0.9*800*120, "%v", p.Journal())
		require.InDelta(t, 9, float64(workers)/float64(samples), 4, "%v", p.Journal())
		require.Less(t, len(p.Journal()), 200, "the wave is one entry")
		require.NoError(t, p.Drain(t.Context()))
		require.EqualValues(t, n, answers.Load())
		require.EqualValues(t, n*(n-1)/2, sum.Load())
		require.Zero(t, wrong.Load())
		require.NoError(t, p.Stop(t.Context()))
	})
}
