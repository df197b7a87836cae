package board_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/board"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPipeline(t *testing.T) *pipeline.Pipeline {
	t.Helper()
	work := stage.Map("work", func(_ context.Context, n int) (int, error) { return n, nil })
	p, err := pipeline.New("p", work, pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	return p
}

func TestTheDashboardOfAnExampleIsServedAtThisMachine(t *testing.T) {
	for _, address := range []string{":0", "127.0.0.1:0", "localhost:0"} {
		l, err := board.Listen(t.Context(), address)
		require.NoError(t, err)
		stop, err := board.Serve(l, newPipeline(t))
		require.NoError(t, err)
		r, err := http.Get("http://" + l.Addr().String() + "/golda/v1/graph")
		require.NoError(t, err)
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Contains(t, string(text), `"name":"work"`)
		http.DefaultClient.CloseIdleConnections()
		stop()
	}
}

func TestAnAddressThatOthersReachIsRefused(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "example.com:0", "192.0.2.1:0", "nowhere"} {
		_, err := board.Listen(t.Context(), address)
		require.ErrorContains(t, err, "-dashboard", address)
	}
}

func TestWithoutTheFlagNothingIsServed(t *testing.T) {
	l, err := board.Listen(t.Context(), "")
	require.NoError(t, err)
	stop, err := board.Serve(l, newPipeline(t))
	require.NoError(t, err)
	stop()
}

func TestAShortTokenIsRefused(t *testing.T) {
	t.Setenv("GOLDA_TOKEN", "short")
	l, err := board.Listen(t.Context(), ":0")
	require.NoError(t, err)
	defer l.Close()
	_, err = board.Serve(l, newPipeline(t))
	require.ErrorContains(t, err, "Options.Token has 5 bytes")
}
