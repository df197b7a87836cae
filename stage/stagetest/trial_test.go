package stagetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

// A trial of user stages, with faults in them, while their actors are killed.
func TestATrialOfAPipelineWithFaultsAndKills(t *testing.T) {
	faults := stagetest.Inject(t, 42, stagetest.Faults{Panic: 0.02, Goexit: 0.01, Error: 0.05, Delay: 0.1})
	save := stage.Func("save", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	parse := stage.Func("parse", func(_ context.Context, n int) behaviour.Outcome {
		return behaviour.Forward(save, n)
	}, stage.Middleware(faults.Middleware), stage.Retry(stage.RetryPolicy{Attempts: 5}))
	trial := stagetest.Run(t, parse, save)
	trial.Disturb(42, stagetest.Disturbances{KillWorker: 15 * time.Millisecond, KillSupervisor: 15 * time.Millisecond, KillControlLoop: 15 * time.Millisecond})
	for n := range 1000 {
		ticket, err := parse.Ask(t.Context(), n)
		require.NoError(t, err)
		trial.Await(ticket)
	}
	require.NoError(t, trial.Drain(t.Context()))
	stagetest.AtRest(t, trial.Pipeline)
	require.EqualValues(t, 1000, trial.Snapshot().Accepted)
	require.Positive(t, faults.Count(stagetest.Panic))
	require.Positive(t, faults.Count(stagetest.Goexit))
	require.Positive(t, faults.Count(stagetest.Error))
	require.Eventually(t, func() bool { return len(trial.Counts()) == 3 }, 20*time.Second, time.Millisecond)
}

func TestATrialThatFailsLogsTheSeedsOfItsDisturbances(t *testing.T) {
	w := &witness{TB: t}
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	trial := stagetest.Run(w, s)
	trial.Disturb(4711, stagetest.Disturbances{KillWorker: time.Hour})
	w.Error("a failure")
	w.end()
	require.Contains(t, w.logged[1], "stagetest: seeds: [4711]")
}

// witness is a testing.TB that records its calls, and whose end can be triggered.
type witness struct {
	testing.TB
	last []func()

	mu     sync.Mutex // guards all fields below
	said   []string
	logged []string
}

func (w *witness) Helper()                        {}
func (w *witness) Cleanup(f func())               { w.last = append(w.last, f) }
func (w *witness) Error(args ...any)              { w.say(fmt.Sprint(args...)) }
func (w *witness) Errorf(format string, a ...any) { w.say(fmt.Sprintf(format, a...)) }
func (w *witness) Fatal(args ...any)              { w.Error(args...); panic(w) }
func (w *witness) Fatalf(format string, a ...any) { w.Errorf(format, a...); panic(w) }

func (w *witness) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.said) > 0
}

func (w *witness) Logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logged = append(w.logged, fmt.Sprintf(format, args...))
}

func (w *witness) say(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *witness) end() {
	for _, f := range slices.Backward(w.last) {
		f()
	}
}

func TestATrialReportsWhichPromiseWasBroken(t *testing.T) {
	ok := func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) }
	for name, row := range map[string]struct {
		spoil func(t *testing.T, trial *stagetest.Trial, s *stage.Stage[int])
		says  string
	}{
		"a goroutine is left": {func(t *testing.T, _ *stagetest.Trial, _ *stage.Stage[int]) {
			let := make(chan struct{})
			go func() { <-let }()
			t.Cleanup(func() { close(let) })
		}, "goroutines: "},
		"the pipeline gives up": {func(t *testing.T, trial *stagetest.Trial, s *stage.Stage[int]) {
			for range 20 {
				_ = s.Submit(t.Context(), -1)
			}
			<-trial.Done()
		}, "survival: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{TB: t}
			s := stage.Func("s", func(ctx context.Context, n int) behaviour.Outcome {
				if n < 0 {
					panic("always")
				}
				return ok(ctx, n)
			}, stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 3}))
			trial := stagetest.Run(w, s, pipeline.Intensity(0, 0), stagetest.MayCrash())
			row.spoil(t, trial, s)
			w.end()
			require.Len(t, w.said, 1)
			require.Contains(t, w.said[0], row.says)
		})
	}
}

func TestAMissingAnswerIsReported(t *testing.T) {
	let := make(chan struct{})
	stray := stage.Func("stray", func(context.Context, int) behaviour.Outcome { <-let; return behaviour.OK(1) })
	other := stagetest.Run(t, stray)
	ticket, err := stray.Ask(t.Context(), 1)
	require.NoError(t, err)
	w := &witness{TB: t}
	trial := stagetest.Run(w, stage.Func("s", func(context.Context, int) behaviour.Outcome { return behaviour.OK(1) }))
	trial.Await(ticket) // its pipeline is another, slower one
	w.end()
	close(let)
	require.Contains(t, w.said[0], "one end: 1 awaited commands have no answer")
	require.NoError(t, other.Drain(t.Context()))
}

func TestAWatchdogReportsAStallAndWhere(t *testing.T) {
	in, let := make(chan struct{}, 3), make(chan struct{})
	s := stage.Func("slow", func(context.Context, int) behaviour.Outcome { in <- struct{}{}; <-let; return behaviour.OK(1) }, stage.Workers(1, 1))
	trial := stagetest.Run(t, s)
	for range 3 {
		require.NoError(t, s.Submit(t.Context(), 1))
	}
	<-in
	dog := stagetest.Watch(trial.Pipeline, 20*time.Millisecond)
	<-dog.Broken()
	err := dog.Stop()
	close(let)
	broken, ok := errors.AsType[*stagetest.BreachError](err)
	require.True(t, ok)
	require.Equal(t, stagetest.Promise("progress"), broken.Promise)
	require.Contains(t, broken.Detail, `with 3 commands in flight`)
	require.Contains(t, broken.Detail, `stage "slow": `)
	require.Contains(t, broken.Detail, "all workers are in handlers")
	require.Contains(t, broken.Detail, "TestAWatchdogReports", "the goroutines are reported")
	require.Equal(t, "progress", broken.Error()[:len("progress")])
}

func TestAWatchdogDoesNotReportAPause(t *testing.T) {
	s := stage.Func("s", func(context.Context, int) behaviour.Outcome { return behaviour.OK(1) })
	trial := stagetest.Run(t, s)
	require.NoError(t, trial.Pause(s))
	require.NoError(t, s.Submit(t.Context(), 1))
	dog := stagetest.Watch(trial.Pipeline, 10*time.Millisecond)
	select {
	case <-dog.Broken():
		require.Fail(t, "it found a breach", dog.Stop())
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, dog.Stop())
	require.NoError(t, dog.Stop(), "Stop may be called twice")
	require.Positive(t, dog.Snapshots())
	require.NoError(t, trial.Resume(s))
}
