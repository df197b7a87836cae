package pipeline_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// The goroutine that ends a command, such as a submitter's, counts it as ended before it delivers the letter. Stop waits for these
// goroutines.
func TestAfterStopASubscriberHasAllLettersOfUnansweredCommands(t *testing.T) {
	for range 300 {
		var heard atomic.Uint64
		s := stage.Func("s", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) },
			stage.Capacity(1), stage.Overflow(overflow.DropOldest))
		p := start(t, s, pipeline.DeadLetters(func(stage.DeadLetter) { heard.Add(1) }))
		var submitters sync.WaitGroup
		for range 4 {
			submitters.Go(func() {
				for s.Submit(context.Background(), 1) == nil { //nolint:revive // until it is closed
				}
			})
		}
		for p.Snapshot().Shed < 20 { //nolint:revive // the submitters are at work
		}
		require.NoError(t, p.Stop(soon(t)))
		sn := p.Snapshot()
		require.Equal(t, sn.Shed+sn.DeadLettered, heard.Load(), sn.Law())
		submitters.Wait()
	}
}
