package stagetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

// Each scene hangs after a command has been submitted to its first stage.
func scenes() map[string]struct {
	build func() (first *stage.Stage[int], parts []pipeline.Part)
	says  []string
} {
	deaf := func(ctx context.Context, n int) behaviour.Outcome { <-ctx.Done(); return behaviour.OK(n) }
	one := func(more ...stage.Option) []stage.Option { return append([]stage.Option{stage.Workers(1, 1)}, more...) }
	type row = struct {
		build func() (first *stage.Stage[int], parts []pipeline.Part)
		says  []string
	}
	return map[string]row{
		"calls in a circle": {func() (*stage.Stage[int], []pipeline.Part) {
			var a, b *stage.Stage[int]
			call := func(ctx context.Context, s *stage.Stage[int], n int) behaviour.Outcome {
				got, err := stage.Call[int](ctx, s, n)
				if err != nil {
					return behaviour.Error(err)
				}
				return behaviour.OK(got)
			}
			a = stage.Func("a", func(ctx context.Context, n int) behaviour.Outcome { return call(ctx, b, n) }, one()...)
			b = stage.Func("b", func(ctx context.Context, n int) behaviour.Outcome { return call(ctx, a, n) }, one()...)
			return a, []pipeline.Part{a, b}
		}, []string{
			`stage "a": 1 handler in `, `waiting for the answer to a command at stage "b"`,
			`stage "b": 1 handler in `, `waiting for the answer to a command at stage "a"`,
			"they wait in a circle: ",
		}},
		"suspended handlers call in a circle": {func() (*stage.Stage[int], []pipeline.Part) {
			var a, b *stage.Stage[int]
			call := func(c coroutine.Context, s *stage.Stage[int], n int) behaviour.Outcome {
				got, err := stage.Call[int](c, s, n)
				if err != nil {
					return behaviour.Error(err)
				}
				return behaviour.OK(got)
			}
			a = stage.Coroutine("a", func(c coroutine.Context, n int) behaviour.Outcome { return call(c, b, n) }, one(stage.Instances(1))...)
			b = stage.Coroutine("b", func(c coroutine.Context, n int) behaviour.Outcome { return call(c, a, n) }, one(stage.Instances(1))...)
			return a, []pipeline.Part{a, b}
		}, []string{
			`stage "a": 1 suspended handler in `, `waiting for the answer to a command at stage "b"`,
			`stage "b": 1 suspended handler in `, `waiting for the answer to a command at stage "a"`,
		}},
		"a handler submits to a stage that is full": {func() (*stage.Stage[int], []pipeline.Part) {
			full := stage.Func("full", deaf, one(stage.Capacity(1))...)
			a := stage.Func("a", func(ctx context.Context, n int) behaviour.Outcome {
				for {
					if err := full.Submit(ctx, n); err != nil {
						return behaviour.Error(err)
					}
				}
			}, one()...)
			return a, []pipeline.Part{a, full}
		}, []string{
			`stage "a": 1 handler in `, `waiting for a free slot in stage "full"`,
			`stage "full": 1 handler in `, "waiting for no known stage",
		}},
		"a worker holds commands for a stage that is full": {func() (*stage.Stage[int], []pipeline.Part) {
			full := stage.Func("full", deaf, one(stage.Capacity(1))...)
			a := stage.Func("a", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(full, n) }, one()...)
			first := stage.Func("first", func(ctx context.Context, n int) behaviour.Outcome {
				for range 3 {
					if err := behaviour.Emit(ctx, a, n); err != nil {
						return behaviour.Error(err)
					}
				}
				return behaviour.OK(n)
			}, one()...)
			return first, []pipeline.Part{first, a, full}
		}, []string{`stage "a": 1 worker with commands to hand over, waiting for a free slot in stage "full"`}},
	}
}

func TestATrialThatHangsFailsAtOnceAndReportsWhichHandlerWaitsForWhichStage(t *testing.T) {
	for name, scene := range scenes() {
		t.Run(name, func(t *testing.T) {
			w := &witness{TB: t}
			first, parts := scene.build()
			stagetest.Run(w, append(parts, stagetest.Patience(200*time.Millisecond), pipeline.Grace(time.Second))...)
			_, err := stage.Call[int](context.Background(), first, 1) // blocked for ever without the watchdog
			require.Error(t, err)
			w.end()
			said := strings.Join(w.said, "\n")
			require.Len(t, w.said, 1, "it is reported once: %s", said)
			for _, says := range scene.says {
				require.Contains(t, said, says)
			}
		})
	}
}

// A command that waits for its next try does so until a time that its stage knows.
func TestACommandThatWaitsForItsNextTryIsNoHang(t *testing.T) {
	s := stage.Func("s", func(ctx context.Context, n int) behaviour.Outcome {
		if behaviour.Attempt(ctx) == 1 {
			return behaviour.Error(errors.New("not yet"))
		}
		return behaviour.OK(n)
	}, stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: 500 * time.Millisecond, Max: 500 * time.Millisecond}))
	caller := stage.Func("caller", func(ctx context.Context, n int) behaviour.Outcome {
		got, err := stage.Call[int](ctx, s, n)
		if err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(got)
	})
	stagetest.Run(t, caller, s, stagetest.Patience(100*time.Millisecond))
	got, err := stage.Call[int](t.Context(), caller, 1)
	require.NoError(t, err)
	require.Equal(t, 1, got)
}

// A retry elsewhere does not hide handlers that wait for each other.
func TestACircleOfCallsIsAHangWhileACommandWaitsForItsNextTry(t *testing.T) {
	first, parts := scenes()["calls in a circle"].build()
	late := stage.Func("late", func(context.Context, int) behaviour.Outcome { return behaviour.Error(errors.New("not yet")) },
		stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Minute}))
	w := &witness{TB: t}
	stagetest.Run(w, append(parts, late, stagetest.Patience(100*time.Millisecond), pipeline.Grace(time.Second))...)
	require.NoError(t, late.Submit(t.Context(), 1))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := stage.Call[int](ctx, first, 1)
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "the watchdog was earlier")
	w.end()
	require.Contains(t, strings.Join(w.said, "\n"), "they wait in a circle: ")
}

// The test below runs itself in another process, which can only end by a panic.
func TestATestThatDoesNotEndAlthoughItsPipelineWasStoppedPanicsWithTheReport(t *testing.T) {
	const child = "GOLDA_TEST_HANGS"
	if os.Getenv(child) != "" {
		stagetest.EndsWithin(time.Millisecond)
		s := stage.Func("s", func(ctx context.Context, n int) behaviour.Outcome { <-ctx.Done(); return behaviour.OK(n) })
		stagetest.Run(t, s, stagetest.Patience(50*time.Millisecond))
		require.NoError(t, s.Submit(t.Context(), 1))
		select {}
	}
	run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	run.Env = append(os.Environ(), child+"=1")
	out, err := run.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "panic: stagetest: the pipeline was stopped hard, but the test has not ended: "+t.Name())
	require.Contains(t, string(out), `stage "s": 1 handler in `)
}

func TestADiagnosisSaysHowManyCallersAndWorkersWaitForASlot(t *testing.T) {
	release := make(chan struct{})
	last := stage.Sink("last", func(context.Context, int) error { <-release; return nil }, stage.Workers(1, 1), stage.Capacity(1), stage.Batch(1))
	first := stage.Map("first", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Workers(1, 1), stage.Capacity(1), stage.Batch(1))
	p, err := pipeline.New("slots", first.To(last), pipeline.Control(policy.Fixed{}))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	var callers sync.WaitGroup
	for n := range 7 { // one is handled, one queued behind it, one in the hand of a worker, one queued in front, and three wait
		callers.Go(func() { _ = first.Submit(context.Background(), n) })
	}
	want := strings.Join([]string{
		`  stage "first": 1 queued of 1, 1 in hand, 0 waiting for a retry; 1 workers of pool "first", 0 busy; full; callers that wait for a free slot: 3`,
		`  stage "last": 1 queued of 1, 1 in hand, 0 waiting for a retry; 1 workers of pool "last", 1 busy; full; ` +
			`workers of other stages that wait to hand over: 1; all workers are in handlers`,
	}, "\n")
	require.Eventually(t, func() bool { return stagetest.Diagnose(p.Snapshot()) == want }, 20*time.Second, time.Millisecond,
		"it says\n%s\nand not\n%s", lazily(func() string { return stagetest.Diagnose(p.Snapshot()) }), want)
	close(release)
	callers.Wait()
	require.NoError(t, p.Stop(t.Context()))
	require.Zero(t, first.Snapshot().Queue.Submitters)
}

// lazily is a text that is made when it is printed.
type lazily func() string

func (f lazily) String() string { return f() }

// A pool's workers are in none of the accounts of the stages that it serves, and a drained stage is empty.
func TestADiagnosisCountsAPoolsWorkersAndNamesTheDrainedStageThatIsWaitedFor(t *testing.T) {
	out := behaviour.NewPort[int]("out")
	first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(out, n) }, stage.Out(out), stage.Capacity(4))
	second := stage.Func("second", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) }, stage.Capacity(4))
	p, err := pipeline.New("pools", pipeline.Group("g", 2, 2, first, second), pipeline.Wire(out, second), pipeline.Control(policy.Fixed{}))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, p.Drain(t.Context(), second))
	require.NoError(t, first.Submit(t.Context(), 1))
	require.Equal(t, strings.Join([]string{
		`  stage "first": 1 queued of 4, 0 in hand, 0 waiting for a retry; 2 workers of pool "g", 0 busy`,
		`  stage "second": 0 queued of 4, 0 in hand, 0 waiting for a retry; 2 workers of pool "g", 0 busy; drained`,
	}, "\n"), stagetest.Diagnose(p.Snapshot()))
	require.NoError(t, p.Stop(t.Context()))
	require.Equal(t, "  nothing is in flight", stagetest.Diagnose(p.Snapshot()))
}
