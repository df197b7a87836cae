package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/tap"
	"github.com/golda-dev/golda/stage"
)

// errEnough ends a stream.
var errEnough = errors.New("enough")

// tapped has the events that a client of a tap has received.
type tapped struct {
	seen   []api.Seen
	counts api.Watched
}

// watchShop opens a tap, has the shop work when it is open, and returns all until it has ended.
func watchShop(t *testing.T, p *shop, url, query string, work func()) (all tapped) {
	t.Helper()
	err := (&api.Client{URL: url}).Stream(t.Context(), "/tap?"+query, func(event string, data []byte) error {
		if all.counts == (api.Watched{}) && event == "counts" && work != nil {
			work() // the first event says that the tap is open
			work = nil
		}
		if event == "seen" {
			var s api.Seen
			require.NoError(t, json.Unmarshal(data, &s))
			all.seen = append(all.seen, s)
			return nil
		}
		return json.Unmarshal(data, &all.counts)
	})
	require.NoError(t, err)
	return all
}

// tappedShop is a shop with a tap, and the options of its dashboard.
func tappedShop(t *testing.T) (*shop, dashboard.Options) {
	t.Helper()
	taps := tap.New()
	return newShop(t, pipeline.Middleware(taps.Around)), dashboard.Options{Tap: taps}
}

func TestATapShowsTheCommandsThatAreAskedFor(t *testing.T) {
	p, o := tappedShop(t)
	hidden := newDashboard(t, p.Pipeline, o)
	o.Payloads = true
	shown := newDashboard(t, p.Pipeline, o)
	o.Show = func(cmd any) string { return "order of " + cmd.(order).Item } //nolint:forcetypeassert // there are no others
	redacted := newDashboard(t, p.Pipeline, o)
	require.True(t, read[api.Root](t, hidden, "").Tap)
	port := read[api.Graph](t, hidden, "/graph").Edges[0].Port
	require.NotEqual(t, "pay", port)
	for name, tt := range map[string]struct {
		url, query string
		want       []string // stage, command and result
	}{
		"hidden, by type": {hidden.URL, "stage=pay&limit=5", []string{
			"pay dashboard_test.order ok", "pay dashboard_test.order ok", "pay dashboard_test.order ok",
			"pay dashboard_test.order crash", "pay dashboard_test.order error",
		}},
		"all stages, as JSON": {shown.URL, "limit=2&text=%22a%22", []string{
			"in " + hostile + ` {"Item":"a","Secret":"secret a"} forward`, `pay {"Item":"a","Secret":"secret a"} ok`,
		}},
		"the results":           {shown.URL, "stage=pay&result=crash&limit=1", []string{`pay {"Item":"crash","Secret":"secret crash"} crash`}},
		"a port, by its name":   {redacted.URL, "port=" + url.QueryEscape(port) + "&limit=1&text=fail", []string{"in " + hostile + " order of fail forward"}},
		"a next stage":          {redacted.URL, "port=pay&limit=1&text=fail", []string{"in " + hostile + " order of fail forward"}},
		"no secret is found":    {redacted.URL, "text=secret&for=100ms", nil},
		"nor is a hidden text":  {hidden.URL, "text=crash&for=100ms", nil},
		"one on its way":        {redacted.URL, "follow=true&text=of+c&limit=2", []string{"in " + hostile + " order of c forward", "pay order of c ok"}},
		"none without a key":    {shown.URL, "key=a&for=100ms", nil},
		"a share, or all of it": {redacted.URL, "share=1&text=order+of+b&limit=2", []string{"in " + hostile + " order of b forward", "pay order of b ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := watchShop(t, p, tt.url, tt.query, func() { p.busy(t) })
			var got []string
			for _, s := range all.seen {
				got = append(got, s.Stage+" "+s.Command+" "+s.Result)
				assert.NotZero(t, s.At)
			}
			assert.ElementsMatch(t, tt.want, got)
			assert.EqualValues(t, len(tt.want), all.counts.Shown)
			assert.NotEmpty(t, all.counts.Ended)
		})
	}
}

func TestATapOfAKeyShowsItsCommands(t *testing.T) {
	taps := tap.New()
	s := stage.Keyed("jobs", func(n int) int { return n % 10 }, func(int) behaviour.Func[int] {
		return func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }
	})
	p, err := pipeline.New("keyed", s, pipeline.Middleware(taps.Around), pipeline.Logger(discard()))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, p.Stop(context.Background())) }) //nolint:usetesting // the test's has ended
	server := newDashboard(t, p, dashboard.Options{Tap: taps, Payloads: true})
	all := watchShop(t, nil, server.URL, "key=3&limit=2", func() {
		for n := range 20 {
			require.NoError(t, s.Submit(t.Context(), n))
		}
	})
	require.Len(t, all.seen, 2)
	require.Equal(t, "3", all.seen[0].Command)
	require.Equal(t, "13", all.seen[1].Command)
}

// A client that is gone has no watch: the handlers ask no predicate for it.
func TestATapEndsWhenItsClientLeaves(t *testing.T) {
	p, o := tappedShop(t)
	server := newDashboard(t, p.Pipeline, o)
	others := goleak.IgnoreCurrent()
	err := (&api.Client{URL: server.URL, HTTP: server.Client()}).Stream(t.Context(), "/tap?for=10m", func(string, []byte) error { return errEnough })
	require.ErrorIs(t, err, errEnough)
	server.Client().CloseIdleConnections()
	goleak.VerifyNone(t, others)
}

func TestATapEndsWithTheDashboard(t *testing.T) {
	p, o := tappedShop(t)
	o.Log = discard()
	d, err := dashboard.New(p.Pipeline, o)
	require.NoError(t, err)
	server := serve(t, d)
	all := watchShop(t, p, server.URL, "for=10m", d.Close)
	require.Contains(t, all.counts.Ended, "canceled")
	r, _ := get(t, server, "/golda/v1/tap")
	require.Equal(t, http.StatusServiceUnavailable, r.StatusCode)
}

func TestOnlySoManyTapsAreOpenAtOnce(t *testing.T) {
	p, o := tappedShop(t)
	server := newDashboard(t, p.Pipeline, o)
	ctx, cancel := context.WithCancel(t.Context())
	client := &api.Client{URL: server.URL}
	for range 8 {
		body, err := client.Open(ctx, "/tap")
		require.NoError(t, err)
		defer body.Close()
	}
	_, err := client.Open(ctx, "/tap")
	require.ErrorContains(t, err, "8 taps are open")
	cancel()
	require.Eventually(t, func() bool {
		body, err := client.Open(t.Context(), "/tap")
		if err == nil {
			require.NoError(t, body.Close())
		}
		return err == nil
	}, giveUp, 10*time.Millisecond)
}

func TestATapThatIsWrongIsAProblem(t *testing.T) {
	p, o := tappedShop(t)
	server := newDashboard(t, p.Pipeline, o)
	for query, status := range map[string]int{
		"?stage=none": http.StatusBadRequest, "?share=0": http.StatusBadRequest, "?share=NaN": http.StatusBadRequest, "?limit=0": http.StatusBadRequest,
		"?limit=100000": http.StatusBadRequest, "?for=1h": http.StatusBadRequest, "?for=-1s": http.StatusBadRequest, "?result=all": http.StatusBadRequest,
		"?follow=true&result=ok": http.StatusBadRequest, "?key=a": http.StatusForbidden,
	} {
		r, body := get(t, server, "/golda/v1/tap"+query)
		require.Equal(t, status, r.StatusCode, "%s: %s", query, body)
		require.Equal(t, "application/problem+json", r.Header.Get("Content-Type"))
		requireSafe(t, r)
	}
	r, body := get(t, newDashboard(t, p.Pipeline, dashboard.Options{}), "/golda/v1/tap")
	require.Equal(t, http.StatusConflict, r.StatusCode)
	require.Contains(t, body, "Options.Tap")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/golda/v1/tap", nil)
	require.NoError(t, err)
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	answer, err := server.Client().Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
}
