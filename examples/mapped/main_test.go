package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/examples/internal/show"
)

// argsEnv has the arguments of a child process.
const argsEnv = "GOLDA_MAPPED_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(argsEnv); args != "" {
		var all []string
		if err := json.Unmarshal([]byte(args), &all); err != nil {
			panic(err)
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		status := run(ctx, all, os.Stdout, os.Stderr)
		stop()
		os.Exit(status)
	}
	goleak.VerifyTestMain(m)
}

func Example() {
	run(context.Background(), strings.Fields("-n 100 -each 0"), os.Stdout, os.Stderr)
	// Output:
	// load: handled 100
	// read: handled 100
	// correct: handled 100
	// enter: handled 100
	// index: 100 documents of 795 words
	// law: accepted 100 = replied 100 + failed 0 + shed 0 + dead-lettered 0 + in flight 0
}

// child starts the program as a process. It is killed at the end of the test, if not before.
type child struct {
	*exec.Cmd
	out, errs bytes.Buffer
}

func start(t *testing.T, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(args)
	require.NoError(t, err)
	c := &child{Cmd: exec.Command(self)}
	c.Env = append(os.Environ(), argsEnv+"="+string(text))
	c.Stdout, c.Stderr = &c.out, &c.errs
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return c
}

// serve runs a server with JetStream.
func serve(t *testing.T) (url string) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	require.NoError(t, err)
	go s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s.ClientURL()
}

func TestDocumentsAreIndexedThoughProcessesJoinAndAreKilled(t *testing.T) {
	url := serve(t)
	out := filepath.Join(t.TempDir(), "index")
	const n = 400
	args := func(group string) []string {
		return []string{"-nats", url, "-groups", group, "-n", fmt.Sprint(n), "-each", "10ms", "-out", out}
	}
	index := start(t, args("index")...)
	first := start(t, args("ocr")...)
	load := start(t, args("load")...)
	await(t, out, func(lines int) bool { return lines >= 20 })
	second := start(t, args("ocr")...) // joins
	await(t, out, func(lines int) bool { return lines >= 60 })
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())
	third := start(t, args("ocr")...)

	require.NoError(t, load.Wait(), load.errs.String())
	require.NoError(t, index.Wait(), index.errs.String())
	conn, err := nats.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	require.Eventually(t, func() bool { return statusOf[scan](t, conn, "mapped_read").Pending == 0 }, time.Minute, 10*time.Millisecond,
		"what the killed process held is read again")
	for _, c := range []*child{second, third} {
		require.NoError(t, c.Process.Signal(os.Interrupt))
		require.NoError(t, c.Wait(), c.errs.String())
	}
	assert.Contains(t, load.out.String(), fmt.Sprintf("read: sent %d to process ocr", n))
	assert.Contains(t, index.out.String(), fmt.Sprintf("index: %d documents", n))

	seen := map[string]bool{}
	for _, line := range linesOf(t, out) {
		id, _, _ := strings.Cut(line, " ")
		seen[id] = true
	}
	assert.Len(t, seen, n)

	// What was published = acknowledged + dead-lettered + pending, for each stage that other processes send to.
	read, enter := statusOf[scan](t, conn, "mapped_read"), statusOf[text](t, conn, "mapped_enter")
	assert.EqualValues(t, n, read.Published)
	assert.Zero(t, read.DeadLettered+read.Pending+enter.DeadLettered)
	var entered uint64
	_, rest, _ := strings.Cut(index.out.String(), "enter: handled ")
	_, err = fmt.Sscan(rest, &entered)
	require.NoError(t, err)
	assert.Equal(t, enter.Published, entered+enter.Pending)
}

func TestTheStatusShowsTheProcessesAndWhatWaits(t *testing.T) {
	url := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := map[string]chan int{"ocr": make(chan int), "index": make(chan int)}
	for group, status := range ended {
		go func() {
			var out, errs bytes.Buffer
			status <- run(ctx, []string{"-nats", url, "-groups", group}, &out, &errs)
		}()
	}
	assert.Eventually(t, func() bool {
		var out, errs bytes.Buffer
		assert.Equal(t, show.StatusOK, run(t.Context(), []string{"-status", "-nats", url}, &out, &errs), errs.String())
		for _, part := range []string{"\nocr ", "\nindex ", " alive ", "\nmapped_enter ", "\nmapped_read "} {
			if !strings.Contains(out.String(), part) {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond)
	cancel()
	assert.Equal(t, show.StatusOK, <-ended["ocr"], "it runs until a signal")
	assert.Equal(t, show.StatusFailed, <-ended["index"], "it runs until the last document")
}

func TestAnInterruptedRunSaysWhatItHasDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	assert.Equal(t, show.StatusFailed, run(ctx, nil, &out, &errs))
	assert.Contains(t, errs.String(), "interrupted: load has handled ")
	assert.Contains(t, out.String(), "law: accepted ")
}

func statusOf[C any](t *testing.T, conn *nats.Conn, name string) nats.Status {
	t.Helper()
	i, err := nats.NewInlet(t.Context(), conn, name, nats.Options[C]{AckWait: carrierOptions.AckWait})
	require.NoError(t, err)
	s, err := i.Status(t.Context())
	require.NoError(t, err)
	return s
}

// await waits until the index has enough lines.
func await(t *testing.T, file string, enough func(lines int) bool) {
	t.Helper()
	require.Eventually(t, func() bool { return enough(len(linesOf(t, file))) }, 2*time.Minute, 5*time.Millisecond)
}

func linesOf(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, show.StatusUsage, run(t.Context(), strings.Fields("-n 0 -workers 0 -each -1s -groups ocr x"), &out, &errs))
	assert.Empty(t, out.String())
	assert.Equal(t, "mapped: stray argument \"x\"; everything is set with flags, see -help; -n 0: at least 1; -workers 0: at least 1; "+
		"-each -1s: at least 0; -groups and -nats: both or none\n", errs.String())
}

func TestAGroupThatThereIsNotIsReported(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, show.StatusFailed, run(t.Context(), []string{"-groups", "none", "-nats", serve(t)}, &out, &errs))
	assert.Contains(t, errs.String(), `RunsHere: no Assign is for a process "none"; there are index, load, ocr`)
}
