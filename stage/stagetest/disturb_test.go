package stagetest_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/disturb"
)

// idle is a feed that submits nothing.
func idle(ctx context.Context, _ func(int) error) error {
	<-ctx.Done()
	return nil
}

func TestDisturbDoesEveryAction(t *testing.T) {
	faults := stagetest.Inject(t, 7, stagetest.Faults{Panic: 0.1})
	end := stage.Func("end", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	begin := stage.Func("begin", func(_ context.Context, n int) behaviour.Outcome {
		return behaviour.Forward(end, n)
	}, stage.Middleware(faults.Middleware))
	grouped := stage.Func("grouped", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	trial := stagetest.Run(t, pipeline.Subgraph(begin, pipeline.Subgraph(end)),
		pipeline.Group("group", 1, 1, grouped))
	const often = 4 * time.Millisecond
	trial.Disturb(1, stagetest.Disturbances{
		KillWorker: often, KillSupervisor: often, KillControlLoop: often, KillPool: often,
		Swap: often, Rescale: often, Pause: often, RetryLetters: often,
	})
	trial.Disturb(2, stagetest.Disturbances{Pause: time.Millisecond})
	trial.Disturb(3, stagetest.Disturbances{})
	missing := func() (left []string) {
		done := trial.Counts()
		for _, action := range []string{
			"kill worker", "kill stage supervisor", "kill control loop", "kill pool", "swap", "rescale", "pause", "retry letters",
		} {
			if done[action] == 0 {
				left = append(left, action)
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

// A feed that is killed too often gives up, so it has a test of its own.
func TestDisturbKillsAFeed(t *testing.T) {
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	trial := stagetest.Run(t, pipeline.Feed("idle", behaviour.Target[int](s), idle))
	trial.Disturb(1, stagetest.Disturbances{KillFeed: time.Second})
	require.Eventually(t, func() bool { return trial.Counts()["kill feed"] > 0 }, 20*time.Second, time.Millisecond)
}

func TestADisturbanceIsDoneAsOftenAsItsTimeSays(t *testing.T) {
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	trial := stagetest.Run(t, s)
	trial.Disturb(1, stagetest.Disturbances{KillWorker: 2 * time.Millisecond, Swap: time.Hour, Pause: -time.Second})
	require.Eventually(t, func() bool {
		_, err := stage.Call[int](t.Context(), s, 1) // workers are started by commands
		return err == nil && trial.Counts()["kill worker"] >= 10
	}, 20*time.Second, time.Millisecond)
	require.Len(t, trial.Counts(), 1)
}

func TestEachKindOfActorIsKilledAndRestarted(t *testing.T) {
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	g := stage.Func("g", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	trial := stagetest.Run(t, s, pipeline.Group("group", 1, 1, g))
	rnd := rand.New(rand.NewPCG(1, 1))
	for name, kind := range map[string]disturb.Actor{
		"worker": disturb.Worker, "supervisor": disturb.Supervisor, "control loop": disturb.ControlLoop, "pool": disturb.Pool,
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				require.Eventually(t, func() bool { return disturb.Kill(trial.Name(), kind, rnd) }, 20*time.Second, time.Millisecond)
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
	require.False(t, disturb.Kill(trial.Name(), disturb.Feed, rnd), "it has none")
	require.False(t, disturb.Kill(trial.Name(), 99, rnd))
}
