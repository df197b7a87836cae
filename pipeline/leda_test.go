package pipeline_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/leda"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// overloaded starts a line of three stages under a script, and submits so much that the one
// worker has work all the time: a command needs 3 ms of it, and one comes every 2 ms. The
// caller's function runs when a second of it is over.
func overloaded(t *testing.T, script func(l *leda.Leda), then func(t *testing.T, p *pipeline.Pipeline, more func(time.Duration))) {
	t.Helper()
	bubbled(t, func(t *testing.T) {
		s3 := stage.New("s3", fn(func(context.Context, int) behaviour.Outcome {
			time.Sleep(time.Millisecond)
			return behaviour.OK(nil)
		}))
		s2 := stage.New("s2", fn(func(_ context.Context, n int) behaviour.Outcome {
			time.Sleep(time.Millisecond)
			return behaviour.Forward(s3, n)
		}))
		s1 := stage.New("s1", fn(func(_ context.Context, n int) behaviour.Outcome {
			time.Sleep(time.Millisecond)
			return behaviour.Forward(s2, n)
		}))
		p := bubble(t, s1, s2, s3)
		submit(t, s1, 0)
		require.NoError(t, p.Use(leda.New("script", script)))
		more := func(d time.Duration) {
			for range d / (2 * time.Millisecond) {
				submit(t, s1, 0)
				time.Sleep(2 * time.Millisecond)
			}
		}
		more(time.Second)
		then(t, p, more)
		end(t, p)
	})
}

// empties are the empty visits of each stage.
func empties(p *pipeline.Pipeline) (n []uint64) {
	for _, st := range p.Snapshot().Stages {
		n = append(n, st.EmptyVisits)
	}
	return n
}

// Section 4.3 of the dissertation: after the configuration all threads begin with the
// first stage of the list.
func TestAVisitOrderOfAScriptIsFollowedUnderLoad(t *testing.T) {
	overloaded(t, func(l *leda.Leda) {
		l.UsePrivateQueues()
		_ = l.Scheduler.RestartAtIndex(1)
		_ = l.Monitoring.AddTimer(func() { _ = l.Scheduler.VisitOrder([]leda.Stage{"s3", "s2", "s1"}) }, 500*time.Millisecond)
	}, func(t *testing.T, p *pipeline.Pipeline, more func(time.Duration)) {
		before := empties(p)
		more(time.Second)
		after := empties(p)
		require.Greater(t, after[2]-before[2], after[0]-before[0], "s3 comes first, and is found empty more often than s1")
		require.Equal(t, before[0], after[0], "s1 comes last, and is never empty")
	})
}
