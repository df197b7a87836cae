package stagehttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/golda-dev/golda/pipeline"
)

// Health answers the probes of Kubernetes and of load balancers, at two paths
// of a mux:
//
//	health := stagehttp.Health(p)
//	mux.Handle("GET /livez", health)  // fails when the process must be started anew
//	mux.Handle("GET /readyz", health) // fails while the process must get no requests
//
// A process is live until its pipeline has ended, because a pipeline that gave
// up does not start again. It is ready while the pipeline runs, none of its
// stages is drained, each feed runs or has read its source to the end, and each
// of needs returns nil. The functions needs are the program's own checks, for
// instance of a database; each gets the context of the request. An inlet of
// adapter/nats is a feed, and the process is not ready while its connection is
// away. Crashes, a full queue and a paused stage make no process unready: one
// bad request would take all processes out of service.
//
// The answer is 200 and "ok", or 503 and a line for each reason, which has the
// text of the error. It is for operators: do not show it to the world. The last
// element of the path says which question is answered; other paths are 404. A
// HEAD request is answered without the lines. Health may be asked before the
// pipeline starts and after it has ended, by any goroutine. It panics if p or a
// function is nil.
func Health(p *pipeline.Pipeline, needs ...func(context.Context) error) http.Handler {
	need(p != nil, "Health: nil pipeline")
	for _, check := range needs {
		need(check != nil, "Health: nil function")
	}
	return health{p, needs}
}

type health struct {
	pipeline *pipeline.Pipeline
	needs    []func(context.Context) error
}

// ServeHTTP answers a probe.
func (h health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	switch path.Base(r.URL.Path) {
	case "livez":
		err = h.live()
	case "readyz":
		err = h.ready(r.Context())
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	text := "ok"
	if err != nil {
		text = err.Error()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if r.Method != http.MethodHead {
		_, _ = fmt.Fprintln(w, text)
	}
}

// live returns why the pipeline must be started anew.
func (h health) live() error {
	select {
	case <-h.pipeline.Done():
		err := fmt.Errorf("pipeline %q has ended", h.pipeline.Name())
		if why := h.pipeline.Err(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		return err
	default:
		return nil
	}
}

// ready returns all reasons for which the process must get no requests.
func (h health) ready(ctx context.Context) error {
	if err := h.live(); err != nil {
		return err
	}
	select {
	case <-h.pipeline.Started():
	default:
		return fmt.Errorf("pipeline %q has not started", h.pipeline.Name())
	}
	var all []error
	s := h.pipeline.Snapshot()
	for i := range s.Stages {
		if st := &s.Stages[i]; st.Draining {
			all = append(all, fmt.Errorf("stage %q is drained", st.Name))
		}
	}
	for _, f := range s.Feeds {
		all = append(all, feeds(f))
	}
	for _, check := range h.needs {
		all = append(all, check(ctx))
	}
	return oneLineEach(all)
}

// feeds returns why a feed brings no commands, or nil if it does, or has
// brought all of them.
func feeds(f pipeline.FeedSnapshot) error {
	switch f.State {
	case "waiting", "running", "exhausted":
		return nil
	}
	if f.Err == nil {
		return fmt.Errorf("feed %q: %s", f.Name, f.State)
	}
	return fmt.Errorf("feed %q: %s: %w", f.Name, f.State, f.Err)
}

// oneLineEach joins errors, each of which becomes one line.
func oneLineEach(all []error) error {
	for i, err := range all {
		if err != nil && strings.ContainsAny(err.Error(), "\r\n") {
			all[i] = errors.New(strings.Join(strings.Fields(err.Error()), " "))
		}
	}
	return errors.Join(all...)
}
