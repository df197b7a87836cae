package pipeline_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// The next process has the commands of the feed from the checkpoint, and does not have the one that was submitted.
func TestCommandsOfFeedsThatAHardStopEndsAreNoLettersIfThePipelineHasACheckpoint(t *testing.T) {
	dir := t.TempDir()
	const all, own = 50, 1000
	begun := make(chan int, 10*all)
	parts := func(handle func(context.Context, int) error) (first *stage.Flow[int, int], parts []pipeline.Part) {
		first = stage.Map("first", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Workers(1, 1))
		second := stage.Sink("second", handle, stage.Workers(2, 2), stage.Capacity(4))
		numbers := make([]int, all)
		for i := range numbers {
			numbers[i] = i
		}
		return first, []pipeline.Part{
			first.To(second), pipeline.KeepLetters(letters.Options{Dir: filepath.Join(dir, "letters")}), pipeline.Grace(100 * time.Millisecond),
			pipeline.Checkpoint(filepath.Join(dir, "checkpoint"), time.Hour), pipeline.Feed("feed", first, source.Slice(numbers)),
		}
	}
	first, all1 := parts(func(ctx context.Context, n int) error {
		begun <- n
		<-ctx.Done() // until the hard stop
		return context.Cause(ctx)
	})
	p := start(t, all1...)
	<-begun
	<-begun
	require.NoError(t, first.Submit(t.Context(), own))
	eventually(t, "commands wait", func() bool { return p.Snapshot().Stages[1].Counts.Accepted >= 4 })
	stopNow(t, p)
	require.Greater(t, p.DeadLetters().Len(), 1, "the letters are there until the process ends")

	done := make(chan int, 10*all)
	_, all2 := parts(func(_ context.Context, n int) error { done <- n; return nil })
	p = start(t, all2...)
	eventually(t, "the feed is exhausted", func() bool { return p.Snapshot().Feeds[0].State == "exhausted" })
	require.Zero(t, p.Failures().Len())
	list := p.DeadLetters().List(letters.Filter{})
	require.Len(t, list, 1)
	require.Equal(t, own, list[0].Command)
	_, err := p.DeadLetters().RetryAll(t.Context(), letters.Filter{})
	require.NoError(t, err)
	require.NoError(t, p.Stop(soon(t)))
	close(done)
	times := map[int]int{}
	for n := range done {
		times[n]++
	}
	require.Len(t, times, all+1)
	for n, count := range times {
		require.Equal(t, 1, count, n)
	}
}
