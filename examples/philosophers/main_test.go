package main

import (
	"bytes"
	"encoding/json"
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

// philosophers runs the program.
func philosophers(args string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = run(strings.Fields(args), &out, &err)
	return status, out.String(), err.String()
}

func TestAllEatAndNeighboursNotAtOnce(t *testing.T) {
	for _, n := range []int{2, 3, 5, 8} {
		r := report{}
		status, stdout, stderr := philosophers("-json -eat 0 -meals 20 -patience 1m -philosophers " + string(rune('0'+n)))
		require.Equal(t, show.StatusOK, status, stderr)
		require.NoError(t, json.Unmarshal([]byte(stdout), &r))
		assert.Equal(t, 20*n, r.Meals)
		assert.LessOrEqual(t, r.MostAtOnce, n/2)
	}
}

func TestWithoutTheRuleTheyWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status, stdout, stderr := philosophers("-separately")
		assert.Equal(t, show.StatusFailed, status)
		assert.Contains(t, stdout, "\nmeals: 0\n")
		assert.Contains(t, stderr, "philosophers: deadlock: no philosopher has eaten for 1s; this is intended: ")
	})
}

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	usage.Refused(t, run, map[string][2]string{
		"an unknown flag": {"-no", "philosophers: flag provided but not defined: -no; see -help\n"},
		"not a number":    {"-meals x", "philosophers: invalid value \"x\" for flag -meals: parse error\n"},
		"all at once": {
			"-philosophers 1 -meals -1 -eat -1s -patience -2s x",
			"philosophers: stray argument \"x\"; everything is set with flags, see -help; -philosophers 1: at least 2; -meals -1: at least 0; " +
				"-eat -1s: at least 0; -patience -2s: longer than a meal, which takes -1s\n",
		},
	})
}

func TestHelpIsNoError(t *testing.T) { usage.Help(t, run, "philosophers has philosophers dine") }
