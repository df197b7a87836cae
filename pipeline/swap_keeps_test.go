package pipeline_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/leda"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// sleeping returns a stage that needs its workers: each command takes a millisecond and no CPU.
func sleeping(name string, opts ...stage.Option) *stage.Stage[int] {
	return stage.Func(name, func(context.Context, int) behaviour.Outcome {
		time.Sleep(time.Millisecond)
		return behaviour.OK(nil)
	}, opts...)
}

// Thirty-two workers that sleep a millisecond for each command handle 3,200 commands in 100 ms. A shared pool with a worker for each CPU
// would take seconds.
func TestASwapOfPoliciesKeepsTheThroughputOfAPipeline(t *testing.T) {
	sharing := []controller.Policy{leda.New("script", func(*leda.Leda) {})}
	for _, name := range []string{"cohort", "color", "dbr", "lrb", "mg1", "srpt", "srpt-polled", "cohort:cruz", "dbr:cruz", "lrb:cruz", "srpt:cruz", "srpt-polled:cruz"} {
		law, err := policy.ByName(name)
		require.NoError(t, err)
		sharing = append(sharing, law)
	}
	for _, law := range sharing {
		t.Run(law.Name(), func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var log bytes.Buffer
				workers := 32 * runtime.GOMAXPROCS(0)
				s := sleeping("s", stage.Workers(workers, workers))
				small, usual := stage.Func("small", echo[int], stage.Workers(1, 8)), stage.Func("usual", echo[int])
				p := bubble(t, small, s, usual, pipeline.Logger(slog.New(slog.NewTextHandler(&log, nil))))
				require.NoError(t, p.SetPolicy(law))
				synctest.Wait()
				begin := time.Now()
				for i := range 100 * workers {
					submit(t, s, i)
				}
				require.NoError(t, p.Drain(t.Context()))
				require.Less(t, time.Since(begin), 150*time.Millisecond)
				of := p.Snapshot().Stages
				require.Equal(t, "s", of[1].Pool)
				require.NotEqual(t, "small", of[0].Pool, "one worker there is enough for it")
				require.NotEqual(t, "usual", of[2].Pool, "no worker was asked for")
				kept := slices.DeleteFunc(p.Journal(), func(c controller.Change) bool { return c.StageName != "s" || c.What != controller.KnobWorkers })
				require.Len(t, kept, 1, "it is journalled once")
				require.Contains(t, kept[0].String(), "it keeps its own, as its options ask for at least")
				end(t, p)
				require.Contains(t, log.String(), "it keeps its own, as its options ask for at least")
			})
		})
	}
}

func TestAStageSharesAPoolThatHasAsManyWorkersAsItAsksFor(t *testing.T) {
	enough := sleeping("enough", stage.Workers(8, 9))
	one := sleeping("one instance", stage.Workers(32, 32), stage.Instances(1))
	many := sleeping("many", stage.Workers(9, 9))
	p := run(t, enough, one, many, pipeline.Control(policy.SRPT{Workers: 8}))
	pools := func() (all []string) {
		for _, st := range p.Snapshot().Stages {
			all = append(all, st.Pool)
		}
		return all
	}
	require.Equal(t, []string{"shared", "shared", "many"}, pools())
	require.NoError(t, p.Pause(enough))
	require.NoError(t, p.Resume(enough))
	require.Equal(t, []string{"shared", "shared", "many"}, pools())
	require.NoError(t, p.SetPolicy(policy.SRPT{Workers: 9}))
	require.Equal(t, []string{"shared", "shared", "shared"}, pools())
	require.NoError(t, p.SetPolicy(policy.Cohort{Workers: 1}))
	require.Equal(t, []string{"enough", "shared", "many"}, pools())
	eventually(t, "its own workers are back", func() bool { return workers(p, 2) == 9 })
}

func TestAScriptMayShareWorkersOfAStageThatNeedsMore(t *testing.T) {
	s, other := sleeping("s", stage.Workers(4, 4)), sleeping("other", stage.Workers(4, 4))
	p := run(t, s, other, pipeline.Control(leda.New("explicit", func(l *leda.Leda) {
		require.NoError(t, l.Pool.Add(leda.Global, 2))
		require.NoError(t, l.Pool.SetPool(leda.Global, "s"))
		require.Equal(t, leda.Pool("other"), l.Pool.GetPool("other"))
	})))
	require.Equal(t, "leda", p.Snapshot().Stages[0].Pool)
	require.Equal(t, "other", p.Snapshot().Stages[1].Pool)
	require.NoError(t, p.SetPolicy(leda.New("enough", func(l *leda.Leda) { require.NoError(t, l.Pool.Add(leda.Global, 4)) })))
	require.Equal(t, "leda", p.Snapshot().Stages[1].Pool)
}
