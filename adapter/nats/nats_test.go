package nats_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
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
	if os.Getenv(asServer) != "" {
		if err := serveNATS(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if job := os.Getenv(jobEnv); job != "" {
		os.Exit(child(job))
	}
	if spec := os.Getenv(collectingEnv); spec != "" {
		os.Exit(collect(spec))
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
	if spec := os.Getenv(asReached); spec != "" {
		if err := runReached(spec); err != nil {
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
	waitTogether()
	goleak.VerifyTestMain(m, ofStreamsMadeLate...)
}

// waitTogether has more tests run at once than there are processors, unless the
// command says how many: the parallel tests wait for servers and processes more
// than they compute. Under the race detector they compute more, and one at a time
// runs: beside others a feed may take longer to stop than the grace of a second.
func waitTogether() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	together := 2 * runtime.GOMAXPROCS(0)
	if race {
		together = 1
	}
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(together))
	}
}

// ofStreamsMadeLate has the goroutines of a stream that a server makes while it
// shuts down: nats-server adds the stream to the account after the streams of
// the account were stopped, and so never stops its store. The server of Embed
// answers the requests of its clients before. The servers that tests stop
// while clients are connected do not.
var ofStreamsMadeLate = []goleak.Option{
	goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
	goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
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
