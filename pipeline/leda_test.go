package pipeline_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/leda"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// relay runs a ring of three stages under a script, with one worker and one command, which takes a millisecond at each stage. So
// every walk through the visit order finds work. After half a second it calls the function, which may let more time pass.
func relay(t *testing.T, script func(l *leda.Leda), then func(t *testing.T, p *pipeline.Pipeline)) {
	t.Helper()
	bubbled(t, func(t *testing.T) {
		var over atomic.Bool
		stages := make([]*stage.Stage[int], 3)
		parts := make([]pipeline.Part, 3)
		for i, name := range []string{"s1", "s2", "s3"} {
			stages[i] = stage.New(name, fn(func(_ context.Context, n int) behaviour.Outcome {
				time.Sleep(time.Millisecond)
				if over.Load() {
					return behaviour.OK(n)
				}
				return behaviour.Forward(stages[(i+1)%3], n)
			}))
			parts[i] = stages[i]
		}
		p := bubble(t, parts...)
		require.NoError(t, p.SetPolicy(leda.New("script", script)))
		submit(t, stages[0], 0)
		time.Sleep(500*time.Millisecond + 500*time.Microsecond) // not at the end of a handler
		then(t, p)
		over.Store(true)
		end(t, p)
	})
}

// empties returns the empty visits of each stage during d.
func empties(p *pipeline.Pipeline, d time.Duration) (n [3]uint64) {
	before := p.Snapshot().Stages
	time.Sleep(d)
	for i, st := range p.Snapshot().Stages {
		n[i] = st.Counts.EmptyVisits - before[i].Counts.EmptyVisits
	}
	return n
}

// Section 4.3 of the dissertation: after the configuration all threads start at the first stage of the list. Each round of the
// command is three restarts of the walk.
func TestAVisitOrderOfAScriptIsFollowedUnderLoad(t *testing.T) {
	relay(t, func(l *leda.Leda) {
		l.UsePrivateQueues()
		_ = l.Scheduler.RestartAtIndex(1)
		_ = l.Monitoring.AddTimer(func() {
			_ = l.Scheduler.VisitOrder([]leda.Stage{"s3", "s2", "s1"})
		}, 1500*time.Millisecond)
	}, func(t *testing.T, p *pipeline.Pipeline) {
		require.Equal(t, [3]uint64{200, 100, 0}, empties(p, 300*time.Millisecond))
		time.Sleep(time.Second)
		require.Equal(t, [3]uint64{0, 100, 200}, empties(p, 300*time.Millisecond))
	})
}

// Appendix A.3.8: the function is called when the last stage of the visit order is
// visited. Here each visit to it handles a command.
func TestVisitsToTheLastStageAreReportedWhileAllOfThemSucceed(t *testing.T) {
	for name, changes := range map[string]bool{"an order that stays": false, "an order that is new each time": true} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			relay(t, func(l *leda.Leda) {
				stages := l.Stages()
				l.UsePrivateQueues()
				_ = l.Scheduler.RestartAtIndex(1)
				_ = l.Monitoring.FireLastFocused(func() {
					calls.Add(1)
					if changes {
						stages[0], stages[1] = stages[1], stages[0]
						_ = l.Scheduler.VisitOrder(stages)
					}
				})
			}, func(t *testing.T, p *pipeline.Pipeline) {
				before := calls.Load()
				require.Zero(t, empties(p, time.Second)[2], "all visits to the last stage succeed")
				require.GreaterOrEqual(t, calls.Load()-before, int64(9), "ten times a second")
			})
		})
	}
}
