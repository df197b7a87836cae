package stagehttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/headers/headerstest"
)

// A request of a stage reaches a handler in front of another one.
func TestRequestsAndHandlersCarryHeaders(t *testing.T) {
	got := make(chan context.Context, 1)
	sink := stage.Sink("sink", func(ctx context.Context, _ int) error { got <- ctx; return nil })
	server := httptest.NewServer(stagehttp.New(sink.Call))
	defer server.Close()
	send := stage.Sink("send", stagehttp.Post[int](http.DefaultClient, server.URL))
	p, err := pipeline.New("p", sink, send)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	headerstest.Run(t, func(t *testing.T, ctx context.Context) context.Context {
		require.NoError(t, send.Submit(ctx, 1))
		return <-got
	})
	require.NoError(t, p.Stop(context.Background()))
}
