package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/pipeline"
)

// shopEnv has the directory of the shop in the process that a test kills.
const shopEnv = "GOLDA_OUTBOX_SHOP"

const placed = 300

func TestMain(m *testing.M) {
	if dir := os.Getenv(shopEnv); dir != "" {
		if err := run(context.Background(), dir, placed); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// sentIn returns how often each message was delivered.
func sentIn(t *testing.T, dir string) (times map[string]int, lines int) {
	t.Helper()
	times = map[string]int{}
	file, err := os.Open(filepath.Join(dir, "sent"))
	if errors.Is(err, os.ErrNotExist) {
		return times, 0
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for s := bufio.NewScanner(file); s.Scan(); lines++ {
		times[s.Text()]++
	}
	return times, lines
}

func TestEachOrderHasItsMessageThoughTheProcessIsKilled(t *testing.T) {
	dir := t.TempDir()
	const kills = 6
	spawn := func() (*exec.Cmd, *strings.Builder) {
		var stderr strings.Builder
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), shopEnv+"="+dir), &stderr
		require.NoError(t, cmd.Start())
		return cmd, &stderr
	}
	for k := range kills { // whenever another part of the messages was delivered
		cmd, stderr := spawn()
		kill := func() { _ = cmd.Process.Kill() }
		limit := time.NewTimer(2 * time.Minute)
		for {
			if _, lines := sentIn(t, dir); lines >= (k+1)*placed/(kills+1) {
				break
			}
			time.Sleep(time.Millisecond)
			select {
			case <-limit.C:
				kill()
				require.Fail(t, "the process does not deliver", stderr)
			default:
			}
		}
		kill()
		_ = cmd.Wait() // killed
	}
	cmd, stderr := spawn()
	require.NoError(t, cmd.Wait(), stderr)

	times, lines := sentIn(t, dir)
	ids, of := map[string]bool{}, map[string]bool{}
	for line := range times {
		id, text, _ := strings.Cut(line, " ")
		require.False(t, ids[id], "an ID has one message")
		require.False(t, of[text], "an order has one message")
		ids[id], of[text] = true, true
	}
	require.Len(t, of, placed)
	for n := range placed {
		require.True(t, of[fmt.Sprintf("order %d: pencil", n+1)], "order %d has no message", n+1)
	}
	t.Logf("%d orders, %d kills: %d deliveries, %d of them twice", placed, kills, lines, lines-len(times))
}

func TestAReceiverThatIsDownHoldsThePositionBack(t *testing.T) {
	dir := t.TempDir()
	db, err := open(filepath.Join(dir, "shop.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var mu sync.Mutex // guards down and got
	down, got := true, map[int64]int{}
	tried := make(chan struct{}, 1000)
	send := func(_ context.Context, m message) error {
		mu.Lock()
		defer mu.Unlock()
		tried <- struct{}{}
		if down && m.ID == 2 {
			return errors.New("the receiver is down")
		}
		got[m.ID]++
		return nil
	}
	for n := range 3 {
		require.NoError(t, place(t.Context(), db, int64(n+1), "pencil"))
	}
	p, err := relay(t.Context(), db, nil, send, pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	for range 6 { // the second message at least three times
		<-tried
	}
	at, err := position(t.Context(), db)
	require.NoError(t, err)
	require.LessOrEqual(t, at, int64(1), "the second message was not delivered")
	mu.Lock()
	down = false
	mu.Unlock()
	require.NoError(t, untilDelivered(t.Context(), db))
	require.NoError(t, p.Stop(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[int64]int{1: 1, 2: 1, 3: 1}, got)
}

func TestAnOrderThatIsNotPlacedHasNoMessage(t *testing.T) {
	db, err := open(filepath.Join(t.TempDir(), "shop.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.ErrorIs(t, place(t.Context(), db, 1, "unicorn"), errSoldOut)
	rows, err := rowsAfter(t.Context(), db, 0)
	require.NoError(t, err)
	require.Empty(t, rows)
}

func TestTheCookbookShowsTheRelayAsItRuns(t *testing.T) {
	source, err := os.ReadFile("relay.go")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(source), "\n)\n\n")
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cookbook.md"))
	require.NoError(t, err)
	require.True(t, strings.Contains(string(text), "```go\n"+code+"```\n"), "docs/cookbook.md does not have relay.go as it is")
}
