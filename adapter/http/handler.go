package stagehttp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/stage/headers"
)

const (
	defaultMaxBytes     = 1 << 20
	defaultWriteTimeout = 10 * time.Second
)

// Handler is an http.Handler that answers each request with the result of a
// command: make one with [New], [Accept] or [Stream]. The fields may be set
// until it serves its first request, and have useful zero values. It serves any
// number of requests at once.
type Handler[In, Out any] struct {
	// Decode makes the command of a request. nil means JSON in the body, by its
	// Content-Type. An error is answered 400 with its text; 413 if it is, or
	// wraps, the *http.MaxBytesError that the body returns; 415 if it is
	// [ErrContentType].
	Decode func(r *http.Request) (In, error)
	// Encode writes the answer. nil means 200 with the result as JSON, or 204
	// if Out is struct{}. If it returns an error the answer is 500; if it has
	// written a part, the connection is aborted, so that the client notices.
	// [Stream] does not call it.
	Encode func(w http.ResponseWriter, out Out) error
	// Problem returns the status and the detail of the answer for an error of
	// Decode or of the command. The status is from 400 to 599; any other number
	// means the answer of the package's table. nil means the table for all
	// errors.
	Problem func(err error) (status int, detail string)
	// MaxBytes is the most bytes that the body of a request may have. 0 means 1
	// MiB, less than 0 any number.
	MaxBytes int64
	// Timeout is the longest time from the decoded request to the end of the
	// command. After that time the command is ended. 0 means that only the
	// request's context limits it.
	Timeout time.Duration
	// WriteTimeout is how long the client of a [Stream] may take to receive the
	// next results, before it counts as gone. 0 means 10 s, less than 0 no
	// limit.
	WriteTimeout time.Duration
	// Log gets a line for each request that is not answered with success: an
	// error for 500, a warning for other statuses from 500 on, and else, as for
	// clients that have gone, a debug line. nil means no lines, except for a
	// function of the handler that panics: that line goes to slog.Default.
	Log *slog.Logger

	run     func(h *Handler[In, Out], w *response, r *http.Request, in In) error
	answers [600]atomic.Uint64 // by status
}

// New returns a handler that calls call with the command and the context of
// each request, and answers with the result. Use it with the Call of a stage:
//
//	mux.Handle("POST /orders", stagehttp.New(order.Call)) // order is a *stage.Flow
//
//	mux.Handle("POST /orders", stagehttp.New(func(ctx context.Context, o Order) (Receipt, error) {
//		return stage.Call[Receipt](ctx, order, o) // order is a *stage.Stage
//	}))
//
// A client that goes away ends its command, as it ends the context. New panics
// if call is nil.
func New[In, Out any](call func(ctx context.Context, in In) (Out, error)) *Handler[In, Out] {
	need(call != nil, "New: the function is nil")
	return &Handler[In, Out]{run: func(h *Handler[In, Out], w *response, r *http.Request, in In) error {
		out, err := call(r.Context(), in)
		if err != nil {
			return err
		}
		if h.Encode != nil {
			return h.Encode(w, out)
		}
		return encode(w, out)
	}}
}

// Accept returns a handler that submits the command of each request and does
// not wait for its end: it answers 202 with an empty body, or by Encode. The
// command continues after the answer, and when the client goes away. Use it
// with the Submit of a stage:
//
//	mux.Handle("POST /jobs", stagehttp.Accept(job.Submit))
//
// Accept panics if submit is nil.
func Accept[In any](submit func(ctx context.Context, in In) error) *Handler[In, struct{}] {
	need(submit != nil, "Accept: the function is nil")
	h := New(func(ctx context.Context, in In) (struct{}, error) { return struct{}{}, submit(ctx, in) })
	h.Encode = func(w http.ResponseWriter, _ struct{}) error {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	return h
}

// ServeHTTP answers a request. If a function of the handler panics the answer
// is 500, and the panic is logged with its stack; a panic with
// [http.ErrAbortHandler] aborts the connection.
func (h *Handler[In, Out]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	need(h != nil && h.run != nil, "make a Handler with New, Accept or Stream")
	status := http.StatusInternalServerError // if the connection is aborted
	defer func() {
		if status < len(h.answers) {
			h.answers[status].Add(1)
		}
	}()
	answer := &response{ResponseWriter: w}
	if p, err := h.try(answer, r); err != nil {
		status = p.Status
		h.log(r, p, err)
		answer.fail(p)
	} else {
		status = cmp.Or(answer.status, http.StatusOK)
	}
}

// try serves a request. It returns its error, and how that is answered.
func (h *Handler[In, Out]) try(w *response, r *http.Request) (p *problem, err error) {
	defer func() {
		if e := caught(recover()); e != nil {
			if e.aborts() {
				panic(http.ErrAbortHandler)
			}
			e.answer = err
			p, err = newProblem(http.StatusInternalServerError), e
		}
	}()
	if err = h.serve(w, r); err != nil {
		p = h.problem(r, err)
	}
	return p, err
}

func (h *Handler[In, Out]) serve(w *response, r *http.Request) error {
	need(h.Timeout >= 0, fmt.Sprintf("the Timeout of the Handler is negative: %v; use 0 for no limit", h.Timeout)) // answered 500, and logged
	in, err := h.decode(w, r)
	if err != nil {
		return err
	}
	r = r.WithContext(headers.Extract(r.Context(), r.Header.Get))
	if h.Timeout > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), h.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	return h.run(h, w, r, in)
}

func (h *Handler[In, Out]) decode(w *response, r *http.Request) (In, error) {
	if r.Body == nil {
		r.Body = http.NoBody // of a request that no server made
	}
	if most := orDefault(h.MaxBytes, defaultMaxBytes); most > 0 {
		r.Body = http.MaxBytesReader(w.ResponseWriter, r.Body, most)
	}
	from := h.Decode
	if from == nil {
		from = decodeJSON[In]
	}
	in, err := from(r)
	if err != nil {
		return in, &requestError{err}
	}
	return in, nil
}

// Answers returns how many requests were answered with a status since the
// handler was made. 499 counts the clients that went away before their command
// had ended. A [Stream] that fails after its first result counts as the status
// of its error.
func (h *Handler[In, Out]) Answers(status int) uint64 {
	if status < 0 || status >= len(h.answers) {
		return 0
	}
	return h.answers[status].Load()
}

// encode writes a result as JSON.
func encode(w http.ResponseWriter, out any) error {
	if _, none := out.(struct{}); none {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(body, '\n'))
	return gone(err)
}

func need(ok bool, what string) {
	if !ok {
		panic("stagehttp: " + what)
	}
}

func orDefault[N int64 | time.Duration](n, def N) N {
	if n == 0 {
		return def
	}
	return n
}
