package board_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/examples/internal/board"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPipeline(t *testing.T, b *board.Board) (*pipeline.Pipeline, *stage.Flow[int, int]) {
	t.Helper()
	work := stage.Map("work", func(_ context.Context, n int) (int, error) { return n, nil })
	p, err := pipeline.New("p", work, b.Tap(), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	return p, work
}

func TestTheDashboardOfAnExampleIsServedAtThisMachine(t *testing.T) {
	for _, address := range []string{":0", "127.0.0.1:0", "localhost:0"} {
		b, err := board.Listen(t.Context(), address)
		require.NoError(t, err)
		p, _ := newPipeline(t, b)
		stop, err := b.Serve(p)
		require.NoError(t, err)
		r, err := http.Get("http://" + b.Addr().String() + "/golda/v1/graph")
		require.NoError(t, err)
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Contains(t, string(text), `"name":"work"`)
		http.DefaultClient.CloseIdleConnections()
		stop()
	}
}

func TestTheTapOfAnExampleSeesItsCommands(t *testing.T) {
	b, err := board.Listen(t.Context(), ":0")
	require.NoError(t, err)
	p, work := newPipeline(t, b)
	require.NoError(t, p.Start(t.Context()))
	stop, err := b.Serve(p)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := &api.Client{URL: "http://" + b.Addr().String()}
	require.NoError(t, client.Stream(ctx, "/tap?limit=1", func(event string, data []byte) error {
		switch event {
		case "counts": // it watches
			return work.Submit(t.Context(), 1)
		case "seen":
			require.Contains(t, string(data), `"stage":"work"`)
		}
		return nil
	}))
	require.NoError(t, p.Stop(t.Context()))
	http.DefaultClient.CloseIdleConnections()
	stop()
}

func TestAnAddressThatOthersReachIsRefused(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "example.com:0", "192.0.2.1:0", "nowhere"} {
		_, err := board.Listen(t.Context(), address)
		require.ErrorContains(t, err, "-dashboard", address)
	}
}

func TestWithoutTheFlagNothingIsServed(t *testing.T) {
	b, err := board.Listen(t.Context(), "")
	require.NoError(t, err)
	p, _ := newPipeline(t, b)
	stop, err := b.Serve(p)
	require.NoError(t, err)
	stop()
	b.Close()
}

func TestAShortTokenIsRefused(t *testing.T) {
	t.Setenv("GOLDA_TOKEN", "short")
	b, err := board.Listen(t.Context(), ":0")
	require.NoError(t, err)
	defer b.Close()
	p, _ := newPipeline(t, b)
	_, err = b.Serve(p)
	require.ErrorContains(t, err, "Options.Token has 5 bytes")
}
