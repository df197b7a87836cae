package stagehttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrNoStream is the error of [Send] for a command that is of no request to a
// [Stream].
var ErrNoStream = errors.New("stagehttp: the command is of no streaming request")

// ErrStreamOver is the error of [Send] when the answer has ended, because the
// client is gone or its command has ended.
var ErrStreamOver = errors.New("stagehttp: the stream is over")

// buffered is how many results of a request wait for its client before Send
// does.
const buffered = 64

// Stream returns a handler that answers each request with any number of
// results, each written at once. The results are the values that handlers pass
// to [Send] while they handle the command, or a command emitted for it:
//
//	rows := stage.Sink("rows", stagehttp.Send[Row])
//	search := stage.FlatMap("search", find) // emits rows
//	p, err := pipeline.New("shop", search.To(rows))
//	mux.Handle("GET /search", stagehttp.Stream(search.Call))
//
// The answer ends when call returns: for the Call of a stage, when the command
// and all commands emitted on its way have ended. The result of call is not
// used, only its error. If the client goes away, the context of call ends, and
// so does the command.
//
// The answer is one JSON value a line (NDJSON, application/x-ndjson), or
// server-sent events if the Accept header of the request names
// text/event-stream, with any quality but 0. An error before the first result
// is answered as by [New]. An error after it is the last line, {"problem": …},
// and then the connection is aborted, so that no client takes the results for
// all. Server-sent events end with an event of the type problem, or of the type
// end if all went well: a client closes its EventSource then, which would
// otherwise connect again.
//
// Results are in the order in which handlers send them. Send them from a stage
// of Workers(1, 1), behind stages of one worker, if the order matters. Stream
// panics if call is nil.
func Stream[In, Out any](call func(ctx context.Context, in In) (Out, error)) *Handler[In, Out] {
	need(call != nil, "Stream: the function is nil")
	return &Handler[In, Out]{run: func(h *Handler[In, Out], w *response, r *http.Request, in In) error {
		ctx, cancel := context.WithCancel(r.Context())
		s := &stream{rows: make(chan []byte, buffered), over: make(chan struct{})}
		end := begin(func() error {
			_, err := call(context.WithValue(ctx, streamKey{}, s), in)
			return err
		})
		defer func() {
			cancel()
			close(s.over)
			end.wait()
		}()
		out := newRows(w, r, orDefault(h.WriteTimeout, defaultWriteTimeout))
		if err := out.copy(s.rows, end.done); err != nil {
			return err
		}
		return out.end(end.result())
	}}
}

type streamKey struct{}

// stream leads from the handlers of a command to the client.
type stream struct {
	rows chan []byte
	over chan struct{} // closed when rows are no longer written
}

// Send sends a result to the client: the one whose request led to the command
// that is being handled; see [Stream]. ctx is the handler's context. The result
// is encoded as JSON. It is the function of a [stage.Sink], and any handler may
// call it, from several goroutines at once.
//
// A nil error means that the result is on its way, not that the client has it.
// A command that is tried again sends its results again.
//
// If the client is slow, Send waits when 64 results wait already, and holds its
// worker; mark such a stage as stage.Blocking and give it more workers. The
// client is dropped after the WriteTimeout of the handler. Then the error is
// [ErrStreamOver], or the cause with which ctx ended.
func Send[Out any](ctx context.Context, out Out) error {
	s, ok := ctx.Value(streamKey{}).(*stream)
	if !ok {
		return ErrNoStream
	}
	row, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("stagehttp: Send: %w", err)
	}
	select {
	case <-s.over:
		return ErrStreamOver
	default:
	}
	select {
	case s.rows <- row:
		return nil
	case <-s.over:
		return ErrStreamOver
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// call is a function that runs in a goroutine of its own.
type call struct {
	done     chan struct{}
	err      error
	returned bool
	panicked *panicError
}

func begin(f func() error) *call {
	c := &call{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer func() { c.panicked = caught(recover()) }()
		c.err = f()
		c.returned = true
	}()
	return c
}

func (c *call) wait() { <-c.done }

// result returns the error of the function, once it has returned; if the
// function panicked, result panics with the same value.
func (c *call) result() error {
	c.wait()
	switch {
	case c.returned:
		return c.err
	case c.panicked != nil:
		panic(c.panicked)
	default:
		return errors.New("stagehttp: the function of the stream ended its goroutine")
	}
}

// rows writes results to a client.
type rows struct {
	w       *response
	control *http.ResponseController
	within  time.Duration // for one write; not more than 0 is no limit
	events  bool
}

func newRows(w *response, r *http.Request, within time.Duration) *rows {
	return &rows{w, http.NewResponseController(w), within, acceptsEvents(r.Header.Values("Accept"))}
}

// acceptsEvents reports whether Accept headers name text/event-stream, and not
// with the quality 0, which excludes it (RFC 9110, 12.4.2).
func acceptsEvents(accept []string) bool {
	for _, one := range strings.Split(strings.Join(accept, ","), ",") {
		kind, parameters, err := mime.ParseMediaType(one)
		if err != nil || kind != "text/event-stream" {
			continue
		}
		if q, err := strconv.ParseFloat(parameters["q"], 64); err != nil || q > 0 {
			return true
		}
	}
	return false
}

// copy writes rows until done is closed and no row is left.
func (o *rows) copy(from <-chan []byte, done <-chan struct{}) error {
	for {
		select {
		case row := <-from:
			if err := o.write(row, len(from) == 0); err != nil {
				return err
			}
		case <-done:
			for range len(from) {
				if err := o.write(<-from, false); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

// write writes a row, and the header before the first.
func (o *rows) write(row []byte, flush bool) error {
	if o.events {
		return o.put(flush, "data: ", row, "\n\n")
	}
	return o.put(flush, "", row, "\n")
}

func (o *rows) put(flush bool, before string, row []byte, after string) error {
	if o.w.status == 0 {
		o.begin()
	}
	o.renew()
	line := make([]byte, 0, len(before)+len(row)+len(after))
	line = append(append(append(line, before...), row...), after...)
	if _, err := o.w.Write(line); err != nil {
		return gone(err)
	}
	if flush {
		if err := o.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return gone(err)
		}
	}
	return nil
}

// renew gives the client the whole time again to receive the next write. It
// replaces the WriteTimeout of the server, which would end a stream that lasts
// longer.
func (o *rows) renew() {
	var deadline time.Time // none
	if o.within > 0 {
		deadline = time.Now().Add(o.within)
	}
	_ = o.control.SetWriteDeadline(deadline) // not all can; the server removes it behind the answer
}

func (o *rows) begin() {
	header := o.w.Header()
	header.Set("Content-Type", "application/x-ndjson")
	if o.events {
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-cache")
	}
	header.Set("X-Accel-Buffering", "no") // or nginx collects the results
	o.w.WriteHeader(http.StatusOK)
}

// end ends the answer with the error of the command.
func (o *rows) end(err error) error {
	switch {
	case err != nil:
		if o.w.status != 0 {
			o.w.last = o.problem
		}
		return err
	case o.events:
		return o.put(true, "event: end\ndata: ", []byte("null"), "\n\n")
	case o.w.status == 0:
		o.begin()
	}
	o.renew() // the server writes the end of the body
	return nil
}

// problem writes the problem behind the results. It reports whether the client
// knows how the stream ended.
func (o *rows) problem(p *problem) bool {
	if o.events {
		return o.put(true, "event: problem\ndata: ", p.json(), "\n\n") == nil
	}
	_ = o.put(true, `{"problem":`, p.json(), "}\n") // the connection is aborted anyway
	return false
}
