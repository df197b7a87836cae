package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/internal/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// await runs the program in virtual time.
func await(t *testing.T, args string) (status int, stdout, stderr string, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out, err bytes.Buffer
		begin := time.Now()
		status = run(t.Context(), strings.Fields(args), &out, &err)
		stdout, stderr, took = out.String(), err.String(), time.Since(begin)
		time.Sleep(time.Minute) // the actor system's throttle has to wake up and end
	})
	return status, stdout, stderr, took
}

func TestOneWorkerHasTenThousandFetchesInProgress(t *testing.T) {
	status, stdout, stderr, took := await(t, "")
	assert.Equal(t, show.StatusOK, status)
	assert.Empty(t, stderr)
	assert.Equal(t, "fetches: 10000, 240000 bytes\nsuspended at most: 10000\ntook: 1s\n"+
		"law: accepted 20000 = replied 20000 + failed 0 + shed 0 + dead-lettered 0 + in flight 0\n", stdout)
	assert.Equal(t, time.Second, took)
}

func TestAHundredInstancesTakeAHundredTimesAsLong(t *testing.T) {
	status, stdout, _, took := await(t, "-instances 100")
	assert.Equal(t, show.StatusOK, status)
	assert.Contains(t, stdout, "suspended at most: 100\n")
	assert.Equal(t, 100*time.Second, took)
}

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	usage.Refused(t, usage.In(t.Context(), run), map[string][2]string{
		"an unknown flag": {"-no", "await: flag provided but not defined: -no; see -help\n"},
		"all at once": {
			"-fetches 0 -instances 0 -each -1s x",
			"await: stray argument \"x\"; everything is set with flags, see -help; -fetches 0: at least 1; " +
				"-instances 0: at least 1; -each -1s: at least 0\n",
		},
	})
}

func TestHelpIsNoError(t *testing.T) {
	usage.Help(t, usage.In(t.Context(), run), "await has one worker")
}
