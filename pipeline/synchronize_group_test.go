package pipeline_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestStagesOfAGroupDoNotStarveBesideAStageWithItsOwnWorkers(t *testing.T) {
	for name, workers := range map[string]int{"one shared worker": 1, "two shared workers": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x exclusive
				a, b, c := printer[sheet]("a", &x), printer[sheet]("b", &x), printer[sheet]("c", &x)
				p := running(t, pipeline.Group("g", workers, workers, a, b), c, pipeline.Synchronize("one", func(s *synchronizer.Synchronizer) {
					s.AtMost(1, on(a, "sheet"), on(b, "sheet"), on(c, "sheet"))
				}))
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				var printed [3]atomic.Int32
				var wg sync.WaitGroup
				for i, s := range []*stage.Stage[sheet]{a, b, c} {
					for range 3 {
						wg.Go(func() {
							for ctx.Err() == nil {
								if _, err := stage.Call[any](ctx, s, sheet{}); err == nil {
									printed[i].Add(1)
								}
							}
						})
					}
				}
				wg.Wait()
				require.EqualValues(t, 1, x.most.Load())
				for i := range printed {
					require.Greater(t, printed[i].Load(), int32(100), "%s: of %d, %d and %d", []*stage.Stage[sheet]{a, b, c}[i].Name(),
						printed[0].Load(), printed[1].Load(), printed[2].Load())
				}
				requireSettled(t, p)
			})
		})
	}
}

func TestAnInitThatPanicsIsAnErrorThatNamesTheSynchronizer(t *testing.T) {
	a := printer[sheet]("a", new(exclusive))
	_, err := pipeline.New("test", a, pipeline.Synchronize("printer", func(*synchronizer.Synchronizer) { panic("planned") }))
	require.ErrorContains(t, err, `Synchronize("printer"): init panicked: planned`)
	p := running(t, a) // New has left the stage as it was
	requireSettled(t, p)
}
