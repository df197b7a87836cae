package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// crawled runs the program.
func crawled(t *testing.T, args string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(t.Context(), strings.Fields(args), &out, &err)
	return status, out.String(), err.String()
}

func TestEveryPageIsReadOnceOrFailsWithItsError(t *testing.T) {
	cases := map[string]string{
		"5,000 pages with 40 links":   "-quiet",
		"few links":                   "-quiet -pages 2000 -links 2",
		"half of the pages at fault":  "-quiet -pages 1000 -slow 0.1 -flaky 0.3 -broken 0.1 -hanging 0.005 -delay 10ms -limit 200ms",
		"a single page":               "-quiet -pages 1",
		"many links to the same page": "-quiet -pages 10 -links 2000",
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := crawled(t, args)
			require.Equal(t, show.StatusOK, status, stderr)
			assert.Empty(t, stderr)
			assert.Contains(t, stdout, "balanced")
			assert.NotContains(t, stdout, "NOT BALANCED")
		})
	}
}

func TestMissingAndRepeatedPagesAreReported(t *testing.T) {
	base, stop, err := serve(t.Context(), &site{pages: 1, links: 2})
	require.NoError(t, err)
	stop()
	at := func(page int) string { return base.JoinPath(path(page)).String() }
	require.NoError(t, compare("read", base, []int{0, 1}, map[string]int{at(0): 1, at(1): 1}))
	require.ErrorContains(t, compare("read", base, []int{0, 1}, map[string]int{at(0): 1}), "missing [\""+at(1)+"\"]")
	require.ErrorContains(t, compare("read", base, []int{0}, map[string]int{at(0): 2}), "more than once [\""+at(0)+"\"]")
	require.Error(t, compare("read", base, []int{0}, map[string]int{at(0): 1, at(1): 1}))
}

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	cases := map[string]struct{ args, want string }{
		"an unknown flag": {"-no", "crawler: flag provided but not defined: -no; see -help\n"},
		"all at once": {
			"-pages 0 -links 1 -slow 2 -delay -1s -limit 0 x",
			"crawler: stray argument \"x\"; everything is set with flags, see -help; -pages 0: at least 1; -links 1: at least 2; " +
				"-slow 2: from 0 to 1; -slow, -flaky, -broken and -hanging: 2.071 in all, at most 1; -delay -1s: at least 0; -limit 0s: above 0\n",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := crawled(t, c.args)
			assert.Equal(t, show.StatusUsage, status)
			assert.Empty(t, stdout)
			assert.Equal(t, c.want, stderr)
		})
	}
}

func TestHelpIsNoError(t *testing.T) {
	status, stdout, stderr := crawled(t, "-help")
	assert.Equal(t, show.StatusOK, status)
	assert.True(t, strings.HasPrefix(stdout, "crawler follows the links"), stdout)
	assert.Empty(t, stderr)
}
