package main

import (
	"bytes"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/internal/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tasks runs the program.
func tasks(args string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = run(strings.Fields(args), &out, &err)
	return status, out.String(), err.String()
}

func TestTheConsumerGetsAllItemsInOrder(t *testing.T) {
	status, stdout, stderr := tasks("")
	assert.Equal(t, show.StatusOK, status)
	assert.Empty(t, stderr)
	lines := taken(stdout)
	assert.Len(t, lines, 10)
	for p := range 2 {
		var own []string
		for _, l := range lines {
			if strings.HasPrefix(l, fmt.Sprintf("producer %d,", p)) {
				own = append(own, l)
			}
		}
		assert.Len(t, own, 5)
		assert.True(t, sort.StringsAreSorted(own), own)
	}
	assert.Equal(t, []string{
		"producer 0, item 0", "producer 0, item 1", "producer 0, item 2",
	}, lines[:3], "the first producer fills the buffer")
}

// taken returns the items that the consumer took.
func taken(stdout string) (items []string) {
	for line := range strings.Lines(stdout) {
		if rest, ok := strings.CutPrefix(line, "consumer takes "); ok {
			item, _, _ := strings.Cut(rest, "[")
			items = append(items, strings.TrimSpace(item))
		}
	}
	return items
}

func TestEachLineShowsTheBufferAndEachTaskThatWaits(t *testing.T) {
	_, stdout, _ := tasks("-producers 1 -items 2 -places 1")
	assert.Equal(t, strings.Join([]string{
		"producer 0 puts item 0               [0.0]",
		"producer 0 waits for a free place    [0.0]",
		"consumer takes producer 0, item 0    [---]",
		"consumer waits for an item           [---]",
		"producer 0 puts item 1               [0.1]",
		"consumer takes producer 0, item 1    [---]",
		"",
	}, "\n"), stdout)
	_, stdout, _ = tasks("-producers 1 -items 1 -places 17")
	assert.Contains(t, stdout, "[1 of 17 places used]\n")
}

func TestTheReadmeShowsWhatTheProgramPrints(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	status, stdout, stderr := tasks("-take 3")
	assert.Equal(t, show.StatusFailed, status)
	assert.Contains(t, string(readme), "\n"+stdout+stderr)
}

func TestASeedGivesAnotherOrderAndTheSameAgain(t *testing.T) {
	_, usual, _ := tasks("")
	others := 0
	for seed := range 10 {
		args := fmt.Sprint("-seed ", seed+1)
		status, stdout, _ := tasks(args)
		_, again, _ := tasks(args)
		assert.Equal(t, show.StatusOK, status)
		assert.Equal(t, stdout, again)
		if stdout != usual {
			others++
		}
		assert.ElementsMatch(t, taken(usual), taken(stdout))
	}
	assert.Positive(t, others)
}

func TestTooMuchToTakeIsADeadlock(t *testing.T) {
	status, stdout, stderr := tasks("-producers 1 -items 1 -take 2")
	assert.Equal(t, show.StatusFailed, status)
	assert.Equal(t, []string{"producer 0, item 0"}, taken(stdout))
	assert.Equal(t, "tasks: scheduler: deadlock: 1 of 1 tasks are blocked, and nothing is left that could wake them; "+
		"consumer waits for an item; this is intended: -take 2 is more than the 1 that are made\n", stderr)
}

func TestTooLittleToTakeIsADeadlockOfTheProducers(t *testing.T) {
	status, _, stderr := tasks("-producers 3 -items 1 -places 1 -take 0")
	assert.Equal(t, show.StatusFailed, status)
	assert.Contains(t, stderr, "; producer 1 waits for a free place, producer 2 waits for a free place; "+
		"this is intended: -take 0 of 3 leaves 3 for -places 1\n")
	status, _, stderr = tasks("-producers 3 -items 1 -places 1 -take 2")
	assert.Equal(t, show.StatusOK, status, "the buffer holds the rest")
	assert.Empty(t, stderr)
}

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	usage.Refused(t, run, map[string][2]string{
		"an unknown flag": {"-no", "tasks: flag provided but not defined: -no; see -help\n"},
		"not a number":    {"-items x", "tasks: invalid value \"x\" for flag -items: parse error\n"},
		"only one fault":  {"-items -1", "tasks: -items -1: at least 0\n"},
		"all at once": {
			"-producers -1 -items -1 -places 0 -take -2 x",
			"tasks: stray argument \"x\"; everything is set with flags, see -help; -producers -1: at least 0; " +
				"-items -1: at least 0; -places 0: at least 1; -take -2: at least 0, or -1 for all\n",
		},
	})
}

func TestHelpIsNoError(t *testing.T) { usage.Help(t, run, "tasks lets producers and a consumer") }
