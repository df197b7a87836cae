package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/controller/lab"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/internal/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ran runs the program for a moment, on a machine that may be busy.
func ran(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, complaint bytes.Buffer
	status = run(t.Context(), append([]string{"-length", "50ms", "-runs", "1", "-late", "1h", "-out", ""}, args...), &out, &complaint)
	return status, out.String(), complaint.String()
}

func TestEachWorkloadRunsUnderTwoPolicies(t *testing.T) {
	for _, w := range workloads() {
		t.Run(w.name, func(t *testing.T) {
			status, out, complaint := ran(t, "-workload", w.name, "-policies", "backlog,color")
			require.Equal(t, show.StatusOK, status, complaint)
			assert.Contains(t, out, "Policies under the workload "+w.name+": "+w.about)
			assert.Regexp(t, `(?m)^ +backlog +color$`, out)
			assert.Regexp(t, `(?m)^throughput /s +\d+ +\d+$`, out)
			if w.model() != nil {
				assert.Regexp(t, `(?m)^throughput /s, simulated +\d+ +\d+$`, out)
			}
		})
	}
}

func TestTheTableComesWithAPageOrAsJSON(t *testing.T) {
	page := filepath.Join(t.TempDir(), "new", "lab.html")
	status, out, complaint := ran(t, "-workload", "skew", "-policies", "none", "-out", page, "-json")
	require.Equal(t, show.StatusOK, status, complaint)
	assert.Contains(t, complaint, "the plots are in "+page)
	var report lab.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.Equal(t, "none", report.Outcomes[0].Candidate)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(text), "<svg")
}

func TestFourServersAnswerUnderTheSameLoad(t *testing.T) {
	status, out, complaint := ran(t, "-servers", "-length", "1s", "-peak", "3", "-json")
	require.Equal(t, show.StatusOK, status, complaint)
	var report lab.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	var names []string
	for _, o := range report.Outcomes {
		names = append(names, o.Candidate)
		assert.Positive(t, o.Runs[0].Answered, o.Candidate)
		assert.Equal(t, report.Outcomes[0].Runs[0].Sent, o.Runs[0].Sent, "the same requests")
	}
	assert.Equal(t, []string{"net/http", "LimitListener", "failsafe-go", "adapter/http"}, names)
}

func TestAPolicyThatNeedsATargetGetsTheDeadline(t *testing.T) {
	all, err := candidates("none,rt90,shed,limit,objective", 500*time.Millisecond)
	require.NoError(t, err)
	assert.Equal(t, policy.Objective{Within: 500 * time.Millisecond}, all[4].Policies[0])
	assert.Equal(t, policy.Limit{}, all[3].Policies[0])
	assert.Positive(t, all[1].Policies[0].(policy.RT90).Target)
	all, err = candidates("rt90", 0)
	require.NoError(t, err)
	assert.Equal(t, policy.RT90{}, all[0].Policies[0])
}

func TestATraceReplacesTheLoadOfAWorkload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "times")
	require.NoError(t, os.WriteFile(file, []byte("0.01\n20ms\n0.03\n"), 0o600))
	status, out, complaint := ran(t, "-trace", file, "-policies", "fixed", "-json")
	require.Equal(t, show.StatusOK, status, complaint)
	var report lab.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.Equal(t, 3, report.Outcomes[0].Runs[0].Sent)

	status, _, complaint = ran(t, "-trace", file+"s")
	assert.Equal(t, show.StatusFailed, status)
	assert.Contains(t, complaint, "lab: trace file: open ")
}

func TestFlagsThatAreWrongStartNothing(t *testing.T) {
	usage.Refused(t, usage.In(t.Context(), run), map[string][2]string{
		"unknown workload": {"-workload heavy", "lab: -workload: unknown workload \"heavy\"; known are even, skew, blocking, bursts, overload, poison, tail, loop, classes, drift\n"},
		"no policies":      {"-policies ,", "lab: -policies: at least one policy is needed\n"},
		"no length":        {"-length -1s", "lab: -length: -1s is no length of a run\n"},
		"no peak":          {"-workload skew -peak 3", "lab: -peak: 3 is not above 0, or the workload \"skew\" has none\n"},
		"all is a warm-up": {"-length 1s -warmup 1s", "lab: -warmup: 1s is not from 0 to the length of a run\n"},
		"no runs":          {"-runs 0", "lab: -runs: 0 runs; at least 1 is needed\n"},
		"never late":       {"-late 0s", "lab: -late: 0s must be above 0\n"},
		"full alone":       {"-full -erlda x", "lab: -erlda, -full: for the tables of the dissertation; add -tables\n"},
		"page alone":       {"-page x", "lab: -page: for the tables of the dissertation; add -tables\n"},
		"two programs":     {"-tables -workload skew -runs 3", "lab: -tables has workloads, policies and runs of its own: leave out -runs, -workload\n"},
		"tables, argument": {"-tables skew", "lab: stray argument \"skew\"; everything is set with flags, see -help\n"},
		"argument":         {"skew", "lab: stray argument \"skew\"; everything is set with flags, see -help\n"},
	})
	usage.Help(t, usage.In(t.Context(), run), about)
	status, _, complaint := ran(t, "-policies", "fixed,sedan+batchin")
	assert.Equal(t, show.StatusUsage, status)
	assert.Contains(t, complaint, `-policies: policy: unknown policy "sedan"; known are `)
	assert.Contains(t, complaint, `-policies: policy: unknown policy "batchin"; known are `)
}

func TestTheFlagsOfTheTables(t *testing.T) {
	c, err := parse([]string{"-tables", "-seed", "7", "-erlda", "127.0.0.1:1"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join("out", "tables.html"), c.out)
	assert.Equal(t, filepath.Join("docs", "tables.md"), c.page)
	assert.Equal(t, uint64(7), c.tables.Seed)
	assert.Equal(t, "127.0.0.1:1", c.tables.ERLDA)
	assert.Less(t, c.tables.Images, 5000)

	c, err = parse([]string{"-tables", "-full", "-out", "", "-page", "x.md"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, []int{5000, 2000}, []int{c.tables.Images, c.tables.Requests})
	assert.Empty(t, c.out)
	assert.Empty(t, beside(c.out))
	assert.Equal(t, "x.md", c.page)
	assert.Equal(t, "a/b-web.html", beside("a/b.html"))
}

func TestAJobDependsOnItsRequestAlone(t *testing.T) {
	for _, w := range workloads() {
		r := lab.Request{Seed: 7, At: time.Second, Class: "second"}
		assert.Equal(t, w.newJob(r, 2*time.Second), w.newJob(r, 2*time.Second), w.name)
	}
	w := workload{steps: []step{constant("a", time.Millisecond)}, drift: 3, again: 0.5}
	assert.Equal(t, 2*time.Millisecond, w.newJob(lab.Request{At: time.Second}, 2*time.Second).takes[0])
	rounds := 0
	for seed := range uint64(2000) {
		rounds += w.newJob(lab.Request{Seed: seed}, time.Second).rounds
	}
	assert.InDelta(t, 2, float64(rounds)/2000, 0.1)
}

func TestTheMeanOfAParetoDistributionIsThatOfItsDraws(t *testing.T) {
	p := simulator.Pareto{Least: time.Millisecond, Most: 100 * time.Millisecond, Alpha: 1.5}
	r := rand.New(rand.NewPCG(1, 1))
	const n = 200_000
	sum := 0.0
	for range n {
		sum += p.Draw(r).Seconds()
	}
	assert.InEpsilon(t, meanOf(p).Seconds(), sum/n, 0.02)
}
