package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/examples/internal/show"
)

func TestMain(m *testing.M) {
	if work := os.Getenv(workEnv); work != "" {
		os.Exit(child(work))
	}
	goleak.VerifyTestMain(m)
}

// execute runs the program, and returns what it has printed as JSON.
func execute(t *testing.T, args string) (r result) {
	t.Helper()
	var out, errs bytes.Buffer
	require.Equal(t, show.StatusOK, run(t.Context(), strings.Fields(args+" -json"), &out, &errs), errs.String()+out.String())
	require.Empty(t, errs.String())
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	return r
}

// lossless requires that the counts are those of a run without loss, in which a process was killed.
func lossless(t *testing.T, r result, published, rotten int) {
	t.Helper()
	t.Logf("%+v", r)
	done := published - rotten
	assert.EqualValues(t, published, r.Published)
	assert.Equal(t, done, r.Effects)
	assert.GreaterOrEqual(t, r.Handled, r.Effects)
	assert.EqualValues(t, done, r.Outcomes)
	assert.EqualValues(t, done, r.Kept, "an outcome was kept twice")
	assert.EqualValues(t, rotten, r.DeadLettered)
	assert.Zero(t, r.Pending)
	assert.Empty(t, r.Missing)
	assert.Positive(t, r.Killed)
	assert.Equal(t, r.Killed+1, r.Processes)
}

// 300 commands of 5 ms by four workers take longer than 300 ms, so a process is killed for certain.
const small = "-n 300 -each 5ms -workers 4 -kill 300ms -rotten 100"

func TestAProcessThatIsKilledLosesNothing(t *testing.T) {
	lossless(t, execute(t, small), 300, 3)
}

func TestAProcessThatIsKilledLosesNothingOnAServerElsewhere(t *testing.T) {
	s := serve(t)
	lossless(t, execute(t, small+" -nats "+s.ClientURL()), 300, 3)
	require.Empty(t, streams(t, s.ClientURL()))
}

func TestARunThatIsInterruptedLeavesNothingBehind(t *testing.T) {
	url := serve(t).ClientURL()
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	ended := make(chan int)
	go func() { ended <- run(ctx, strings.Fields("-n 1000 -each 1h -kill 2h -nats "+url), &out, &errs) }()
	require.Eventually(t, func() bool { return len(streams(t, url)) == 4 }, time.Minute, time.Millisecond)
	cancel()
	require.Equal(t, show.StatusFailed, <-ended)
	require.Contains(t, errs.String(), "context canceled")
	require.Empty(t, streams(t, url))
}

// streams returns the names of the streams of a server.
func streams(t *testing.T, url string) (all []string) {
	t.Helper()
	conn, err := nats.Connect(t.Context(), url)
	require.NoError(t, err)
	for name := range conn.JetStream().StreamNames(t.Context()).Name() {
		all = append(all, name)
	}
	require.NoError(t, conn.Close(t.Context()))
	return all
}

// serve runs a server for the test.
func serve(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	require.NoError(t, err)
	go s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

func TestTheStatusShowsTheProcessAndWhatWaits(t *testing.T) {
	url := serve(t).ClientURL()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		var out, errs bytes.Buffer
		run(ctx, strings.Fields("-n 20000 -each 100ms -kill 1h -rotten 0 -nats "+url), &out, &errs)
	})
	status := func() string {
		var out, errs bytes.Buffer
		assert.Equal(t, show.StatusOK, run(t.Context(), strings.Fields("-status -nats "+url), &out, &errs), errs.String())
		return out.String()
	}
	assert.Eventually(t, func() bool {
		text := status()
		return strings.Contains(text, "\nworker ") && strings.Contains(text, " alive ") && strings.Contains(text, "check 16") && strings.Contains(text, "\ndurable-")
	}, time.Minute, 10*time.Millisecond)
	cancel()
	all.Wait()
}

func TestTheTextHasTheCounts(t *testing.T) {
	r := result{
		Published: 10, Rotten: 1, Processes: 3, Killed: 2, Took: time.Second, Effects: 9, Handled: 11, Outcomes: 9, Kept: 9, DeadLettered: 1,
	}
	require.Equal(t, `published: 10
processes: 3, of which 2 were killed, in 1s
file: 9 commands have left a line, 2 lines are second ones (at least once)
ledger: 9 commands have an outcome, 0 were kept twice (effectively once)
dead letters: 1
law: published 10 = done 9 + dead-lettered 1 + pending 0
`, r.text())
	require.NoError(t, r.check())
}

func TestABrokenPromiseIsReported(t *testing.T) {
	good := result{Published: 10, Rotten: 1, Effects: 9, Handled: 9, Outcomes: 9, Kept: 9, DeadLettered: 1}
	for want, spoil := range map[string]func(*result){
		"lost: [7]":                          func(r *result) { r.Missing = []int{7} },
		"8 commands have left a line, not 9": func(r *result) { r.Effects = 8 },
		"9 outcomes were kept 10 times":      func(r *result) { r.Kept = 10 },
		"2 dead letters, not 1":              func(r *result) { r.DeadLettered = 2 },
		"the law does not hold":              func(r *result) { r.Pending = 1 },
	} {
		r := good
		spoil(&r)
		require.ErrorContains(t, r.check(), want)
	}
}

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	cases := map[string]struct{ args, want string }{
		"an unknown flag": {"-no", "durable: flag provided but not defined: -no; see -help\n"},
		"all at once": {
			"-n 0 -workers 0 -rotten -1 -each -1s -kill 0 x",
			"durable: stray argument \"x\"; everything is set with flags, see -help; -n 0: at least 1; -workers 0: at least 1; -rotten -1: at least 0; " +
				"-each -1s: at least 0; -kill 0s: above 0\n",
		},
		"commands that are longer than a process": {"-each 1s -kill 1s", "durable: -kill 1s: longer than a command, -each 1s, or none ends\n"},
		"two kinds of output":                     {"-status -json -nats x", "durable: -status and -json: one of them\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			assert.Equal(t, show.StatusUsage, run(t.Context(), strings.Fields(c.args), &out, &errs))
			assert.Empty(t, out.String())
			assert.Equal(t, c.want, errs.String())
		})
	}
}

func TestHelpIsNoError(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, show.StatusOK, run(t.Context(), []string{"-help"}, &out, &errs))
	assert.True(t, strings.HasPrefix(out.String(), "durable is a pipeline"), out.String())
	assert.Empty(t, errs.String())
}

func TestAServerThatIsNotThereIsReported(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, show.StatusFailed, run(t.Context(), strings.Fields("-nats nats://127.0.0.1:1"), &out, &errs))
	assert.Equal(t, "durable: nats: connect to nats://127.0.0.1:1: nats: no servers available for connection\n", errs.String())
}

func TestAChildThatFailsIsReported(t *testing.T) {
	_, err := job{Dir: t.TempDir(), NATS: "nats://127.0.0.1:1", Name: "none", Workers: 1}.spawn(t.Context(), time.Minute)
	require.ErrorContains(t, err, "the child process: exit status 1: nats: connect to")
}
