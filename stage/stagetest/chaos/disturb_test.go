package chaos_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/chaos"
)

// Every action that a trial can do can be done to a user's pipeline.
func TestDisturbDoesEveryAction(t *testing.T) {
	actions := []chaos.Action{
		chaos.KillWorker, chaos.KillSupervisor, chaos.KillControlLoop, chaos.Swap, chaos.Rescale, chaos.Pause, chaos.RetryLetters,
	}
	faults := stagetest.Inject(t, 7, stagetest.Faults{Panic: 0.1})
	end := stage.Func("end", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	begin := stage.Func("begin", stagetest.WrapFunc(faults, func(_ context.Context, n int) behaviour.Outcome {
		return behaviour.Forward(end, n)
	}))
	trial := stagetest.Run(t, pipeline.Subgraph(begin, pipeline.Subgraph(end)))
	for _, a := range actions {
		chaos.Disturb(t, trial, uint64(a), 4*time.Millisecond, a)
	}
	chaos.Disturb(t, trial, 99, time.Millisecond, chaos.KillWorker, chaos.Pause, chaos.Resume)
	missing := func() (left []string) {
		done := trial.Counts()
		for _, a := range actions {
			if done[a.String()] == 0 {
				left = append(left, a.String())
			}
		}
		return left
	}
	for began := time.Now(); len(missing()) > 0; {
		require.Less(t, time.Since(began), 20*time.Second, missing())
		ticket, err := begin.Ask(t.Context(), 1)
		require.NoError(t, err)
		trial.Await(ticket)
	}
}

func TestEachKindOfActorIsKilledAndRestarted(t *testing.T) {
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	g := stage.Func("g", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	trial := stagetest.Run(t, s, pipeline.Group("group", 1, 1, g))
	for _, a := range []chaos.Action{chaos.KillWorker, chaos.KillSupervisor, chaos.KillControlLoop, chaos.KillPool} {
		t.Run(a.String(), func(t *testing.T) {
			for range 3 {
				require.Eventually(t, func() bool { return chaos.Kill(trial, a) }, 20*time.Second, time.Millisecond)
				for _, to := range []*stage.Stage[int]{s, g} {
					n, err := stage.Call[int](t.Context(), to, 7)
					require.NoError(t, err)
					require.Equal(t, 7, n)
				}
				require.NoError(t, trial.Pause(s), "the control loop is running")
				require.NoError(t, trial.Resume(s))
			}
		})
	}
	require.False(t, chaos.Kill(trial, chaos.Swap), "not a kill")
	require.False(t, chaos.Kill(trial, 99))
	require.Equal(t, map[string]uint64{
		"kill worker": 3, "kill stage supervisor": 3, "kill control loop": 3, "kill pool": 3,
	}, trial.Counts())
}
