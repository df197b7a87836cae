package main

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tasks runs the program.
func tasks(args string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = run(strings.Fields(args), &out, &err)
	return status, out.String(), err.String()
}

func TestTheConsumerGetsAllInOrder(t *testing.T) {
	status, stdout, stderr := tasks("")
	assert.Equal(t, statusOK, status)
	assert.Empty(t, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
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
	}, lines[:3], "the first to come fills the buffer")
}

func TestASeedGivesAnotherOrderAndTheSameAgain(t *testing.T) {
	_, usual, _ := tasks("")
	others := 0
	for seed := range 10 {
		args := fmt.Sprint("-seed ", seed+1)
		status, stdout, _ := tasks(args)
		_, again, _ := tasks(args)
		assert.Equal(t, statusOK, status)
		assert.Equal(t, stdout, again)
		if stdout != usual {
			others++
		}
		assert.ElementsMatch(t, strings.Split(usual, "\n"), strings.Split(stdout, "\n"))
	}
	assert.Positive(t, others)
}

func TestTooMuchToTakeIsADeadlock(t *testing.T) {
	status, stdout, stderr := tasks("-producers 1 -items 1 -take 2")
	assert.Equal(t, statusFailed, status)
	assert.Equal(t, "producer 0, item 0\n", stdout)
	assert.Equal(t, "tasks: scheduler: deadlock: 1 of 1 tasks are blocked, and nothing is left that could wake them\n", stderr)
}

func TestWhatIsWrongWithFlagsIsOneLineAndStatus2(t *testing.T) {
	cases := map[string]struct{ args, want string }{
		"an unknown flag": {"-no", "tasks: flag provided but not defined: -no\n"},
		"no number":       {"-items x", "tasks: invalid value \"x\" for flag -items: parse error\n"},
		"all at once": {
			"-producers -1 -items -1 -places 0 -take -2 x",
			"tasks: stray argument \"x\"; all there is to say is said with flags, see -help; -producers -1: at least 0; " +
				"-items -1: at least 0; -places 0: at least 1; -take -2: at least 0, or -1 for all\n",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := tasks(c.args)
			assert.Equal(t, statusUsage, status)
			assert.Empty(t, stdout)
			assert.Equal(t, c.want, stderr)
		})
	}
}

func TestHelpIsAnAnswer(t *testing.T) {
	status, stdout, stderr := tasks("-help")
	assert.Equal(t, statusOK, status)
	assert.Contains(t, stdout, "-producers")
	assert.Empty(t, stderr)
}
