package dashboard_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// order is the command of the tests.
type order struct{ Item, Secret string }

// shop is a pipeline of two stages that runs until the test ends.
type shop struct {
	*pipeline.Pipeline

	in *stage.Flow[order, order]
}

// hostile is text that a page must not take for markup.
const hostile = `<script>alert("x")</script><img src=x onerror=alert(1)>`

func newShop(t *testing.T, parts ...pipeline.Part) *shop {
	t.Helper()
	pay := stage.Sink("pay", func(_ context.Context, o order) error {
		switch o.Item {
		case "crash":
			panic("crashed: " + hostile)
		case "fail":
			return errorText("failed: " + hostile)
		default:
			return nil
		}
	}, stage.Workers(1, 4))
	in := stage.Map("in "+hostile, func(_ context.Context, o order) (order, error) { return o, nil })
	p, err := pipeline.New("shop", append(parts, in.To(pay), pipeline.Logger(discard()))...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, p.Stop(context.Background())) //nolint:usetesting // the test's has ended
	})
	return &shop{p, in}
}

type errorText string

func (e errorText) Error() string { return string(e) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// serve serves a dashboard, and returns a function that gets an answer of its API.
func serve(t *testing.T, d *dashboard.Dashboard) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(d)
	t.Cleanup(func() {
		d.Close()
		server.Close()
	})
	return server
}

func newDashboard(t *testing.T, p *pipeline.Pipeline, o dashboard.Options) *httptest.Server {
	t.Helper()
	o.Log = discard()
	d, err := dashboard.New(p, o)
	require.NoError(t, err)
	return serve(t, d)
}

// get gets a path, and returns the answer with its body.
func get(t *testing.T, server *httptest.Server, path string) (*http.Response, string) {
	t.Helper()
	r, err := server.Client().Get(server.URL + path)
	require.NoError(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r, string(body)
}

// read gets an answer of the API, which must have no field that its type has not.
func read[T any](t *testing.T, server *httptest.Server, path string) (answer T) {
	t.Helper()
	r, body := get(t, server, "/golda/v1"+path)
	require.Equal(t, http.StatusOK, r.StatusCode, body)
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&answer), body)
	return answer
}

// busy has commands handled: three with results, one that crashes and one that fails.
func (s *shop) busy(t *testing.T) {
	t.Helper()
	for _, item := range []string{"a", "b", "c", "crash", "fail"} {
		require.NoError(t, s.in.Submit(t.Context(), order{item, "secret " + item}))
	}
	require.NoError(t, s.Drain(t.Context()))
	require.NoError(t, s.Reopen())
}

func TestTheAnswersAreThoseOfThePipeline(t *testing.T) {
	p := newShop(t)
	server := newDashboard(t, p.Pipeline, dashboard.Options{Process: "one"})
	p.busy(t)

	root := read[api.Root](t, server, "")
	require.Equal(t, "shop", root.Pipeline)
	require.Equal(t, "one", root.Process)
	require.True(t, root.ReadOnly)
	require.Empty(t, root.Actions)

	s, want := read[api.Snapshot](t, server, "/snapshot"), p.Snapshot()
	require.Equal(t, []string{"in " + hostile, "pay"}, s.Order)
	require.Equal(t, want.Accepted, s.Accepted)
	require.EqualValues(t, 3, s.Replied)
	require.Equal(t, want.Replied, s.Replied)
	require.Equal(t, want.Failed, s.Failed)
	require.Equal(t, want.DeadLettered, s.DeadLettered)
	pay := s.Stages["pay"]
	require.Equal(t, want.Stages[1].Counts.Crashes, pay.Counts.Crashes)
	require.Equal(t, want.Stages[1].Workers.Max, pay.Workers.Most)
	require.Equal(t, want.Stages[1].Latency.Service.Count, pay.Service.Count)
	sum := uint64(0)
	for _, b := range pay.Service.Buckets {
		sum += b.Count
	}
	require.Equal(t, pay.Service.Count, sum)
	require.EqualValues(t, 5, s.Stages[s.Order[0]].Edges[0].Moved)

	g := read[api.Graph](t, server, "/graph")
	require.Equal(t, []api.Flow{{From: "in " + hostile, To: "pay", Port: g.Edges[0].Port}}, g.Edges)
	require.Equal(t, "dashboard_test.order", g.Stages[0].Takes)

	require.Len(t, read[api.Failures](t, server, "/failures").Groups, 2)
	require.NotEmpty(t, read[api.Tree](t, server, "/tree").Children)
	require.Empty(t, read[api.Work](t, server, "/workers").Stages)
	require.Equal(t, "none", read[api.Verdicts](t, server, "/verdict?over=1s").Now.Limit)
	require.Len(t, read[api.History](t, server, "/history").Snapshots, 1)

	j := read[api.Journal](t, server, "/journal")
	require.Len(t, j.Changes, len(p.Journal()))
	require.Empty(t, read[api.Journal](t, server, "/journal?since="+strconv.FormatUint(j.Last, 10)).Changes)
}

func TestLettersHaveCommandsOnlyIfPayloadsAreShown(t *testing.T) {
	p := newShop(t)
	p.busy(t)
	hidden := newDashboard(t, p.Pipeline, dashboard.Options{Record: true})
	shown := newDashboard(t, p.Pipeline, dashboard.Options{Payloads: true, Record: true})
	for _, path := range []string{"/letters?store=failures", "/letters?store=quarantine", "/failures", "/recording"} {
		_, body := get(t, hidden, "/golda/v1"+path)
		require.NotContains(t, body, "secret ", path)
		_, body = get(t, shown, "/golda/v1"+path)
		require.Contains(t, body, "secret ", path)
	}
	all := read[api.Letters](t, shown, "/letters?store=quarantine")
	require.Len(t, all.Letters, 1)
	require.Equal(t, "pay", all.Letters[0].Stage)
	require.Equal(t, "dashboard_test.order", all.Letters[0].Type)
	require.Contains(t, all.Letters[0].Summary, "secret crash")
	require.NotEmpty(t, all.Letters[0].Stack)
	require.Empty(t, read[api.Letters](t, shown, "/letters?store=quarantine&since="+strconv.FormatUint(all.Last, 10)).Letters)
}

// A page gets names and errors as JSON that is not taken for a page, and no
// other site may frame, run or embed anything.
func TestAnswersCannotBeTakenForAPage(t *testing.T) {
	p := newShop(t)
	p.busy(t)
	server := newDashboard(t, p.Pipeline, dashboard.Options{Payloads: true, Record: true})
	for path := range readable(t) {
		r, body := get(t, server, "/golda/v1"+path)
		require.Equal(t, http.StatusOK, r.StatusCode, path)
		require.Equal(t, "application/json", r.Header.Get("Content-Type"), path)
		require.Equal(t, "no-store", r.Header.Get("Cache-Control"), path)
		require.NotContains(t, body, "<", path)
		requireSafe(t, r)
	}
	for _, path := range []string{"/", "/nothing", "/golda/v1/" + "%3Cscript%3E", "/golda/v1/letters?store=%3Cscript%3E"} {
		r, body := get(t, server, path)
		require.NotContains(t, body, "<script>", path)
		requireSafe(t, r)
	}
}

func requireSafe(t *testing.T, r *http.Response) {
	t.Helper()
	h := r.Header
	require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	require.Equal(t, "DENY", h.Get("X-Frame-Options"))
	csp := h.Get("Content-Security-Policy")
	require.Contains(t, csp, "default-src 'none'; script-src 'self';")
	require.Contains(t, csp, "frame-ancestors 'none'")
	require.NotContains(t, csp, "unsafe")
}

// readable returns the paths of openapi.yaml that can be read, with a query if they need one.
func readable(t *testing.T) map[string]bool {
	t.Helper()
	paths := map[string]bool{}
	for path, methods := range described(t) {
		if _, ok := methods["get"]; !ok || strings.HasPrefix(path, "/actions/") || path == "/events" || path == "/tap" {
			continue
		}
		switch path {
		case "/letters":
			path += "?store=dead"
		case "/keys", "/timers":
			path += "?stage=pay"
		case "/":
			path = ""
		}
		paths[path] = true
	}
	return paths
}

func described(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile("api/openapi.yaml")
	require.NoError(t, err)
	var doc struct{ Paths map[string]map[string]any }
	require.NoError(t, yaml.Unmarshal(text, &doc))
	require.NotEmpty(t, doc.Paths)
	return doc.Paths
}

func TestARequestThatIsWrongIsAProblem(t *testing.T) {
	server := newDashboard(t, newShop(t).Pipeline, dashboard.Options{Record: true})
	for path, status := range map[string]int{
		"/golda/v1/nothing":                     http.StatusNotFound,
		"/golda/v1/letters":                     http.StatusBadRequest,
		"/golda/v1/letters?store=all":           http.StatusBadRequest,
		"/golda/v1/letters?store=dead&since=x":  http.StatusBadRequest,
		"/golda/v1/letters?store=dead&limit=-1": http.StatusBadRequest,
		"/golda/v1/journal?since=x":             http.StatusBadRequest,
		"/golda/v1/timers?stage=none":           http.StatusBadRequest,
		"/golda/v1/verdict?over=x":              http.StatusBadRequest,
		"/golda/v1/verdict?over=1h":             http.StatusBadRequest,
	} {
		r, body := get(t, server, path)
		require.Equal(t, status, r.StatusCode, path)
		require.Equal(t, "application/problem+json", r.Header.Get("Content-Type"), path)
		var problem api.Problem
		require.NoError(t, json.Unmarshal([]byte(body), &problem), path)
		require.Equal(t, status, problem.Status, path)
		require.NotEmpty(t, problem.Title, path)
	}
}

func TestAWrongMethodIsRefused(t *testing.T) {
	server := newDashboard(t, newShop(t).Pipeline, dashboard.Options{Record: true})
	for path := range readable(t) {
		path = "/golda/v1" + path
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
			require.NoError(t, err)
			answer, err := server.Client().Do(r)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode, "%s %s", method, path)
			require.Equal(t, http.MethodGet, answer.Header.Get("Allow"), "%s %s", method, path)
		}
	}
}

// A page of another site may have its own name lead to the address of the dashboard.
func TestADashboardIsReachedByItsNamesOnly(t *testing.T) {
	d, err := dashboard.New(newShop(t).Pipeline, dashboard.Options{Hosts: []string{"golda.example"}, Log: discard()})
	require.NoError(t, err)
	for host, status := range map[string]int{
		"localhost": 200, "localhost:8077": 200, "127.0.0.1:8077": 200, "[::1]:8077": 200, "10.1.2.3": 200, "golda.example:80": 200, "GOLDA.example": 200,
		"evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/golda/v1", nil)
		r.Host = host
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		require.Equal(t, status, w.Code, host)
	}
}

// Registered and not watched, a dashboard costs nothing.
func TestADashboardWithoutAPageHasNoGoroutine(t *testing.T) {
	p := newShop(t)
	others := goleak.IgnoreCurrent()
	d, err := dashboard.New(p.Pipeline, dashboard.Options{Log: discard()})
	require.NoError(t, err)
	goleak.VerifyNone(t, others)
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/golda/v1/snapshot", nil))
	require.Equal(t, http.StatusOK, w.Code)
	goleak.VerifyNone(t, others)
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := dashboard.New(nil, dashboard.Options{Record: true})
	require.ErrorContains(t, err, "the pipeline is nil")
	_, err = dashboard.New(newShop(t).Pipeline, dashboard.Options{Token: "short", Viewers: -1, Hosts: []string{"http://a"}})
	require.ErrorContains(t, err, "Options.Token has 5 bytes")
	require.ErrorContains(t, err, "Options.Viewers is -1")
	require.ErrorContains(t, err, `Options.Hosts has "http://a"`)
}

// A recording is opened elsewhere: the answers are the same.
func TestARecordingAnswersAsThePipelineDid(t *testing.T) {
	p := newShop(t)
	p.busy(t)
	server := newDashboard(t, p.Pipeline, dashboard.Options{Process: "one", Payloads: true, Record: true})
	r, body := get(t, server, "/golda/v1/recording")
	require.Regexp(t, `^attachment; filename="golda-shop-.*\.json"$`, r.Header.Get("Content-Disposition"))
	var all api.Recording
	require.NoError(t, json.Unmarshal([]byte(body), &all))
	again := serve(t, dashboard.Open(all))

	root := read[api.Root](t, again, "")
	require.True(t, root.Recorded)
	require.True(t, root.ReadOnly)
	require.Equal(t, "one", root.Process)
	for _, path := range []string{"/graph", "/journal", "/failures", "/tree"} {
		_, was := get(t, server, "/golda/v1"+path)
		_, is := get(t, again, "/golda/v1"+path)
		require.JSONEq(t, was, is, path)
	}
	was, is := read[api.Snapshot](t, server, "/snapshot"), read[api.Snapshot](t, again, "/snapshot")
	require.Equal(t, was.Stages["pay"].Counts.Crashes, is.Stages["pay"].Counts.Crashes)
	require.Equal(t, was.Accepted, is.Accepted)
	require.Len(t, read[api.Letters](t, again, "/letters?store=quarantine").Letters, 1)
	for path := range readable(t) {
		r, _ := get(t, again, "/golda/v1"+path)
		require.Equal(t, http.StatusOK, r.StatusCode, path)
	}
}
