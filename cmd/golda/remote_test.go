package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

// elsewhere serves the page of a dashboard, and returns its address and a
// function that ends it.
func elsewhere(t *testing.T, url string) (page string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, errs := &lines{}, &bytes.Buffer{}
	ended := make(chan int)
	go func() { ended <- run(ctx, []string{"ui", "-url", url, "-listen", "127.0.0.1:0"}, out, errs) }()
	page = out.address(t)
	require.Contains(t, out.String(), "shop of ")
	return page, func() {
		cancel()
		require.Zero(t, <-ended, errs.String())
		http.DefaultClient.CloseIdleConnections()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
}

// request sends a request, and returns the status and the body.
func request(t *testing.T, method, address, body string, header map[string]string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	require.NoError(t, err)
	for name, v := range header {
		if r.Header.Set(name, v); name == "Host" {
			r.Host = v
		}
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

func TestThePageOfADashboardElsewhereIsServed(t *testing.T) {
	s := newShop(t)
	s.submit(t, "a", "crash")
	page, end := elsewhere(t, s.url+"/")
	defer end()

	status, text := request(t, http.MethodGet, page+"/", "", nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "<script")
	client := &api.Client{URL: page, Token: token}
	var snapshot api.Snapshot
	require.NoError(t, client.Get(t.Context(), "/snapshot", &snapshot))
	require.EqualValues(t, 2, snapshot.Accepted)
	require.Contains(t, golda(t, "letters", "list", page), "crashed", "other commands take it for the dashboard")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := client.Stream(ctx, "/events", func(event string, _ []byte) error { // each event comes at once
		if event == "base" {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)

	own, kind := map[string]string{"Origin": page}, "application/json"
	status, text = request(t, http.MethodPost, page+"/golda/v1/actions/pause", `{"stage":"pay"}`, own)
	require.Equal(t, http.StatusUnauthorized, status, text)
	own["Authorization"], own["Content-Type"] = "Bearer "+token, kind
	status, text = request(t, http.MethodPost, page+"/golda/v1/actions/pause", `{"stage":"pay"}`, own)
	require.Equal(t, http.StatusOK, status, text)
	require.True(t, s.Snapshot().Stages[1].Paused)
	own["Origin"] = "http://example.com"
	status, text = request(t, http.MethodPost, page+"/golda/v1/actions/resume", `{"stage":"pay"}`, own)
	require.Equal(t, http.StatusForbidden, status, text)
	require.True(t, s.Snapshot().Stages[1].Paused, "a page of another site changes nothing")
	golda(t, "resume", page, "pay")

	for _, path := range []string{"/", "/golda/v1/snapshot", "/golda/v1"} {
		status, text = request(t, http.MethodGet, page+path, "", map[string]string{"Host": "example.com:80"})
		require.Equal(t, http.StatusMisdirectedRequest, status, path+text)
		for _, host := range []string{"localhost:1", "127.0.0.1", "[::1]:80"} {
			status, _ = request(t, http.MethodGet, page+path, "", map[string]string{"Host": host})
			require.Equal(t, http.StatusOK, status, path)
		}
	}
}

// A dashboard may be below a path, and behind a server that is away at times.
func TestThePageOfADashboardThatIsAwaySaysSo(t *testing.T) {
	s := newShop(t)
	target, err := url.Parse(s.url)
	require.NoError(t, err)
	front := httptest.NewServer(http.StripPrefix("/debug", httputil.NewSingleHostReverseProxy(target)))
	page, end := elsewhere(t, front.URL+"/debug")
	defer end()
	status, _ := request(t, http.MethodGet, page+"/golda/v1/snapshot", "", nil)
	require.Equal(t, http.StatusOK, status)
	front.Close()
	status, text := request(t, http.MethodGet, page+"/golda/v1/snapshot", "", nil)
	require.Equal(t, http.StatusBadGateway, status)
	require.Contains(t, text, `"detail":"`)

	require.Contains(t, fails(t, 1, "ui", "-url", front.URL), "is the address that of a dashboard")
	for _, wrong := range []string{"localhost:8077", "shop", "http://", ":"} {
		require.Contains(t, fails(t, 1, "ui", "-url", wrong), "use the address of a dashboard", wrong)
	}
}

func TestAnInterruptEndsTheStreamsOfADashboardElsewhere(t *testing.T) {
	s := newShop(t)
	page, end := elsewhere(t, s.url)
	based, streamed := make(chan struct{}), make(chan error)
	go func() {
		client := &api.Client{URL: page}
		streamed <- client.Stream(t.Context(), "/events", func(event string, _ []byte) error {
			if event == "base" {
				close(based)
			}
			return nil
		})
	}()
	select {
	case <-based:
	case <-time.After(time.Minute):
		t.Fatal("the stream has no base")
	}
	end()
	<-streamed
}
