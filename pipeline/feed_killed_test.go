package pipeline_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// killFeed stops an actor of a feed from outside: its supervisor, or the source's. It reports false if there is none.
func killFeed(supervisor bool) bool {
	for _, name := range actor.Processes(system(), "golda/") {
		if _, below, ok := strings.Cut(name, "/feed$"); ok && strings.Contains(below, "/") != supervisor {
			actor.Stop(system(), actor.Local(system(), name))
			return true
		}
	}
	return false
}

func TestAFeedContinuesWhereItWasWhenOneOfItsActorsIsKilled(t *testing.T) {
	for name, supervisor := range map[string]bool{"the source": false, "the supervisor": true} {
		t.Run(name, func(t *testing.T) {
			const n = 3000
			var got tally
			s := got.counts("s", stage.Capacity(8))
			killed := make(chan struct{})
			p := newPipeline(t, pipeline.Feed("numbers", s, source.Source[int](func(ctx context.Context, submit func(int) error) error {
				for i := int(source.Position(ctx)); i < n; i++ {
					if i == n/2 {
						<-killed
					}
					if err := submit(i); err != nil {
						return err
					}
				}
				return nil
			})))
			go func() {
				defer close(killed)
				assert.Eventually(t, func() bool { return got.len() >= n/2 }, enough, time.Millisecond)
				assert.True(t, killFeed(supervisor))
				time.Sleep(10 * time.Millisecond)
			}()
			require.NoError(t, p.Run(soon(t)))
			got.onceEach(t, n)
			require.EqualValues(t, 1, feedOf(p).Restarts)
			atRest(t, p)
		})
	}
}

// Before the feed was then started again, the pipeline gave up. Found by chaos.
func TestAFeedThatIsKilledWhileItStartsIsStartedAgain(t *testing.T) {
	for range 200 {
		var got tally
		p := newPipeline(t, pipeline.Feed("numbers", got.counts("s"), below(10)))
		over := make(chan struct{})
		var killer sync.WaitGroup
		killer.Go(func() {
			for supervisor := true; !killFeed(supervisor); supervisor = !supervisor {
				select {
				case <-over:
					return
				default:
				}
			}
		})
		err := p.Run(soon(t))
		close(over)
		killer.Wait()
		require.NoError(t, err)
		got.onceEach(t, 10)
	}
}

// A feed that was added when the pipeline had just opened was started by Add and by Start: its source ran twice, and the first run
// outlived the pipeline.
func TestAFeedThatIsAddedWhileThePipelineStartsRunsOnce(t *testing.T) {
	for range 300 {
		var runs, lasting atomic.Int32
		s := stage.Sink("s", func(context.Context, int) error { return nil })
		p := newPipeline(t, s)
		added := make(chan error, 1)
		go func() {
			<-p.Started()
			added <- p.Add(context.Background(), pipeline.Feed("late", s, func(ctx context.Context, _ func(int) error) error {
				runs.Add(1)
				lasting.Add(1)
				defer lasting.Add(-1)
				<-ctx.Done()
				return nil
			}))
		}()
		require.NoError(t, p.Start(t.Context()))
		require.NoError(t, <-added)
		eventually(t, "a run of the source", func() bool { return runs.Load() > 0 })
		require.NoError(t, p.Stop(t.Context()))
		require.EqualValues(t, 1, runs.Load())
		require.Zero(t, lasting.Load())
	}
}
