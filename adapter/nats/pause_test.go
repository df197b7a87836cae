package nats_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// pausedFeed waits until the feed of a pipeline is paused.
func pausedFeed(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	require.Eventually(t, func() bool {
		f := p.Snapshot().Feeds[0]
		return f.State == "away" && f.Err != nil && f.Err.Error() == "the stage is paused"
	}, time.Minute, time.Millisecond)
}

func TestAPauseInOneProcessLeavesTheCommandsToTheOthers(t *testing.T) {
	t.Parallel()
	for name, keyed := range map[string]bool{"a stage": false, "a keyed stage": true} {
		t.Run(name, func(t *testing.T) {
			conn := embed(t, t.TempDir(), nats.Store{})
			start := func(process string, done *pages) (*pipeline.Pipeline, *stage.Flow[scan, scan], *stage.Stage[scan]) {
				load := stage.Map("load", func(_ context.Context, s scan) (scan, error) { return s, nil })
				index := stage.New("index", indexed(done))
				if keyed {
					index = stage.Keyed("index", func(s scan) int { return s.ID % 10 }, func(int) behaviour.Behaviour[scan] { return indexed(done) })
				}
				p, err := pipeline.New("archive", quiet, load.To(index), pipeline.Assign("front", "load"), pipeline.Assign("back", "index"),
					pipeline.RunsHere(nats.NewCarrier(conn, "archive", nats.Options[any]{Partitions: 4}), process))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				t.Cleanup(func() {
					assert.NoError(t, p.Stop(context.Background()))
					assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
				})
				return p, load, index
			}
			one, two := &pages{}, &pages{}
			_, load, _ := start("front", nil)
			first, _, index := start("back", one)
			require.NoError(t, first.Pause(index))
			pausedFeed(t, first)
			second, _, index2 := start("back", two)
			submit := func(from, to int) {
				for i := from; i < to; i++ {
					require.NoError(t, load.Submit(t.Context(), scan{ID: i}))
				}
			}
			submit(0, 500)
			require.Eventually(t, func() bool { return two.full(500) }, time.Minute, time.Millisecond)
			require.True(t, one.full(0))

			require.NoError(t, second.Pause(index2))
			pausedFeed(t, second)
			require.NoError(t, first.Resume(index))
			submit(500, 1000)
			require.Eventually(t, func() bool { return one.full(500) }, time.Minute, time.Millisecond)
			require.Equal(t, "running", first.Snapshot().Feeds[0].State)
			require.NoError(t, second.Resume(index2)) // or its stop would wait
		})
	}
}

// The first process holds what its stage has: four in the queue, one in the handler, one that waits for a place.
func TestAPauseGivesBackWhatTheStageDoesNotHaveYet(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	const n, held = 50, 6
	open := make(chan struct{})
	var done tally
	start := func(wait <-chan struct{}) (*pipeline.Pipeline, *stage.Stage[int], *nats.Inlet[int]) {
		numbers := inlet(t, conn, "numbers", nats.Options[int]{})
		s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
			<-wait
			done.add(n)
			return behaviour.OK(nil)
		}, stage.Workers(1, 1), stage.Capacity(4), stage.Batch(1))
		return newPipeline(t, s, numbers.Feed), s, numbers
	}
	first, s, numbers := start(open)
	for i := range n {
		require.NoError(t, numbers.Publish(t.Context(), "", i))
	}
	require.Eventually(t, func() bool { return numbers.Counts().InFlight == n }, time.Minute, time.Millisecond)
	require.NoError(t, first.Pause(s))
	pausedFeed(t, first)
	require.Eventually(t, func() bool { return numbers.Counts().InFlight <= held }, time.Minute, time.Millisecond)
	now := make(chan struct{})
	close(now)
	start(now)
	require.Eventually(t, func() bool { return done.len() == n-int(numbers.Counts().InFlight) }, time.Minute, time.Millisecond)
	require.NoError(t, first.Resume(s))
	close(open)
	require.Eventually(t, func() bool { return done.len() == n }, time.Minute, time.Millisecond)
	eventualStatus(t, numbers, func(s nats.Status) bool { return s.Pending == 0 && s.Buried == 0 })
	for i := range n {
		require.Equal(t, 1, done.of[i], i)
	}
}
