package fleet_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats/fleet"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// pages returns the dashboard of a process, which answers with the path of the request.
func pages(name string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /golda/v1/failures", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(name + " " + r.Host + " " + r.URL.Query().Get("stage")))
	})
	mux.HandleFunc("GET /golda/v1/large", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Repeat("a", 7<<20))) // its message is small
	})
	mux.HandleFunc("GET /golda/v1/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write(make([]byte, 1<<20))
		}
	})
	mux.HandleFunc("GET /golda/v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("event: base\n\n"))
		<-r.Context().Done()
	})
	mux.HandleFunc("GET /golda/v1/crash", func(http.ResponseWriter, *http.Request) { panic("on purpose") })
	return mux
}

func TestTheDashboardOfAProcessIsReadByAnother(t *testing.T) {
	url := serve(t).ClientURL()
	for _, name := range []string{"one", "two"} {
		o := named(name)
		o.Dashboard = pages(name)
		start(t, connect(t, url), "shop", o)
	}
	start(t, connect(t, url), "shop", named("deaf"))
	f, err := fleet.Observe(t.Context(), connect(t, url), "shop", beats)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Leave(context.Background())) })
	ids := map[string]string{}
	require.Eventually(t, func() bool {
		processes, _, err := f.Look(t.Context())
		answer := 0
		for _, p := range processes {
			if ids[p.Name] = p.ID; p.Answers {
				answer++
			}
		}
		return err == nil && len(processes) == 3 && answer == 2
	}, time.Minute, 10*time.Millisecond)

	for _, name := range []string{"one", "two"} {
		body, err := f.Get(t.Context(), ids[name], "/golda/v1/failures?stage=pay")
		require.NoError(t, err)
		require.Equal(t, name+" localhost pay", string(body))
	}
	body, err := f.Get(t.Context(), ids["one"], "/golda/v1/large")
	require.NoError(t, err)
	require.Len(t, body, 7<<20)
	for path, want := range map[string]string{
		"/golda/v1/endless": "more than 8388608 bytes",
		"/golda/v1/events":  "a stream cannot be read",
		"/golda/v1/crash":   "panicked: on purpose",
		"/golda/v1/none":    "status 404",
		"/golda/v10":        "not below /golda/v1",
		"/":                 "not below /golda/v1",
		"@example.com/":     "not below /golda/v1",
	} {
		_, err := f.Get(t.Context(), ids["one"], path)
		require.ErrorContains(t, err, want, path)
		require.ErrorContains(t, err, `fleet "shop": get `+path)
	}
	_, err = f.Get(t.Context(), ids["deaf"], "/golda/v1/failures")
	require.ErrorContains(t, err, "set fleet.Options.Dashboard there")
	for _, id := range []string{"", ">", "a.b"} {
		_, err = f.Get(t.Context(), id, "/golda/v1/failures")
		require.ErrorContains(t, err, "no ID", id)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.Get(ctx, ids["one"], "/golda/v1/failures")
	require.ErrorIs(t, err, context.Canceled)
}

// Letters are counted in each look, also of a process without a dashboard.
func TestALookCountsTheLettersOfAllProcesses(t *testing.T) {
	down := stage.Sink("down", func(context.Context, int) error { return errors.New("down") })
	p, err := pipeline.New("shop", down, quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	f, err := fleet.Join(t.Context(), connect(t, serve(t).ClientURL()), p, named("one"))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, p.Stop(context.Background()))
		assert.NoError(t, f.Leave(context.Background()))
	})
	for n := range 2 {
		require.NoError(t, down.Submit(t.Context(), n))
	}
	require.Eventually(t, func() bool {
		processes, _, err := f.Look(t.Context())
		require.NoError(t, err)
		return len(processes) == 1 && processes[0].Failures == 2 && processes[0].Dead+processes[0].Quarantine == 0 && !processes[0].Answers
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, 2, p.Failures().Len())
}
