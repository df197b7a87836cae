package nats_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/stage"
)

// logged has the default logger write into a buffer until the test ends.
func logged(t *testing.T) *buffer {
	t.Helper()
	before, to, flags := slog.Default(), log.Writer(), log.Flags()
	text := &buffer{}
	slog.SetDefault(slog.New(slog.NewTextHandler(text, nil)))
	t.Cleanup(func() {
		slog.SetDefault(before)
		log.SetOutput(to) // SetDefault has changed both
		log.SetFlags(flags)
	})
	return text
}

// restarted returns a connection, and a function that stops its server, waits for the log to say so, and starts the server again.
func restarted(t *testing.T, text *buffer) (*nats.Conn, func()) {
	t.Helper()
	dir := t.TempDir()
	s := serve(t, &server.Options{StoreDir: dir})
	port := s.Addr().(*net.TCPAddr).Port
	conn, err := nats.Connect(t.Context(), s.ClientURL(), natsgo.ReconnectWait(10*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(func() { shut(t, conn) })
	return conn, func() {
		halt(s)
		eventually(t, "the log says that the server is away", func() bool { return strings.Contains(text.String(), "the server is away") })
		serve(t, &server.Options{StoreDir: dir, Port: port})
		eventually(t, "the log says that the server is back", func() bool { return strings.Contains(text.String(), "the server is back") })
	}
}

// requireOnce requires that a log says of one inlet that the server is away, and that it is back, once.
func requireOnce(t *testing.T, text *buffer, inlet string) {
	t.Helper()
	for _, line := range []string{
		`level=WARN msg="the server is away; the inlet waits for it" inlet=` + inlet,
		`level=INFO msg="the server is back" inlet=` + inlet,
	} {
		require.Equal(t, 1, strings.Count(text.String(), line), "%s\n%s", line, text)
	}
}

func TestTheDefaultLoggerSaysThatTheServerIsAwayAndThatItIsBack(t *testing.T) {
	text := logged(t)
	conn, restart := restarted(t, text)
	numbers := inlet(t, conn, "numbers", nats.Options[int]{})
	var done tally
	start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	publish(t, numbers, 1)
	eventually(t, "it is done", func() bool { return done.len() == 1 })
	restart()
	requireOnce(t, text, "numbers")
}

// Each partition has a receiver of its own.
func TestTheLogSaysOnceThatTheServerOfAKeyedStageIsAway(t *testing.T) {
	text := logged(t)
	conn, restart := restarted(t, text)
	b := newBook()
	well := func(step) error { return nil }
	ledger(t, conn, "back", "back", b, well)
	_, route := ledger(t, conn, "front", "front", b, well)
	const accounts = 40
	all := func(n int) {
		for k := range accounts {
			require.NoError(t, route.Submit(t.Context(), step{fmt.Sprint(k), n}))
		}
		eventually(t, "all are handled", func() bool { return b.handled() == accounts*n })
	}
	all(1)
	restart()
	all(2)
	requireOnce(t, text, "ledger_enter")
}
