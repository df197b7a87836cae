package fleet

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/golda-dev/golda/internal/link"
)

// The bounds of a read.
const (
	readRoot  = "/golda/v1"     // below which dashboards answer
	readTime  = 5 * time.Second // for one answer
	readRoom  = 64              // reads that wait in a process; further ones are dropped
	mostBytes = 8 << 20         // of an answer; its message is compressed
)

// lookup asks the dashboard of a process.
type lookup struct {
	Path string `json:"path"` // with the query
}

// page answers a read.
type page struct {
	Status int    `json:"status,omitempty"`
	Body   []byte `json:"body,omitempty"` // compressed
	Err    string `json:"error,omitempty"`
}

// Get reads from the dashboard of a process of [Fleet.Look], by its ID: a path
// such as /golda/v1/failures. It is for dashboard.NewFleet. The error says
// whether the process has no Options.Dashboard. Get waits until ctx ends.
func (f *Fleet) Get(ctx context.Context, id, path string) (body []byte, err error) {
	link.CheckContext(ctx, "fleet: Get")
	if body, err = f.get(ctx, id, path); err != nil {
		return nil, fmt.Errorf("fleet %q: get %s: %w", f.pipeline, path, err)
	}
	return body, nil
}

func (f *Fleet) get(ctx context.Context, id, path string) ([]byte, error) {
	if id == "" || token(id) != id {
		return nil, errors.New("it is no ID of a process")
	}
	data, err := json.Marshal(lookup{path})
	if err != nil {
		return nil, err
	}
	answer, err := f.nc.RequestWithContext(ctx, f.subjects.get+id, data)
	switch {
	case errors.Is(err, natsgo.ErrNoResponders):
		return nil, errors.New("the process does not answer reads: set fleet.Options.Dashboard there")
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, f.away(err)
	}
	var p page
	if err := json.Unmarshal(answer.Data, &p); err != nil {
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	if p.Err != "" {
		return nil, errors.New(p.Err)
	}
	body, err := unpack(p.Body)
	if err == nil && p.Status >= http.StatusBadRequest {
		err = fmt.Errorf("status %d: %s", p.Status, body)
	}
	return body, err
}

// serveReads answers reads, one after the other, until ctx ends.
func (f *Fleet) serveReads(ctx context.Context, arrivals <-chan *natsgo.Msg) {
	for {
		select {
		case m := <-arrivals:
			if m.Reply == "" {
				continue
			}
			p, err := f.read(ctx, m.Data)
			if err != nil {
				p = page{Err: textOf(err)}
			}
			if errors.Is(f.send(m.Reply, p), natsgo.ErrMaxPayload) {
				_ = f.send(m.Reply, page{Err: "the answer is larger than a message may be"}) // the asking process waits in vain
			}
		case <-ctx.Done():
			return
		}
	}
}

// read asks the dashboard of this process.
func (f *Fleet) read(ctx context.Context, data []byte) (p page, err error) {
	var r lookup
	if err := json.Unmarshal(data, &r); err != nil {
		return p, err
	}
	if r.Path != readRoot && !strings.HasPrefix(r.Path, readRoot+"/") {
		return p, fmt.Errorf("the path %q is not below %s", r.Path, readRoot)
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+r.Path, http.NoBody)
	if err != nil {
		return p, err
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("Options.Dashboard panicked: %v", v)
		}
	}()
	w := &recorder{header: http.Header{}, status: http.StatusOK, cancel: cancel}
	f.o.Dashboard.ServeHTTP(w, request)
	if w.err != nil {
		return p, w.err
	}
	p.Status = w.status
	p.Body, err = pack(w.body.Bytes())
	return p, err
}

// recorder keeps the answer of a handler. A stream, or an answer that is too
// large, ends at its first write too many.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	cancel context.CancelFunc // ends the request
	err    error
}

// Header is for [http.ResponseWriter].
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader is for [http.ResponseWriter].
func (w *recorder) WriteHeader(status int) { w.status = status }

// Write is for [http.ResponseWriter].
func (w *recorder) Write(text []byte) (int, error) {
	switch {
	case w.err != nil:
	case strings.HasPrefix(w.header.Get("Content-Type"), "text/event-stream"):
		w.err = errors.New("a stream cannot be read over a fleet")
	case w.body.Len()+len(text) > mostBytes:
		w.err = fmt.Errorf("the answer has more than %d bytes", mostBytes)
	default:
		return w.body.Write(text)
	}
	w.cancel()
	return 0, w.err
}

// pack compresses an answer.
func pack(body []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	err := w.Close()
	return packed.Bytes(), err
}

// unpack is the inverse of pack. It takes no more than an answer may have.
func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(r, mostBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
	case len(body) > mostBytes:
		return nil, fmt.Errorf("the answer has more than %d bytes", mostBytes)
	}
	return body, nil
}
