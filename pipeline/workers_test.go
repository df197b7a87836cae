package pipeline_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// The first GOMAXPROCS commands wait for one another, so the test ends only if all of them are handled at once.
func TestAStageWithDefaultOptionsHandlesOneCommandForEachCPUAtOnce(t *testing.T) {
	n := max(runtime.GOMAXPROCS(0), 2)
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	var all sync.WaitGroup
	all.Add(n)
	s := stage.Func("s", func(context.Context, int) behaviour.Outcome {
		all.Done()
		all.Wait()
		return behaviour.OK(nil)
	})
	run(t, s)
	tickets := make([]*stage.Ticket, n)
	for i := range tickets {
		var err error
		tickets[i], err = s.Ask(t.Context(), i)
		require.NoError(t, err)
	}
	for _, ticket := range tickets {
		_, err := ticket.Wait(soon(t))
		require.NoError(t, err)
	}
}

func TestAStageStartsWithItsMinimumOfWorkers(t *testing.T) {
	cpus := runtime.GOMAXPROCS(0)
	nothing := fn(echo[int])
	for name, row := range map[string]struct {
		stage          *stage.Stage[int]
		workers, least int
	}{
		"shared by default":             {stage.New("s", nothing), cpus, cpus},
		"each by default":               {stage.Each("s", func() behaviour.Behaviour[int] { return nothing }), cpus, cpus},
		"given":                         {stage.New("s", nothing, stage.Workers(3, 5)), 3, 3},
		"one, if there is one instance": {stage.New("s", nothing, stage.Instances(1)), 1, 1},
		"given, with one instance":      {stage.New("s", nothing, stage.Instances(1), stage.Workers(2, 2)), 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, row.stage)
			s := row.stage.Snapshot()
			require.Equal(t, row.workers, s.Workers.Live)
			require.Equal(t, row.least, s.Workers.Min)
		})
	}
}
