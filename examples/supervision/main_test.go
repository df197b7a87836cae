package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The facts of each chapter, without durations.
var facts = map[string][]string{
	"crash": {
		`100 / 4 = 25\n    100 / 0 crashed: runtime error: integer divide by zero \(at crash\.go:\d+\)\n    100 / 2 = 50`,
		`accepted 5 = replied 4 \+ failed 0 \+ shed 0 \+ dead-lettered 1 \+ in flight 0  balanced`,
		`stage "divide": crashes 1, workers that replaced a crashed one 1, retries 0`,
	},
	"restart": {
		`bread  sold at till 1, at attempt 1\n    cheese sold at till 2, at attempt 2`,
		`eggs   sold at till 3, at attempt 2`,
		`No sale was lost, and 3 tills were needed`,
		`accepted 5 = replied 5 .* balanced`,
	},
	"backoff": {
		`(?s)    crashed\n(    crashed .* later, after .* in all\n){5,}`,
		`Then \d+ pages were printed\. Each crash cost one: \d+ are in quarantine`,
		`accepted 40 = .* in flight 0  balanced`,
	},
	"quarantine": {
		`25 were packed, 5 were not`,
		`3 letters of stage "pack", fingerprint [0-9a-f]{12}, at quarantine\.go:\d+`,
		`2 letters of stage "pack", fingerprint [0-9a-f]{12}, at quarantine\.go:\d+`,
		`1\. 40 "" in 4 boxes, crash at attempt 3: runtime error: index out of range`,
		`accepted 30 = replied 25 .* dead-lettered 5 \+ in flight 0  balanced`,
		`crashes 15, workers that replaced a crashed one \d+, retries 10`,
	},
	"fix": {
		`letter 4 is out of quarantine; left: 4`,
		`3 letters were retried; left: 1`,
		`1 dropped; left: 0`,
		`accepted 34 = replied 29 .* dead-lettered 5 \+ in flight 0  balanced`,
	},
	"escalation": {
		`"and now\?": "yes"`,
		`later Run returned an error:\n.*"ask" failed after 1 restarts within 1m0s`,
		`├── ask: running`,
		`├── ask: down.*connection refused`,
		`stage "ask" gave up after \d+ crashes in a row without a completed command`,
		`tried: to start a fresh worker after each, 10 times after a pause`,
		`the server has hung up\n.*HandleCommand`,
		`escalation\.go:\d+`,
		`connection refused; one restart too many`,
		`in flight 0  balanced`,
		`stage "ask": crashes \d+, workers that replaced a crashed one 0,`,
		`Letters in quarantine: 1; among the other dead letters: \d+`,
	},
}

func tell(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, complaint bytes.Buffer
	status = run(t.Context(), args, &out, &complaint)
	return status, out.String(), complaint.String()
}

func TestTheStoryHasItsFacts(t *testing.T) {
	status, story, complaint := tell(t)
	require.Equal(t, show.StatusOK, status, complaint)
	require.Empty(t, complaint)
	for i, c := range chapters {
		_, text, ok := strings.Cut(story, "\n"+c.title+"\n")
		if !ok {
			_, text, ok = strings.Cut(story, ". "+c.title+"\n")
		}
		require.True(t, ok, "chapter %d is missing", i+1)
		if i+1 < len(chapters) {
			text, _, _ = strings.Cut(text, ". "+chapters[i+1].title+"\n")
		}
		require.NotEmpty(t, facts[c.name], "no facts of %q", c.name)
		for _, fact := range facts[c.name] {
			assert.Regexp(t, fact, text, c.name)
		}
	}
	require.NotContains(t, story, "NOT BALANCED")
	require.NotContains(t, story, "unknown place")
	require.NotContains(t, story, "\x1b", "no colours")
}

func TestOneChapterCanBeSelected(t *testing.T) {
	status, story, complaint := tell(t, "-chapter", "crash")
	require.Equal(t, show.StatusOK, status, complaint)
	require.Contains(t, story, "1. "+chapters[0].title)
	require.NotContains(t, story, chapters[1].title)
}

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	for _, args := range [][]string{{"-chapter", "love"}, {"-colour"}, {"crash"}, {"-chapter"}} {
		status, story, complaint := tell(t, args...)
		require.Equal(t, show.StatusUsage, status, args)
		require.Empty(t, story)
		require.Equal(t, 1, strings.Count(complaint, "\n"), complaint)
	}
}

func TestHelpIsNoError(t *testing.T) {
	status, story, complaint := tell(t, "-help")
	require.Equal(t, show.StatusOK, status)
	require.Contains(t, story, "-chapter")
	require.Empty(t, complaint)
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("the terminal is gone") }

func TestAStoryWithoutATerminalEnds(t *testing.T) {
	var complaint bytes.Buffer
	require.Equal(t, show.StatusOK, run(t.Context(), []string{"-chapter", "crash"}, gone{}, &complaint), complaint.String())
}
