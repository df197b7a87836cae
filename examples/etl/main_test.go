package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
)

func TestMain(m *testing.M) {
	if work := os.Getenv(workEnv); work != "" {
		os.Exit(child(work))
	}
	goleak.VerifyTestMain(m)
}

func TestAProcessThatIsKilledFiveTimesWritesTheSameBytes(t *testing.T) {
	var out, errs bytes.Buffer
	args := strings.Fields("-n 100000 -period 10ms -json")
	require.Equal(t, show.StatusOK, run(t.Context(), args, &out, &errs), errs.String()+out.String())
	var r result
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	t.Logf("%+v", r)
	assert.True(t, r.Same, "the bytes with and without kills differ")
	assert.True(t, r.Right, "the bytes are not those of a loop")
	assert.Equal(t, 5, r.With.Killed)
	assert.Zero(t, r.With.Afresh)
	assert.Greater(t, r.Results, 20_000)
}

func TestTheProgressAndTheVerdictAreShown(t *testing.T) {
	var out, errs bytes.Buffer
	require.Equal(t, show.StatusOK, run(t.Context(), strings.Fields("-n 30000 -period 10ms -kills 1"), &out, &errs), errs.String())
	for _, want := range []string{
		"a log of 30000 lines", "killed at ", "without kills: ", "with 1 kills: ",
		"bytes with and without kills: the same\nbytes of a loop: the same\n",
	} {
		require.Contains(t, out.String(), want)
	}
}

func TestAReportThatDiffersIsAnError(t *testing.T) {
	r := result{Same: true, Right: true, With: ran{Killed: 5}}
	require.NoError(t, r.check(5))
	require.ErrorContains(t, r.check(6), "5 processes were killed, not 6")
	r.Same, r.With.Afresh = false, 1
	require.ErrorContains(t, r.check(5), "the report of the run with kills differs")
	require.ErrorContains(t, r.check(5), "1 processes began at the beginning")
}

func TestFlagsThatCannotBe(t *testing.T) {
	for args, want := range map[string]string{
		"-n 0":       "-n 0: at least 1",
		"-kills -1":  "-kills -1: at least 0",
		"-period 1s": "",
		"-period 1":  "parse error",
		"more":       "stray argument",
	} {
		_, err := parseFlags(strings.Fields(args), &bytes.Buffer{})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
