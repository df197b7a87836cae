package stagehttp_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// probed returns the status and the body of an answer.
func probed(h http.Handler, method, path string) (status int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

func probe(h http.Handler, path string) string {
	status, body := probed(h, http.MethodGet, path)
	return http.StatusText(status) + ": " + body
}

func TestAProcessIsReadyWhileItsPipelineTakesCommands(t *testing.T) {
	s := stage.Sink("work", func(_ context.Context, n int) error { _ = 100 / n; return nil })
	p, err := pipeline.New("shop", s, pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	var lost atomic.Bool
	h := stagehttp.Health(p, func(context.Context) error {
		if lost.Load() {
			return errors.New("the database\nis away")
		}
		return nil
	}, func(ctx context.Context) error { return ctx.Err() })

	assert.Equal(t, "OK: ok\n", probe(h, "/livez"))
	assert.Equal(t, "Service Unavailable: pipeline \"shop\" has not started\n", probe(h, "/readyz"))
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, s.Submit(t.Context(), 0)) // it crashes
	assert.Equal(t, "OK: ok\n", probe(h, "/health/readyz"))
	require.NoError(t, p.Pause(s))
	assert.Equal(t, "OK: ok\n", probe(h, "/readyz"), "a pause")
	require.NoError(t, p.Resume(s))
	lost.Store(true)
	assert.Equal(t, "Service Unavailable: the database is away\n", probe(h, "/readyz"))
	assert.Equal(t, "OK: ok\n", probe(h, "/livez"))
	status, body := probed(h, http.MethodHead, "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Empty(t, body)
	require.NoError(t, p.Drain(t.Context(), s))
	assert.Equal(t, "Service Unavailable: stage \"work\" is drained\nthe database is away\n", probe(h, "/readyz"))
	status, _ = probed(h, http.MethodGet, "/metrics")
	assert.Equal(t, http.StatusNotFound, status)
	require.NoError(t, p.Stop(t.Context()))
	assert.Equal(t, "Service Unavailable: pipeline \"shop\" has ended\n", probe(h, "/livez"))
	assert.Equal(t, "Service Unavailable: pipeline \"shop\" has ended\n", probe(h, "/readyz"))
}

func TestAProcessIsNotReadyWhileAFeedDoesNotRun(t *testing.T) {
	s := stage.Sink("work", func(context.Context, int) error { return nil })
	fail, away := make(chan struct{}), make(chan struct{})
	p, err := pipeline.New("shop", s, pipeline.Logger(slog.New(slog.DiscardHandler)),
		pipeline.Feed("ended", s, source.Slice([]int{1, 2, 3})),
		pipeline.Feed("broker", s, func(ctx context.Context, _ func(int) error) error {
			<-away
			source.SetAway(ctx, errors.New("no route"))
			<-fail
			return errors.New("refused")
		}))
	require.NoError(t, err)
	h := stagehttp.Health(p)
	require.NoError(t, p.Start(t.Context()))
	becomes := func(want string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, want, probe(h, "/readyz")) }, time.Minute, time.Millisecond)
	}
	becomes("OK: ok\n")
	close(away)
	becomes("Service Unavailable: feed \"broker\": away: no route\n")
	close(fail)
	becomes("Service Unavailable: feed \"broker\": restarting: refused\n")
	assert.Equal(t, "OK: ok\n", probe(h, "/livez"))
	require.NoError(t, p.Stop(t.Context()))
}

func TestHealthOfNothingIsRefused(t *testing.T) {
	p, err := pipeline.New("shop", stage.Sink("work", func(context.Context, int) error { return nil }))
	require.NoError(t, err)
	assert.PanicsWithValue(t, "stagehttp: Health: nil pipeline", func() { stagehttp.Health(nil) })
	assert.PanicsWithValue(t, "stagehttp: Health: nil function", func() { stagehttp.Health(p, nil) })
}
