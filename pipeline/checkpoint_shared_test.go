package pipeline_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// summed makes a pipeline with a checkpoint that sums up a few numbers.
func summed(t *testing.T, file string) *pipeline.Pipeline {
	p, _ := summedBy(t, file)
	return p
}

func summedBy(t *testing.T, file string) (*pipeline.Pipeline, pipeline.Part) {
	t.Helper()
	of := led(window.Aggregate("sum", func(n int) int { return n }, func(sum, n int) int { return sum + n }, window.Bounds[int]{Count: 10}))
	p, err := pipeline.New("test", pipeline.Feed("numbers", of, few), pipeline.Checkpoint(file, time.Hour),
		pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	return p, of
}

func TestASecondPipelineOnACheckpointIsRefusedUntilTheFirstHasStopped(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "state")
	first := summed(t, file)
	require.NoError(t, first.Start(t.Context()))
	for range 2 { // a refusal ends nothing that the first holds
		err := summed(t, file).Start(t.Context())
		var fault *pipeline.CheckpointError
		require.ErrorAs(t, err, &fault)
		require.Equal(t, file, fault.File)
		require.ErrorContains(t, err, file+": it is in use by process ")
	}
	require.NoError(t, first.Stop(t.Context()))
	_, err := os.Stat(file)
	require.NoError(t, err)

	second := summed(t, file)
	require.NoError(t, second.Start(t.Context()))
	require.NoError(t, second.Stop(t.Context()))

	require.NoError(t, os.WriteFile(file, []byte("damaged"), 0o600))
	require.Error(t, summed(t, file).Start(t.Context()))
	require.NoError(t, os.Remove(file))
	third := summed(t, file) // a start that failed holds nothing
	require.NoError(t, third.Start(t.Context()))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_ = third.Stop(gone)
	<-third.Done()
	fourth := summed(t, file) // nor does a hard stop
	require.NoError(t, fourth.Start(t.Context()))
	require.NoError(t, fourth.Stop(t.Context()))
}

func TestStatesAreNeitherAddedToNorRemovedFromAPipelineWithACheckpoint(t *testing.T) {
	p, sum := summedBy(t, filepath.Join(t.TempDir(), "state"))
	require.NoError(t, p.Start(t.Context()))
	plain := stage.Sink("plain", func(context.Context, int) error { return nil })
	require.NoError(t, p.Add(t.Context(), plain))
	require.NoError(t, plain.Submit(t.Context(), 1))

	more := led(window.By("more", func(n int) int { return n }, window.Bounds[int]{Count: 10}))
	require.ErrorContains(t, p.Add(t.Context(), more), `Checkpoint: cannot save stage "more", which is added while the pipeline runs: give it to New`)
	require.ErrorContains(t, p.Add(t.Context(), pipeline.Feed("others", plain, few)),
		`Checkpoint: cannot save the position of Feed "others", which is added while the pipeline runs: give it to New`)
	require.ErrorContains(t, p.Remove(t.Context(), sum), `remove stage "sum": the Checkpoint has a state or a position of it, without which the next process cannot start`)
	require.NoError(t, p.Remove(t.Context(), plain))
	require.NoError(t, p.Stop(t.Context()))
}
