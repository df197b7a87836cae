package pipeline_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestASnapshotMayBeTakenWhileThePipelineStarts(t *testing.T) {
	for range 20 {
		p, err := pipeline.New("p", stage.Map("a", func(_ context.Context, n int) (int, error) { return n, nil }))
		require.NoError(t, err)
		var reads sync.WaitGroup
		for range 2 {
			reads.Go(func() {
				for started := false; !started; {
					select {
					case <-p.Started():
						started = true
					default:
					}
					if !p.Snapshot().Balanced() {
						t.Error("not balanced")
					}
					p.Tree()
					p.Handlers()
					p.Journal()
				}
			})
		}
		require.NoError(t, p.Start(t.Context()))
		reads.Wait()
		require.NoError(t, p.Stop(t.Context()))
	}
}
