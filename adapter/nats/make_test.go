package nats_test

import (
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
)

func TestAnInletIsChangedIfItsOptionsAreOthersAndOnlyThen(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	nc := conn.JetStream().Conn()
	asked, err := nc.SubscribeSync("$JS.API.STREAM.UPDATE.>")
	require.NoError(t, err)
	changes := func() int { // so far
		require.NoError(t, nc.Flush())
		n, _, err := asked.Pending()
		require.NoError(t, err)
		return n
	}
	config := func(stream string) jetstream.StreamConfig {
		s, err := conn.JetStream().Stream(t.Context(), stream)
		require.NoError(t, err)
		return s.CachedInfo().Config
	}
	remove := func(s jetstream.StreamConfig) jetstream.StreamConfig { s.Metadata = nil; return s }
	inlet(t, conn, "numbers", nats.Options[int]{})
	made := config("GOLDA_numbers")
	for name, o := range map[string]nats.Options[int]{
		"MaxBytes": {MaxBytes: 1 << 20}, "MaxMessages": {MaxMessages: 10}, "Dedup": {Dedup: time.Hour}, "AckWait": {AckWait: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			before := changes()
			inlet(t, conn, "numbers", o)
			got := config("GOLDA_numbers")
			c, err := conn.JetStream().Consumer(t.Context(), "GOLDA_numbers", "golda")
			require.NoError(t, err)
			if o.AckWait != 0 {
				require.Equal(t, o.AckWait, c.CachedInfo().Config.AckWait)
			} else {
				require.NotEqual(t, remove(made), remove(got))
				require.Greater(t, changes(), before)
			}
			before = changes()
			inlet(t, conn, "numbers", o)
			require.Equal(t, before, changes(), "it is as it should be")
			require.Equal(t, got, config("GOLDA_numbers"))
			inlet(t, conn, "numbers", nats.Options[int]{})
			require.Equal(t, remove(made), remove(config("GOLDA_numbers")), "no limit is a change, too")
			c, err = conn.JetStream().Consumer(t.Context(), "GOLDA_numbers", "golda")
			require.NoError(t, err)
			require.Equal(t, 30*time.Second, c.CachedInfo().Config.AckWait)
		})
	}
}

func TestTheLogNamesWhatTheServerWasAskedForWhileItIsWaitedFor(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no process stands still by a signal there")
	}
	e := startExternal(t)
	conn := connect(t, "nats://"+e.address)
	var log buffer
	made := make(chan error, 1)
	standStill(t, e.cmd.Process, func() {
		go func() {
			_, err := nats.NewInlet(t.Context(), conn, "numbers", nats.Options[int]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			made <- err
		}()
		eventually(t, "the log has a line", func() bool { return strings.Contains(log.String(), "the server has not answered yet") })
	})
	require.NoError(t, <-made)
	require.Contains(t, log.String(), "the stream GOLDA_numbers")
}
