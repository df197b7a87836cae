package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// outageEnv makes the test program one that has the outage of this name.
const outageEnv = "GOLDA_TEST_OUTAGE"

// outages are the handlers of the stage pay.
var outages = map[string]func(ctx context.Context, n int) error{
	"a handler hangs": func(ctx context.Context, n int) error {
		if n < 20 {
			return nil
		}
		<-ctx.Done() // as if it waited for a server without a timeout
		return ctx.Err()
	},
	"a handler crashes": func(_ context.Context, n int) error {
		var prices map[string]int
		if n%3 == 0 {
			prices["total"] = n
		}
		return nil
	},
	"an overload": func(context.Context, int) error {
		time.Sleep(20 * time.Millisecond)
		return nil
	},
}

// outage is a program with a dashboard, which runs until it is killed.
func outage(pay func(ctx context.Context, n int) error) error {
	ctx := context.Background()
	last := stage.Sink("pay", pay, stage.Workers(2, 2), stage.Capacity(16))
	first := stage.Map("take", func(_ context.Context, n int) (int, error) { return n, nil })
	orders := func(ctx context.Context, submit func(int) error) error {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := submit(n); err != nil {
				return err
			}
		}
	}
	p, err := pipeline.New("shop", first.To(last), pipeline.Feed("orders", first, orders), pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	d, err := dashboard.New(p, dashboard.Options{Record: true})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	return http.Serve(listener, d) //nolint:gosec // the test kills the program
}

// recordOutage records the outage of another process until the process is
// ready, kills it, and returns the file.
func recordOutage(t *testing.T, name string, ready func(*api.Client) bool) (file string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	program := exec.CommandContext(t.Context(), self)
	program.Env = append(os.Environ(), outageEnv+"="+name)
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "the program has ended")
	url := lines.Text()
	client := &api.Client{URL: url}
	require.Eventually(t, func() bool { return ready(client) }, time.Minute, 100*time.Millisecond)
	file = filepath.Join(t.TempDir(), "outage.json")
	golda(t, "record", url, file, "-for", "1s")
	require.NoError(t, program.Process.Kill())
	http.DefaultClient.CloseIdleConnections()
	require.Contains(t, fails(t, 1, "verdict", url), "does its program run", "only the file is left")
	return file
}

// openFile has golda open serve a file, and returns a client of its page.
func openFile(t *testing.T, file string) *api.Client {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &lines{}, make(chan int)
	go func() { ended <- run(ctx, []string{"open", file, "-listen", "127.0.0.1:0"}, out, io.Discard) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		require.Zero(t, <-ended)
	})
	return &api.Client{URL: out.address(t)}
}

func ask[T any](t *testing.T, client *api.Client, path string) (answer T) {
	t.Helper()
	require.NoError(t, client.Get(t.Context(), path, &answer))
	return answer
}

// topOf returns the row of the stage pay in the table of a file.
func topOf(t *testing.T, file string) (pay row) {
	t.Helper()
	var top table
	require.NoError(t, json.Unmarshal([]byte(golda(t, "top", file, "-once", "-json")), &top))
	require.Equal(t, "pay", top.Stages[1].Stage)
	return top.Stages[1]
}

func TestAHandlerThatHangsIsFoundInTheFile(t *testing.T) {
	file := recordOutage(t, "a handler hangs", func(c *api.Client) bool {
		for _, s := range ask[api.Work](t, c, "/workers").Stages {
			if s.Name == "pay" && s.Busy[0].Ns > int64(3*time.Second) {
				queue := ask[api.Snapshot](t, c, "/snapshot").Stages["pay"].Queue
				return queue.Length == queue.Capacity
			}
		}
		return false
	})
	text := golda(t, "verdict", file)
	require.Contains(t, text, `stage "pay"`)
	require.Regexp(t, `stage "pay": 2 workers are at their batches, one of them for [0-9.]+s`, text)
	pay := topOf(t, file)
	require.Equal(t, pay.Workers, pay.Active)
	require.Zero(t, pay.PerSecond, "nothing leaves it")
	require.Equal(t, pay.Capacity, pay.Pending)

	c := openFile(t, file)
	require.Equal(t, "pay", ask[api.Verdicts](t, c, "/verdict").Now.Stage)
	work := ask[api.Work](t, c, "/workers").Stages
	require.Len(t, work[len(work)-1].Busy, 2)
	require.Empty(t, ask[api.Failures](t, c, "/failures").Groups, "it is not a crash")
}

func TestAHandlerThatCrashesIsFoundInTheFile(t *testing.T) {
	file := recordOutage(t, "a handler crashes", func(c *api.Client) bool {
		all := ask[api.Failures](t, c, "/failures").Groups
		return len(all) > 0 && all[0].Count > 3
	})
	text := golda(t, "verdict", file)
	require.Regexp(t, `stage "pay" failed \d+ times, .*assignment to entry in nil map`, text)
	require.Positive(t, topOf(t, file).Errors)

	c := openFile(t, file)
	groups := ask[api.Failures](t, c, "/failures").Groups
	require.Len(t, groups, 1, "one cause")
	require.Equal(t, "pay", groups[0].Stage)
	require.Contains(t, groups[0].Stack, "outage_test.go", "the line that crashes")
	require.NotNil(t, groups[0].Sample)
}

func TestAnOverloadIsFoundInTheFile(t *testing.T) {
	file := recordOutage(t, "an overload", func(c *api.Client) bool {
		return strings.Contains(ask[api.Verdicts](t, c, "/verdict").Now.Text, "pay")
	})
	text := golda(t, "verdict", file)
	require.Contains(t, text, `stage "pay" limits the pipeline by its workers`)
	require.NotContains(t, text, "failed")
	pay := topOf(t, file)
	require.Positive(t, pay.PerSecond, "it works, but too slowly")

	c := openFile(t, file)
	now := ask[api.Verdicts](t, c, "/verdict").Now
	require.Equal(t, "workers", now.Limit)
	require.Greater(t, now.Gain, 1.0, "one more worker helps")
	require.Contains(t, now.Blocks, "take")
}
