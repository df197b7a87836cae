package stagehttp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// statusGone is the status that counts clients that went away before they were
// answered. No client ever sees it.
const statusGone = 499

// ErrContentType is the error of a Decode for a body of another type than it
// takes: the answer is 415.
var ErrContentType = errors.New("stagehttp: unsupported content type")

// requestError is the error of a request from which no command could be made.
type requestError struct{ err error }

func (e *requestError) Error() string { return e.err.Error() }
func (e *requestError) Unwrap() error { return e.err }

// goneError is the error of a client that does not take its answer.
type goneError struct{ err error }

func (e *goneError) Error() string { return "the client has gone: " + e.err.Error() }
func (e *goneError) Unwrap() error { return e.err }

// gone marks an error of writing to a client.
func gone(err error) error {
	if err == nil {
		return nil
	}
	return &goneError{err}
}

// problem is the body of the answer to a request that failed, as RFC 9457
// defines it.
type problem struct {
	Title  string        `json:"title"`
	Status int           `json:"status"`
	Detail string        `json:"detail,omitempty"`
	Reason reason.Reason `json:"reason,omitempty"` // of an overload

	retryAfter time.Duration
}

// problem returns how an error is answered.
func (h *Handler[In, Out]) problem(r *http.Request, err error) *problem {
	if hasGone(r, err) {
		return newProblem(statusGone)
	}
	p := problemOf(err)
	if h.Problem != nil {
		if status, detail := h.Problem(err); status >= 400 && status < 600 {
			p.Status, p.Detail = status, detail
		}
	}
	p.Title = http.StatusText(p.Status)
	return &p
}

func newProblem(status int) *problem {
	if status == statusGone {
		return &problem{Status: statusGone, Title: "Client Closed Request"}
	}
	return &problem{Status: status, Title: http.StatusText(status)}
}

// hasGone reports whether there is no client to answer.
func hasGone(r *http.Request, err error) bool {
	_, gone := errors.AsType[*goneError](err)
	return gone || errors.Is(r.Context().Err(), context.Canceled) && !readTimeout(err)
}

// readTimeout reports whether a body did not arrive in time. The context of its
// request ends, too.
func readTimeout(err error) bool {
	_, fromRequest := errors.AsType[*requestError](err)
	return fromRequest && errors.Is(err, os.ErrDeadlineExceeded)
}

// problemOf returns how the table of the package answers an error.
func problemOf(err error) (p problem) {
	request, fromRequest := errors.AsType[*requestError](err)
	overload, overloaded := stage.Overloaded(err)
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case fromRequest:
		p.Detail = plain.Brief(err, longestText) // the error may quote the body
		switch {
		case tooLarge:
			p.Status = http.StatusRequestEntityTooLarge
		case errors.Is(request, ErrContentType):
			p.Status = http.StatusUnsupportedMediaType
		case readTimeout(err):
			p.Status = http.StatusRequestTimeout
		default:
			p.Status = http.StatusBadRequest
		}
	case stage.Crashed(err) && !errors.Is(err, stage.ErrStuck):
		p.Status = http.StatusInternalServerError
	case overloaded:
		p.Status, p.Reason, p.retryAfter = http.StatusServiceUnavailable, overload.Reason, overload.RetryAfter
		if overload.Reason == reason.Rate {
			p.Status = http.StatusTooManyRequests
		}
	case errors.Is(err, stage.ErrNotRunning), errors.Is(err, stage.ErrStopped):
		p.Status, p.Reason, p.retryAfter = http.StatusServiceUnavailable, reason.Closed, time.Second
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, stage.ErrTimeout), errors.Is(err, stage.ErrStuck):
		p.Status = http.StatusGatewayTimeout
	default:
		p.Status = http.StatusInternalServerError
	}
	return p
}

// write writes the problem as the answer.
func (p *problem) write(w http.ResponseWriter) {
	if pause, _ := backoff.Heed(p.retryAfter, backoff.LongestAsked); pause > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(pause.Seconds()))))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(p.json(), '\n')) // there is no other way to reach the client
}

func (p *problem) json() []byte {
	body, _ := json.Marshal(p) //nolint:errchkjson // strings and a number
	return body
}

func (h *Handler[In, Out]) log(r *http.Request, p *problem, err error) {
	log := h.Log
	crash, panicked := errors.AsType[*panicError](err)
	if log == nil && panicked {
		log = slog.Default()
	}
	if log == nil {
		return
	}
	level := slog.LevelDebug
	switch {
	case p.Status == http.StatusInternalServerError:
		level = slog.LevelError
	case p.Status > http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	args := []any{
		"method", plain.Brief(r.Method, longestQuoted), "path", plain.Brief(r.URL.Path, longestQuoted),
		"status", p.Status, "error", plain.Brief(err, 2*longestText),
	}
	if panicked {
		args = append(args, "endpoint", r.Pattern, "stack", string(crash.stack))
	}
	if pause, cut := backoff.Heed(p.retryAfter, backoff.LongestAsked); cut {
		args = append(args, "asked", p.retryAfter, "retry_after", pause) // the client is asked for less
	}
	log.Log(r.Context(), level, "request failed", args...)
}
