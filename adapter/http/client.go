package stagehttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/headers"
	"github.com/golda-dev/golda/stage/reason"
)

// PeerOverloaded is the reason of a [stage.Overload] for a [StatusError] of 429
// or 503.
const PeerOverloaded reason.Reason = "peer_overloaded"

const (
	mostAnswer = 16 << 20 // bytes of an answer that are read
	mostDetail = 512      // bytes of an answer that an error keeps
)

// Post returns a function for a [stage.Sink] that posts each command to a URL,
// as JSON. See [Do] for its errors, and for how to try again.
//
//	save := stage.Sink("save", stagehttp.Post[Order](client, "https://store/orders"), stage.Blocking(),
//		stage.Retry(stage.RetryPolicy{Attempts: 5, Backoff: 100 * time.Millisecond, Jitter: 0.2, If: stagehttp.Temporary}))
//
// Post panics if the URL cannot be parsed, or has no scheme or no host. The
// panic does not show the URL, because a URL may have a password.
func Post[In any](client *http.Client, url string) func(ctx context.Context, in In) error {
	need(isAbsolute(url), "Post: the URL cannot be parsed, or has no scheme or no host")
	do := Do[In, struct{}](client, func(ctx context.Context, in In) (*http.Request, error) {
		body, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err == nil {
			r.Header.Set("Content-Type", "application/json")
		}
		return r, err
	})
	return func(ctx context.Context, in In) error {
		_, err := do(ctx, in)
		return err
	}
}

// isAbsolute reports whether a request can be sent to a URL.
func isAbsolute(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && u.Host != ""
}

// Do returns a function for a [stage.Map] that sends each command to a server
// and returns its answer. request makes the request of a command, with the
// given context. A status from 200 to 299 is success: the result is the JSON in
// the body, or the zero value if the body is empty or Out is struct{}. Any
// other status is a [*StatusError].
//
// [Temporary] recognises errors that are worth another try, so it is the If of
// a [stage.RetryPolicy]. A server may have done its work although the client
// got an error: commands that are tried again must be safe to repeat.
//
// When the server answers 429 or 503 with a Retry-After, the function sends no
// request before that time, of a minute at most: until then it fails at once,
// with an error that wraps the *StatusError of that answer, and that
// [stage.Overloaded] reports with the time that is left. A stage with
// [stage.Retry] tries such a command again at that time. It uses up no attempt,
// holds no worker, and the time does not count for the [stage.Timeout]. Without
// Retry the command fails. So all requests of one function should go to one
// server.
//
// The request has the headers of package stage/headers, unless request has set
// them. The function may be called by any number of goroutines. A nil client is
// http.DefaultClient, which has no time limit: set [stage.Timeout]. Do panics
// if request is nil.
func Do[In, Out any](
	client *http.Client, request func(ctx context.Context, in In) (*http.Request, error),
) func(ctx context.Context, in In) (Out, error) {
	need(request != nil, "Do: the function is nil")
	if client == nil {
		client = http.DefaultClient
	}
	var gate gate
	return func(ctx context.Context, in In) (out Out, err error) {
		r, err := request(ctx, in)
		if err != nil {
			return out, err
		}
		if err := gate.refusal(); err != nil {
			return out, err
		}
		headers.Inject(r.Context(), func(name, value string) {
			if r.Header.Get(name) == "" { // the function request has not set it
				r.Header.Set(name, value)
			}
		})
		w, err := client.Do(r)
		if err != nil {
			return out, &sendError{withoutQuery(err), ctx.Err() == nil || errors.Is(context.Cause(ctx), stage.ErrTimeout)}
		}
		defer w.Body.Close() //nolint:errcheck // it is read
		if w.StatusCode < 200 || w.StatusCode > 299 {
			err := newStatusError(r, w)
			if _, overloaded := err.Overload(); overloaded {
				gate.close(err)
			}
			return out, err
		}
		return out, decodeAnswer(w.Body, &out)
	}
}

// withoutQuery cuts the query from the URL of an error of package http, because
// a query may have a token.
func withoutQuery(err error) error {
	failed, is := errors.AsType[*url.Error](err)
	if !is {
		return err
	}
	cut := *failed
	cut.URL, _, _ = strings.Cut(failed.URL, "?")
	return &cut
}

// decodeAnswer reads the body of an answer into out.
func decodeAnswer(from io.Reader, out any) error {
	body, err := io.ReadAll(io.LimitReader(from, mostAnswer+1))
	switch _, none := out.(*struct{}); {
	case err != nil:
		return &sendError{err, true}
	case none, len(bytes.TrimSpace(body)) == 0:
		return nil
	case len(body) > mostAnswer:
		return fmt.Errorf("stagehttp: the answer has more than %d bytes", mostAnswer)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("stagehttp: the answer is not a result: %w", err)
	}
	return nil
}

// StatusError is an answer that is not success.
type StatusError struct {
	Method, URL string        // of the request; the URL is without its query
	Code        int           // the status
	RetryAfter  time.Duration // as the server said, without a bound; 0 if it did not, or said at once
	Body        string        // the first 512 bytes of the answer

	asked bool // the server has said when to try again
}

func newStatusError(r *http.Request, w *http.Response) *StatusError {
	body, _ := io.ReadAll(io.LimitReader(w.Body, mostDetail))
	_, _ = io.CopyN(io.Discard, w.Body, mostAnswer) // so that the connection is reused
	to := url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path}
	pause, asked := parseRetryAfter(w.Header.Get("Retry-After"), time.Now())
	return &StatusError{
		Method: r.Method, URL: to.String(), Code: w.StatusCode, RetryAfter: pause, asked: asked,
		Body: strings.ToValidUTF8(string(body), "\ufffd"),
	}
}

// Error names the request, the status and the beginning of the server's answer.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s %s: %d %s", e.Method, e.URL, e.Code, http.StatusText(e.Code))
	if e.Body != "" {
		text += fmt.Sprintf(": %q", e.Body)
	}
	return text
}

// Overload is for [stage.Overloaded]: 429 and 503 mean that the server has too
// much to do. A 503 without a Retry-After, or with one that is neither a number
// of seconds nor a date, may mean that it tried and failed, so it counts as a
// try.
func (e *StatusError) Overload() (stage.Overload, bool) {
	if e.Code != http.StatusTooManyRequests && e.Code != http.StatusServiceUnavailable {
		return stage.Overload{}, false
	}
	tried := e.Code == http.StatusServiceUnavailable && !e.asked && e.RetryAfter == 0
	return stage.Overload{Reason: PeerOverloaded, RetryAfter: e.RetryAfter, Tried: tried}, true
}

// parseRetryAfter returns how long a server asks to wait, in seconds or until a
// date, and false if it says neither. A number that is too large for an int32
// is the largest.
func parseRetryAfter(text string, now time.Time) (pause time.Duration, asked bool) {
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}

// sendError is the error of a request that was not sent, or not answered in
// full.
type sendError struct {
	err       error
	temporary bool
}

func (e *sendError) Error() string { return e.err.Error() }
func (e *sendError) Unwrap() error { return e.err }

// Temporary reports whether an error of [Post] or [Do] is worth another try. It
// is true for
//
//   - the statuses 408, 425, 429, and those from 500 on except 501 and 505,
//   - requests that could not be sent, and answers that ended early, unless the
//     server's certificate was refused or the command's context has ended,
//   - the time limit of the stage, and any error that [stage.Overloaded] takes
//     for overload.
//
// It is false for all other errors and statuses, for crashes, and for nil.
func Temporary(err error) bool {
	if err == nil || stage.Crashed(err) {
		return false
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		switch status.Code {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return true
		case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
			return false
		default:
			return status.Code >= http.StatusInternalServerError
		}
	}
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); refused {
		return false
	}
	send, ok := errors.AsType[*sendError](err)
	_, overloaded := stage.Overloaded(err)
	return ok && send.temporary || overloaded || errors.Is(err, stage.ErrTimeout)
}

// gate refuses requests until the time that the server named. The zero gate is
// open.
type gate struct{ last atomic.Pointer[closing] }

// closing is an answer that closed a gate.
type closing struct {
	opens  time.Time
	answer *StatusError
}

// close closes the gate for the time that an answer asks for, unless it is
// closed for longer.
func (g *gate) close(answer *StatusError) {
	pause, _ := backoff.Heed(answer.RetryAfter, backoff.LongestAsked)
	if pause <= 0 {
		return
	}
	next := &closing{opens: time.Now().Add(pause), answer: answer}
	for last := g.last.Load(); last == nil || last.opens.Before(next.opens); last = g.last.Load() {
		if g.last.CompareAndSwap(last, next) {
			return
		}
	}
}

// refusal returns the error of a request while the gate is closed.
func (g *gate) refusal() error {
	last := g.last.Load()
	if last == nil {
		return nil
	}
	if left := time.Until(last.opens); left > 0 {
		return &notSentError{last.answer, left}
	}
	return nil
}

// notSentError is the error of a request that was not sent, since the server
// asked for a pause.
type notSentError struct {
	answer *StatusError
	left   time.Duration
}

func (e *notSentError) Error() string {
	return fmt.Sprintf("not sent: %v are left of the pause that the server asked for: %v", e.left.Round(time.Millisecond), e.answer)
}

func (e *notSentError) Unwrap() error { return e.answer }

// Overload is for [stage.Overloaded].
func (e *notSentError) Overload() (stage.Overload, bool) {
	return stage.Overload{Reason: PeerOverloaded, RetryAfter: e.left}, true
}
