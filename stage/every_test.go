package stage_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/queue"
)

// Customers alone could keep the stage busy. Crawlers get one command in ten all the same, and none without the option.
func TestTheLowestClassHasItsPartOfABusyStage(t *testing.T) {
	for name, part := range map[string]int{"one in ten": 10, "none": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const customer, crawler = 1, 0
				var handled [2]atomic.Int64
				serve := stage.Sink("serve", func(_ context.Context, class int) error {
					time.Sleep(time.Millisecond)
					handled[class].Add(1)
					return nil
				}, stage.Workers(1, 1), stage.Capacity(4000), stage.Discipline(queue.PriorityOf(func(class int) int { return class }).Every(part)))
				p, err := pipeline.New("test", serve, quiet)
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				for range 1000 {
					require.NoError(t, serve.Submit(t.Context(), crawler))
				}
				time.Sleep(time.Millisecond / 2)
				for range 2000 {
					require.NoError(t, serve.Submit(t.Context(), customer))
				}
				time.Sleep(time.Second)
				if part == 0 {
					require.LessOrEqual(t, handled[crawler].Load(), int64(64), "what it had before")
				} else {
					require.InDelta(t, 100, handled[crawler].Load(), 64)
				}
				require.NoError(t, p.Stop(t.Context()))
				require.EqualValues(t, 1000, handled[crawler].Load())
				require.EqualValues(t, 2000, handled[customer].Load())
			})
		})
	}
}
