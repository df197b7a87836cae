package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/lab"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// piped returns a function that makes pipelines of one stage.
func piped(f func(ctx context.Context, n int) (int, error), opts ...stage.Option) func(pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
	return func(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
		work := stage.Map("work", f, opts...)
		p, err := pipeline.New("line", work, control)
		return p, func(ctx context.Context, r lab.Request) error {
			_, err := work.Call(ctx, r.N)
			return err
		}, err
	}
}

func same(_ context.Context, n int) (int, error) { return n, nil }

// brief is an experiment of some moments, on a machine that may be busy.
func brief() lab.Experiment {
	return lab.Experiment{
		Pipeline: piped(same), Workload: lab.Poisson(400), Policies: []string{"backlog", "fixed"},
		Length: 100 * time.Millisecond, Runs: 2, Late: time.Hour, Deadline: time.Minute,
	}
}

func compared(t *testing.T, e lab.Experiment) *lab.Report {
	t.Helper()
	r, err := lab.Compare(t.Context(), e)
	require.NoError(t, err)
	return r
}

func figure(t *testing.T, o lab.Outcome, name string) lab.Figure {
	t.Helper()
	for _, f := range o.Figures {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("candidate %s has no %s", o.Candidate, name)
	return lab.Figure{}
}

func TestEachCandidateGetsTheSameRequestsInEachRound(t *testing.T) {
	e := brief()
	type got struct {
		policy string
		lab.Request
	}
	all := make(chan got, 10_000)
	e.Classes = map[string]float64{"a": 1, "b": 3}
	e.Policies = []string{"fixed", "backlog+batching", "srpt"}
	e.Pipeline = func(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
		p, send, err := piped(same)(control)
		name := p.Snapshot().Policy
		return p, func(ctx context.Context, r lab.Request) error {
			all <- got{name, r}
			return send(ctx, r)
		}, err
	}
	report := compared(t, e)
	close(all)
	of := map[string]map[lab.Request]int{}
	classes := map[string]int{}
	for g := range all {
		if of[g.policy] == nil {
			of[g.policy] = map[lab.Request]int{}
		}
		of[g.policy][g.Request]++
		classes[g.Class]++
	}
	require.Len(t, of, 3)
	assert.Equal(t, of["fixed"], of["backlog+batching"])
	assert.Equal(t, of["fixed"], of["srpt"])
	assert.Greater(t, classes["b"], classes["a"])
	for _, o := range report.Outcomes {
		require.Len(t, o.Runs, 2)
		assert.NotEqual(t, o.Runs[0].Seed, o.Runs[1].Seed)
		for _, r := range o.Runs {
			assert.Equal(t, r.Sent, r.Answered)
			assert.Equal(t, r.Sent, r.Good+r.Refused+r.Failed)
			assert.Len(t, r.Points, 50)
		}
		assert.InDelta(t, 1, figure(t, o, "fairness").Median, 1e-9)
		assert.Positive(t, figure(t, o, "worker-seconds").Median)
	}
}

// A closed loop would send nothing during the stall, and report one slow request.
func TestAPipelineThatStallsForASecondShowsItInThePercentile(t *testing.T) {
	e := brief()
	e.Length, e.Runs, e.Policies, e.Workload = 2*time.Second, 1, []string{"fixed"}, lab.Poisson(200)
	e.Pipeline = piped(func(_ context.Context, n int) (int, error) {
		if n == 100 {
			time.Sleep(time.Second) // the stall
		}
		return n, nil
	}, stage.Workers(1, 1))
	o := compared(t, e).Outcomes[0]
	assert.GreaterOrEqual(t, figure(t, o, "p99").Median, 900.0)
	assert.GreaterOrEqual(t, figure(t, o, "most in flight").Median, 100.0)
	stalled := 0
	for _, p := range o.Runs[0].Points {
		if p.Queued > 20 {
			stalled++
		}
	}
	assert.Greater(t, stalled, 10, "about half of fifty parts")
}

func TestARunOfATraceEndsWithItsLastRequest(t *testing.T) {
	e := brief()
	e.Workload, e.Length = lab.Trace(0, 20*time.Millisecond, 30*time.Millisecond), 0
	r := compared(t, e)
	assert.Equal(t, 30*time.Millisecond+1, r.Length)
	assert.Equal(t, 2, r.Outcomes[0].Runs[0].Sent, "the first is in the warm-up")
}

func TestRefusalsAndFailuresAreCountedAndNoReasonToStop(t *testing.T) {
	e := brief()
	e.Classes = map[string]float64{"fails": 1, "works": 1}
	e.Pipeline = func(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
		p, send, err := piped(same)(control)
		return p, func(ctx context.Context, r lab.Request) error {
			switch {
			case r.Class == "fails":
				return errors.New("it fails")
			case r.N%2 == 0:
				return stage.ErrFull
			default:
				return send(ctx, r)
			}
		}, err
	}
	for _, o := range compared(t, e).Outcomes {
		for _, r := range o.Runs {
			assert.Positive(t, r.Failed)
			assert.Positive(t, r.Refused)
			assert.Equal(t, r.Sent, r.Answered+r.Failed+r.Refused)
		}
		assert.InDelta(t, 0.5, figure(t, o, "fairness").Median, 1e-9, "one of two classes has all")
	}
}

func TestWithoutAnAnswerALatencyIsNeverAndNullInJSON(t *testing.T) {
	e := brief()
	e.Pipeline = piped(func(context.Context, int) (int, error) { return 0, errors.New("no") })
	r := compared(t, e)
	f := figure(t, r.Outcomes[0], "p99")
	assert.True(t, math.IsInf(f.Median, 1))
	assert.Equal(t, "never", f.String())
	text, err := json.Marshal(f)
	require.NoError(t, err)
	assert.JSONEq(t, `{"name": "p99", "unit": "ms", "median": null, "low": null, "high": null}`, string(text))
	var read lab.Figure
	require.NoError(t, json.Unmarshal(text, &read))
	assert.Equal(t, f, read)
	assert.Contains(t, strings.Join(r.Verdicts, "\n"), "p99: nothing differs (never).")
}

func TestAReportHasATableAndJSON(t *testing.T) {
	e := brief()
	e.Title = "Two of a kind"
	e.Policies = []string{"backlog", "fixed", "seda", "erlda", "seda:cruz"}
	var progress bytes.Buffer
	e.Progress = &progress
	r := compared(t, e)
	table := r.String()
	assert.True(t, strings.HasPrefix(table, "Two of a kind\nPoisson(400/s), 2 runs of 100ms each, the first 10ms not measured; deadline 1m0s; seed 0.\n"), table)
	assert.Regexp(t, `(?m)^ +backlog +fixed +seda +erlda$`, table)
	assert.Regexp(t, `(?m)^ +seda:cruz$`, table)
	assert.Regexp(t, `(?m)^good % +100.0 +100.0 +100.0 +100.0$`, table)
	for _, v := range r.Verdicts {
		assert.Contains(t, table, v)
	}
	assert.Equal(t, 10, strings.Count(progress.String(), "\n"))
	assert.Contains(t, progress.String(), "1 of 10  backlog, run 1: 100.0 % good, p99 ")
	assert.NotContains(t, progress.String(), "\r")

	text, err := json.Marshal(r)
	require.NoError(t, err)
	var read struct {
		Title    string
		Outcomes []struct {
			Candidate string
			Figures   []struct {
				Name   string
				Median float64
			}
			Runs []struct{ Points []struct{ Sent float64 } }
		}
	}
	require.NoError(t, json.Unmarshal(text, &read))
	require.Len(t, read.Outcomes, 5)
	assert.Equal(t, "seda:cruz", read.Outcomes[4].Candidate)
	assert.Len(t, read.Outcomes[4].Runs[1].Points, 50)
}

func TestAnExperimentThatIsWrongSaysAllFaultsAtOnce(t *testing.T) {
	_, err := lab.Compare(t.Context(), lab.Experiment{})
	require.EqualError(t, err, strings.Join([]string{
		"lab: Pipeline is missing: a function that makes the pipeline of a run",
		"lab: Workload is missing: Poisson, Burst, OnOff, Trace or TraceFile makes one",
		"lab: Length is 0s: it is how long a run lasts, and must be above 0 and at most 24h0m0s",
		"lab: there is no policy to compare: name some in Policies or in Candidates",
	}, "\n"))
	for name, c := range map[string]struct {
		change func(e *lab.Experiment)
		err    string
	}{
		"unknown policy": {func(e *lab.Experiment) { e.Policies = []string{"fixed", "seda:crux"} }, `lab: Policies has "seda:crux": policy: unknown policy "seda:crux"; known are`},
		"unknown of two": {func(e *lab.Experiment) { e.Policies = []string{"fixed+"} }, `lab: Policies has "fixed+": policy: unknown policy ""`},
		"twice":          {func(e *lab.Experiment) { e.Policies = []string{"fixed", "fixed"} }, `lab: candidate "fixed" is there twice`},
		"no name": {func(e *lab.Experiment) {
			e.Candidates = []lab.Candidate{{Policies: []controller.Policy{policy.Fixed{}}}}
		}, "lab: candidate 3 has no name"},
		"no policies": {func(e *lab.Experiment) { e.Candidates = []lab.Candidate{{Name: "none"}} }, `lab: candidate "none" has no policies`},
		"nil policy": {func(e *lab.Experiment) {
			e.Candidates = []lab.Candidate{{Name: "x", Policies: []controller.Policy{nil}}}
		}, `lab: candidate "x" has a policy that is nil`},
		"wrong policy": {func(e *lab.Experiment) {
			e.Candidates = []lab.Candidate{{Name: "x", Policies: []controller.Policy{policy.SEDA{Threshold: -1}}}}
		}, `lab: candidate "x": policy: `},
		"runs":         {func(e *lab.Experiment) { e.Runs = -1 }, "lab: Runs is -1, and must be from 1 to 1000"},
		"length":       {func(e *lab.Experiment) { e.Length = 0 }, "lab: the workload Poisson(400/s) has a length of 0s, and sends nothing"},
		"warm-up":      {func(e *lab.Experiment) { e.Warmup = e.Length }, "lab: Warmup is 100ms, and must be from 0 to less than Length, which is 100ms"},
		"deadline":     {func(e *lab.Experiment) { e.Deadline = -1 }, "lab: Deadline -1ns, Late 1h0m0s and Patience 30.1s must not be negative"},
		"class":        {func(e *lab.Experiment) { e.Classes = map[string]float64{"a": 1, "b": -1} }, `lab: class "b" has the share -1`},
		"classes":      {func(e *lab.Experiment) { e.Classes = map[string]float64{"a": 0} }, "lab: no class has a share above 0"},
		"nothing sent": {func(e *lab.Experiment) { e.Workload = lab.Trace(0) }, `lab: candidate "backlog", run 1: lab: the workload Trace(1 requests) sends nothing from the end of the warm-up, 10ms, to the end of the run, 100ms`},
		"no pipeline": {func(e *lab.Experiment) {
			e.Pipeline = func(pipeline.Part) (*pipeline.Pipeline, lab.Send, error) { return nil, nil, nil }
		}, "lab: Experiment.Pipeline returned no pipeline, or no function to send with"},
		"pipeline's error": {func(e *lab.Experiment) { e.Pipeline = piped(same, stage.Workers(2, 1)) }, "lab: Experiment.Pipeline: "},
		"without control": {func(e *lab.Experiment) {
			of := e.Pipeline
			e.Pipeline = func(pipeline.Part) (*pipeline.Pipeline, lab.Send, error) { return of(pipeline.Control(policy.SRPT{})) }
		}, `the pipeline is controlled by "srpt" instead of "backlog": Experiment.Pipeline must give pipeline.New the part that it is given`},
	} {
		t.Run(name, func(t *testing.T) {
			e := brief()
			c.change(&e)
			_, err := lab.Compare(t.Context(), e)
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestALateGeneratorIsAnErrorAfterThreeTries(t *testing.T) {
	e := brief()
	made := 0
	of := e.Pipeline
	e.Pipeline = func(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
		made++
		return of(control)
	}
	e.Late = 1 // no generator sends a request within a nanosecond
	_, err := lab.Compare(t.Context(), e)
	require.ErrorIs(t, err, lab.ErrLate)
	require.ErrorContains(t, err, `candidate "backlog", run 1: lab: the generator is late: `)
	require.ErrorContains(t, err, "of the requests were sent more than 1ns late, and at most 1 % may be")
	require.Equal(t, 3, made)
}

func TestARunWithoutFileDescriptorsIsAnError(t *testing.T) {
	e := brief()
	e.Pipeline = func(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
		p, send, err := piped(same)(control)
		return p, func(ctx context.Context, r lab.Request) error {
			if r.N == 5 {
				return fmt.Errorf("dial: %w", os.NewSyscallError("socket", syscall.EMFILE))
			}
			return send(ctx, r)
		}, err
	}
	_, err := lab.Compare(t.Context(), e)
	require.ErrorIs(t, err, syscall.EMFILE)
	require.ErrorContains(t, err, "request 5: file descriptors have run out (the limit is ")
}

func TestRequestsWithoutAnAnswerAreAnErrorAndThePipelineIsStoppedHard(t *testing.T) {
	e := brief()
	e.Patience = 10 * time.Millisecond
	e.Pipeline = piped(func(ctx context.Context, n int) (int, error) {
		if n == 3 {
			<-ctx.Done()
		}
		return n, nil
	})
	_, err := lab.Compare(t.Context(), e)
	require.Error(t, err)
	require.Regexp(t, `^lab: candidate "backlog", run 1: lab: \d+ requests have no answer 10ms after the last one was sent$`, err.Error())
}

// The handler returns when the test says so, which is after Compare.
func TestAPipelineThatDoesNotStopIsAnError(t *testing.T) {
	release := make(chan struct{})
	var ended atomic.Bool
	e := brief()
	e.Patience = time.Second
	e.Pipeline = func(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
		work := stage.Func("work", func(_ context.Context, n int) behaviour.Outcome {
			if n == 3 {
				<-release
				ended.Store(true)
			}
			return behaviour.OK(n)
		}, stage.Workers(2, 2))
		p, err := pipeline.New("line", work, control, pipeline.Grace(10*time.Millisecond), pipeline.Logger(slog.New(slog.DiscardHandler)))
		return p, func(ctx context.Context, r lab.Request) error { return work.Submit(ctx, r.N) }, err // without a ticket
	}
	_, err := lab.Compare(t.Context(), e)
	require.ErrorContains(t, err, "the pipeline does not stop within 1s of its last answer: ")
	close(release)
	require.Eventually(t, ended.Load, time.Minute, time.Millisecond)
}

func TestAPipelineThatEndsMeanwhileIsAnError(t *testing.T) {
	e := brief()
	e.Length = time.Minute
	e.Pipeline = func(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
		p, send, err := piped(same)(control)
		return p, func(ctx context.Context, r lab.Request) error {
			if r.N == 5 {
				return p.Stop(ctx)
			}
			return send(ctx, r)
		}, err
	}
	_, err := lab.Compare(t.Context(), e)
	require.ErrorContains(t, err, "the pipeline ended while requests were sent: ")
}

func TestAnExperimentEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := brief()
	e.Length = time.Hour
	e.Workload = lab.Trace(0, time.Minute, time.Hour-1)
	e.Warmup = time.Minute
	e.Pipeline = piped(func(_ context.Context, n int) (int, error) {
		cancel()
		return n, nil
	})
	_, err := lab.Compare(ctx, e)
	require.ErrorIs(t, err, context.Canceled)
	_, err = lab.Compare(ctx, brief())
	require.ErrorIs(t, err, context.Canceled)
}
