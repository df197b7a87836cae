package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/internal/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// resources runs the program.
func resources(args string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = run(strings.Fields(args), &out, &err)
	return status, out.String(), err.String()
}

// reported runs the program with -json.
func reported(t *testing.T, args string) (r report) {
	t.Helper()
	status, stdout, stderr := resources(args + " -json")
	require.Equal(t, show.StatusOK, status, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	return r
}

func TestOneIsOnAtATimeAndEachOnceInARound(t *testing.T) {
	r := reported(t, "")
	assert.Equal(t, 1, r.MostOn)
	assert.Equal(t, 4, r.Rounds)
	assert.Len(t, r.TurnedOn, 20)
	assert.Equal(t, 2, r.Started)
}

func TestTheRulesHoldAlthoughTheirSynchronizersCrash(t *testing.T) {
	r := reported(t, "-crash 3 -resources 4 -rounds 6")
	assert.Equal(t, 1, r.MostOn)
	assert.Equal(t, 6, r.Rounds)
	assert.Equal(t, 2*(1+3), r.Started)
}

func TestEachRuleWorksAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reported(t, "-rules one -resources 3")
		assert.Equal(t, 1, r.MostOn)
		assert.Len(t, r.TurnedOn, 12)
		r = reported(t, "-rules round -resources 3")
		assert.Equal(t, 4, r.Rounds)
		assert.Greater(t, r.MostOn, 1)
		r = reported(t, "-rules none -rounds 2")
		assert.Zero(t, r.Started)
		assert.Len(t, r.TurnedOn, 10)
		assert.Equal(t, 5, r.MostOn)
		assert.Empty(t, reported(t, "-rounds 0").TurnedOn)
	})
}

func TestTheTextHasALineForEachRound(t *testing.T) {
	status, stdout, stderr := resources("-rounds 2 -resources 3")
	assert.Equal(t, show.StatusOK, status)
	assert.Empty(t, stderr)
	lines := strings.Split(stdout, "\n")
	require.Len(t, lines, 6)
	for _, round := range lines[:2] {
		names := strings.Fields(round)
		slices.Sort(names)
		assert.Equal(t, []string{"Res_A", "Res_B", "Res_C"}, names)
	}
	assert.Equal(t, []string{"most on at once: 1", "complete rounds: 2", "synchronizers started: 2", ""}, lines[2:])
}

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	usage.Refused(t, run, map[string][2]string{
		"an unknown flag": {"-no", "resources: flag provided but not defined: -no; see -help\n"},
		"not a number":    {"-rounds x", "resources: invalid value \"x\" for flag -rounds: parse error\n"},
		"a round of one":  {"-resources 1", "resources: -rules both: a round has at least 2 resources\n"},
		"all at once": {
			"-resources 27 -rounds -1 -rules x -hold -1s -crash 9 y",
			"resources: stray argument \"y\"; everything is set with flags, see -help; -resources 27: from 1 to 26; -rounds -1: at least 0; " +
				"-rules \"x\": one, round, both or none; -hold -1s: at least 0; -crash 9: from 0 to 8: the pauses before restarts grow\n",
		},
	})
}

func TestHelpIsNoError(t *testing.T) { usage.Help(t, run, "resources turns resources on and off") }
