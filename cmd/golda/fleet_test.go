package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/fleet"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// memberEnv makes the test program a process of a fleet: it has the URL of the server and the name of the process.
const memberEnv = "GOLDA_TEST_MEMBER"

// member is a process of the fleet shop, until it is drained or the end of its input.
func member(url, name string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	conn, err := nats.Connect(ctx, url)
	if err != nil {
		return err
	}
	orders, err := nats.NewInlet(ctx, conn, "orders", nats.Options[int]{AckWait: time.Second})
	if err != nil {
		return err
	}
	book := stage.Sink("book", func(context.Context, int) error { return nil })
	check := stage.Sink("check", func(_ context.Context, n int) error { return fmt.Errorf("%s has no file %d", name, n) })
	p, err := pipeline.New("shop", pipeline.Feed("orders", book, orders.Feed), pipeline.Feed("files", check, source.Slice([]int{1, 2})),
		pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	d, err := dashboard.New(p, dashboard.Options{})
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	f, err := fleet.Join(ctx, conn, p, fleet.Options{Name: name, Every: 200 * time.Millisecond, Dashboard: d, Drain: func(context.Context, string) error {
		stop()
		return nil
	}})
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	fmt.Println("joined")
	<-ctx.Done()
	ctx = context.Background()
	if err := p.Stop(ctx); err != nil {
		return err
	}
	if err := f.Leave(ctx); err != nil {
		return err
	}
	return conn.Close(ctx)
}

// spawn starts a process of the fleet, and waits until it has joined.
func spawn(t *testing.T, url, name string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), memberEnv+"="+url+" "+name)
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.True(t, bufio.NewScanner(out).Scan(), "the process has ended")
	return cmd
}

func startServer(t *testing.T) string {
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

// Of two real processes one is killed, and one is drained.
func TestAFleetIsShownByTopAndUI(t *testing.T) {
	url := startServer(t)
	spawn(t, url, "a")
	b := spawn(t, url, "b")
	conn, err := nats.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }() //nolint:usetesting // the test's has ended
	orders, err := nats.NewInlet(t.Context(), conn, "orders", nats.Options[int]{AckWait: time.Second})
	require.NoError(t, err)
	for n := range 10 {
		require.NoError(t, orders.Publish(t.Context(), fmt.Sprint(n), n))
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	t.Setenv("GOLDA_TOKEN", token)
	out := &lines{}
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"ui", "-nats", url, "-pipeline", "shop", "-listen", "127.0.0.1:0"}, out, io.Discard)
	}()
	page := out.address(t)
	client := &api.Client{URL: page}
	states := func(want map[string]string) func() bool {
		return func() bool {
			var f api.Fleet
			require.NoError(t, client.Get(t.Context(), "/processes", &f))
			have := map[string]string{}
			for _, p := range f.Processes {
				have[p.Name] = p.State
			}
			return fmt.Sprint(have) == fmt.Sprint(want)
		}
	}
	require.Eventually(t, states(map[string]string{"a": "alive", "b": "alive"}), time.Minute, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		var s api.Snapshot
		require.NoError(t, client.Get(t.Context(), "/snapshot", &s))
		return s.Stages["book"].Counts.OK == 10
	}, time.Minute, 50*time.Millisecond, "the work of both")

	require.Equal(t, 4, strings.Count(golda(t, "letters", "list", page, "failures"), "check in "), "two of each process")
	require.Equal(t, 2, strings.Count(golda(t, "letters", "list", page, "failures", "-process", "b"), "b has no file"))
	require.Contains(t, golda(t, "letters", "show", page, "failures", "2", "-process", "b"), "letter 2 of stage check in b")
	require.Contains(t, golda(t, "letters", "list", page), "has no file")

	require.NoError(t, b.Process.Kill())
	require.Eventually(t, states(map[string]string{"a": "alive", "b": "lost"}), time.Minute, 50*time.Millisecond)
	var top table
	require.NoError(t, json.Unmarshal([]byte(golda(t, "top", page, "-once", "-json", "-every", "100ms")), &top))
	require.Len(t, top.Fleet.Processes, 2)
	require.EqualValues(t, 10, top.Fleet.Inlets[0].Published)
	require.True(t, top.Fleet.Inlets[0].Holds, top.Fleet.Inlets[0].Law)
	text := golda(t, "top", "-nats", url, "-pipeline", "shop", "-once")
	require.Regexp(t, `b +\S+ +\d+ +lost for `, text)
	require.Regexp(t, `a +\S+ +\d+ +alive `, text)
	require.Contains(t, text, "orders")

	require.Contains(t, golda(t, "drain", page, "-process", "a"), `process "a" drains`)
	require.Eventually(t, states(map[string]string{"a": "left", "b": "lost"}), time.Minute, 50*time.Millisecond)
	require.Contains(t, fails(t, 1, "drain", page, "-process", "a"), `no process "a" is there`)
	http.DefaultClient.CloseIdleConnections()
	cancel()
	require.Zero(t, <-ended)
}

func TestAFleetThatCannotBeWatchedSaysWhy(t *testing.T) {
	for _, tt := range []struct {
		text string
		args []string
	}{
		{"-nats URL", []string{"ui"}},
		{"-nats URL", []string{"ui", "-nats", "nats://127.0.0.1:1", "-url", "http://127.0.0.1:1"}},
		{"-pipeline", []string{"ui", "-nats", "nats://127.0.0.1:1"}},
		{"127.0.0.1:1", []string{"top", "-nats", "nats://127.0.0.1:1", "-pipeline", "shop"}},
		{"-nats", []string{"top"}},
	} {
		require.Contains(t, fails(t, 1, tt.args...), tt.text, tt.args)
	}
}

// address waits for the address that a command prints.
func (l *lines) address(t *testing.T) (url string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, after, ok := strings.Cut(l.String(), "http://")
		url = "http://" + strings.TrimSpace(after)
		return ok
	}, time.Minute, 10*time.Millisecond)
	return url
}
