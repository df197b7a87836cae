package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

// tapped runs golda tap while commands are submitted, over and over.
func tapped(t *testing.T, s *shop, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			for _, item := range []string{"a", "b", "crash"} {
				_ = s.in.Submit(ctx, order{item}) // the test has ended
			}
		}
	}()
	defer func() {
		cancel()
		<-ended
	}()
	return golda(t, append([]string{"tap", s.url}, args...)...)
}

func TestTapPrintsCommandsAsTheyAreHandled(t *testing.T) {
	s := newShop(t)
	text := tapped(t, s, "pay", "-result", "ok", "-limit", "3", "-text", `"b"`)
	require.Equal(t, 3, strings.Count(text, ` pay {"Item":"b"}: ok after `), text)
	require.Contains(t, text, "3 shown of ")
	require.Contains(t, text, "; 0 missed\n")

	text = tapped(t, s, "in", "-follow", "-limit", "2", "-text", `"a"`, "-json")
	lines := json.NewDecoder(strings.NewReader(text))
	var first, second api.Seen
	var counts api.Watched
	for _, v := range []any{&first, &second, &counts} {
		require.NoError(t, lines.Decode(v), text)
	}
	require.Equal(t, "in", first.Stage)
	require.Equal(t, "pay", first.Next)
	require.Equal(t, "pay", second.Stage)
	require.EqualValues(t, 2, counts.Shown)
	require.Contains(t, counts.Ended, "as many as asked for")
	require.Contains(t, fails(t, 1, "tap", s.url, "none"), `no stage "none"`)
}

func TestAnInterruptEndsATap(t *testing.T) {
	s := newShop(t)
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &lines{}, make(chan int)
	go func() { ended <- run(ctx, []string{"tap", s.url, "-for", "10m"}, out, io.Discard) }()
	require.Eventually(t, func() bool {
		s.submit(t, "a")
		return strings.Contains(out.String(), "pay")
	}, time.Minute, 10*time.Millisecond)
	cancel()
	require.Zero(t, <-ended)
	require.Contains(t, out.String(), "missed")
	require.NotContains(t, out.String(), "\x1b")
}
