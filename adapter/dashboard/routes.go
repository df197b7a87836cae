package dashboard

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

const (
	root         = "/golda/v1"
	mostLetters  = 1000 // in one answer
	someLetters  = 100
	longestOver  = 5 * time.Minute
	writeTimeout = 10 * time.Second // for an event
)

// route sets the routes.
func (d *Dashboard) route() {
	d.mux.Handle("/", page())
	get := func(path string, answer func(*http.Request) (any, error)) {
		d.mux.HandleFunc("GET "+root+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := answer(r)
			if err != nil {
				fail(w, err)
				return
			}
			write(w, r, body)
		})
	}
	get("", func(*http.Request) (any, error) { return d.of.root(), nil })
	get("/{$}", func(*http.Request) (any, error) { return d.of.root(), nil })
	get("/snapshot", func(*http.Request) (any, error) { return d.sampler.next(), nil })
	get("/graph", func(*http.Request) (any, error) { return d.of.graph(), nil })
	get("/journal", func(r *http.Request) (any, error) {
		since, err := number(r, "since", 0)
		return d.of.journal(since), err
	})
	get("/letters", d.letters)
	get("/failures", func(*http.Request) (any, error) { return d.of.failures(), nil })
	get("/workers", func(r *http.Request) (any, error) { return d.of.work(r.URL.Query().Get("stacks") == "true"), nil })
	get("/keys", d.keys)
	get("/timers", d.timers)
	get("/tree", func(*http.Request) (any, error) { return d.of.tree(), nil })
	get("/processes", func(*http.Request) (any, error) { return d.of.processes(), nil })
	get("/verdict", func(r *http.Request) (any, error) { return d.verdict(r) })
	get("/history", func(*http.Request) (any, error) { return d.history(), nil })
	get("/recording", func(r *http.Request) (any, error) { return d.recording(r) })
	d.mux.HandleFunc("GET "+root+"/events", d.events)
	d.mux.HandleFunc("GET "+root+"/tap", d.tap)
	d.mux.HandleFunc("POST "+root+"/actions/{verb}", d.act)
	d.mux.HandleFunc("GET "+root+"/actions/"+export, d.export)
	d.mux.HandleFunc(root+"/", d.unknown)
}

// unknown answers a request for which there is no route.
func (d *Dashboard) unknown(w http.ResponseWriter, r *http.Request) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := d.mux.Handler(other); pattern != root+"/" {
			w.Header().Set("Allow", method)
			refuse(w, http.StatusMethodNotAllowed, "wrong method", fmt.Sprintf("use %s for %s", method, r.URL.Path))
			return
		}
	}
	refuse(w, http.StatusNotFound, "no such route", fmt.Sprintf("%s %s: see openapi.yaml of package api", r.Method, r.URL.Path))
}

// requestError is a mistake in a request.
type requestError struct {
	status int
	title  string
	err    error
}

func (e *requestError) Error() string { return fmt.Sprintf("%s: %v", e.title, e.err) }
func (e *requestError) Unwrap() error { return e.err }

func badRequest(format string, args ...any) error {
	return &requestError{http.StatusBadRequest, "bad request", fmt.Errorf(format, args...)}
}

// fail answers a request with an error.
func fail(w http.ResponseWriter, err error) {
	if e, ok := errors.AsType[*requestError](err); ok {
		refuse(w, e.status, e.title, e.err.Error())
		return
	}
	refuse(w, http.StatusInternalServerError, "the request failed", err.Error())
}

// refuse answers a request with a problem, as RFC 9457 defines it.
func refuse(w http.ResponseWriter, status int, title, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Problem{Title: title, Status: status, Detail: detail}) // the client may have gone
}

// write answers a request with JSON.
func write(w http.ResponseWriter, r *http.Request, body any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if all, ok := body.(api.Recording); ok {
		h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="golda-%s-%s.json"`, safe(all.Root.Pipeline), time.Now().UTC().Format("20060102T150405Z")))
	}
	var out io.Writer = w
	if packs(r) {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		packed := gzip.NewWriter(w)
		defer func() { _ = packed.Close() }() // the client may have gone
		out = packed
	}
	_ = json.NewEncoder(out).Encode(body)
}

// safe returns a name with a dash for all that is no letter, digit or dot, for
// the name of a file.
func safe(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, name)
}

// packs reports whether an answer is large, and the client takes it packed.
func packs(r *http.Request) bool {
	return (strings.HasSuffix(r.URL.Path, "/history") || strings.HasSuffix(r.URL.Path, "/recording")) &&
		strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

func number(r *http.Request, name string, otherwise uint64) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, badRequest("%s is %q: use a number", name, text)
	}
	return n, nil
}

func (d *Dashboard) letters(r *http.Request) (any, error) {
	since, err := number(r, "since", 0)
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", someLetters)
	if err != nil {
		return nil, err
	}
	store := r.URL.Query().Get("store")
	all, ok := d.of.letters(store, r.URL.Query().Get("process"), since, int(min(max(limit, 1), mostLetters)))
	if !ok {
		return nil, badRequest("store is %q: use dead, quarantine or failures", store)
	}
	return all, nil
}

func (d *Dashboard) verdict(r *http.Request) (api.Verdicts, error) {
	if v, ok := d.of.verdict(); ok {
		return v, nil
	}
	over := interval
	if text := r.URL.Query().Get("over"); text != "" {
		var err error
		if over, err = time.ParseDuration(text); err != nil || over < period || over > longestOver {
			return api.Verdicts{}, badRequest("over is %q: use a duration such as 10s, from %v to %v", text, period, longestOver)
		}
	}
	return d.sampler.verdicts(over, r.Context().Done())
}

func (d *Dashboard) history() api.History {
	if h, ok := d.of.history(); ok {
		return h
	}
	var now *api.Snapshot
	if !d.sampler.running() {
		next := d.sampler.next()
		now = &next
	}
	h := d.sampler.history(now)
	h.Verdicts = judge(h.Snapshots)
	return h
}

// judge returns the verdicts about snapshots. A verdict like the one before is
// left out.
func judge(all []api.Snapshot) []api.Verdict {
	judged := []api.Verdict{}
	since, text := 0, ""
	for i := 1; i < len(all); i++ {
		for since < i-1 && all[i].At.Sub(all[since+1].At) >= interval {
			since++
		}
		if v := verdictOf(&all[since], &all[i]); v.Text != text {
			v.N = all[i].N
			judged, text = append(judged, v), v.Text
		}
	}
	return judged
}

func (d *Dashboard) recording(r *http.Request) (all api.Recording, err error) {
	all = api.Recording{
		Root: d.of.root(), Graph: d.of.graph(), History: d.history(), Journal: d.of.journal(0), Failures: d.of.failures(),
		Work: d.of.work(false), Tree: d.of.tree(),
	}
	processes := d.of.processes()
	all.Processes = &processes
	all.Verdicts, err = d.verdict(r)
	return all, err
}

// events sends a client the stream of events.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	v, err := d.sampler.join()
	if err != nil {
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, "no stream", err.Error())
		return
	}
	defer d.sampler.leave(v)
	send, flush := stream(w)
	if !send([]byte("retry: 3000\n\n")) {
		return
	}
	for {
		select {
		case m := <-v.messages:
			if !send(m) {
				return
			}
			if len(v.messages) == 0 && !flush() {
				return
			}
		case <-v.ended:
			send([]byte("event: end\ndata: {}\n\n"))
			flush()
			return
		case <-r.Context().Done():
			return
		}
	}
}

// stream begins a stream of server-sent events. Send writes an event, and flush
// passes written events on; both report whether the client is still there.
func stream(w http.ResponseWriter) (send func(text []byte) bool, flush func() bool) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy must not gather events
	rc := http.NewResponseController(w)
	send = func(text []byte) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // a server that cannot has its own
		_, err := w.Write(text)
		return err == nil
	}
	return send, func() bool { return rc.Flush() == nil }
}
