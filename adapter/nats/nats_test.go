package nats_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(jobEnv); job != "" {
		os.Exit(child(job))
	}
	if work := os.Getenv(shopEnv); work != "" {
		os.Exit(sell(work))
	}
	if spec := os.Getenv(asNode); spec != "" {
		if err := runNode(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if url := os.Getenv(asCallee); url != "" {
		if err := runCallee(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if spec := os.Getenv(asTeller); spec != "" {
		if err := runTeller(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

var quiet = pipeline.Logger(slog.New(slog.DiscardHandler))

// embed opens a store in a directory, which is closed at the end of the test.
func embed(t testing.TB, dir string, s nats.Store) *nats.Conn {
	t.Helper()
	conn, err := nats.Embed(dir, s)
	require.NoError(t, err)
	t.Cleanup(func() { shut(t, conn) })
	return conn
}

// shut closes a connection, within a minute.
func shut(t testing.TB, conn *nats.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, conn.Close(ctx))
}

// inlet makes an inlet.
func inlet[C any](t testing.TB, conn *nats.Conn, name string, o nats.Options[C]) *nats.Inlet[C] {
	t.Helper()
	i, err := nats.NewInlet(t.Context(), conn, name, o)
	require.NoError(t, err)
	return i
}

// newPipeline starts a pipeline of one stage and its source. It is stopped at the end of the test, if not before.
func newPipeline[C any](t testing.TB, to behaviour.Target[C], src source.Source[C]) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("test", pipeline.Feed("feed", to, src), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}
