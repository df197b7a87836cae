package stagehttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// transport answers requests without a network.
type transport func(r *http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering returns a client each of whose requests is answered with a status and headers.
func answering(code int, body string, header ...string) *http.Client {
	return &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
		return response(code, body, header...), nil
	})}
}

func response(code int, body string, header ...string) *http.Response {
	w := httptest.NewRecorder()
	for i := 0; i+1 < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
	return w.Result()
}

func TestTheStatusOfAnAnswerSaysWhetherToTryAgain(t *testing.T) {
	for code, temporary := range map[int]bool{
		400: false, 401: false, 403: false, 404: false, 408: true, 409: false, 413: false, 422: false, 425: true, 429: true,
		500: true, 501: false, 502: true, 503: true, 504: true, 505: false, 304: false,
	} {
		err := stagehttp.Post[order](answering(code, "why"), "http://user:secret@host/path?key=secret")(t.Context(), order{})
		status, ok := errors.AsType[*stagehttp.StatusError](err)
		require.True(t, ok, "%d: %v", code, err)
		assert.Equal(t, code, status.Code)
		assert.Equal(t, fmt.Sprintf("POST http://host/path: %d %s: \"why\"", code, http.StatusText(code)), err.Error())
		assert.Equal(t, temporary, stagehttp.Temporary(fmt.Errorf("stage: %w", err)), code)
		o, overloaded := stage.Overloaded(err)
		assert.Equal(t, code == 429 || code == 503, overloaded)
		if overloaded {
			assert.Equal(t, stage.Overload{Reason: stagehttp.PeerOverloaded, RetryAfter: time.Second, Tried: code == 503}, o)
		}
	}
}

func TestErrorsOfTheNetworkAreTriedAgainAndOthersAreNot(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	refused := stagehttp.Post[order](nil, "http://"+l.Addr().String())(t.Context(), order{})
	require.Error(t, refused)
	assert.True(t, stagehttp.Temporary(refused))

	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	unknown := stagehttp.Post[order](nil, secure.URL)(t.Context(), order{})
	require.Error(t, unknown)
	assert.False(t, stagehttp.Temporary(unknown), "a certificate that is refused")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left := stagehttp.Post[order](nil, "http://"+l.Addr().String())(ctx, order{})
	require.ErrorIs(t, left, context.Canceled)
	assert.False(t, stagehttp.Temporary(left), "a caller that has gone")

	late, cancelLate := context.WithTimeoutCause(t.Context(), 0, stage.ErrTimeout)
	defer cancelLate()
	<-late.Done()
	assert.True(t, stagehttp.Temporary(stagehttp.Post[order](nil, "http://"+l.Addr().String())(late, order{})), "the stage's time limit")

	for _, err := range []error{nil, errors.New("other"), &stage.CrashError{Value: stage.ErrFull}} {
		assert.False(t, stagehttp.Temporary(err))
	}
	assert.True(t, stagehttp.Temporary(stage.ErrFull))
}

func TestDoReturnsTheAnswer(t *testing.T) {
	request := func(ctx context.Context, o order) (*http.Request, error) {
		if o.Item == "" {
			return nil, errSoldOut
		}
		return http.NewRequestWithContext(ctx, http.MethodGet, "http://host/"+o.Item, http.NoBody)
	}
	do := func(client *http.Client) (receipt, error) {
		return stagehttp.Do[order, receipt](client, request)(t.Context(), order{"tea"})
	}
	got, err := do(answering(200, `{"By":"shop"}`))
	require.NoError(t, err)
	assert.Equal(t, receipt{By: "shop"}, got)
	got, err = do(answering(204, ""))
	require.NoError(t, err)
	assert.Zero(t, got)
	_, err = do(answering(200, "<html>"))
	require.ErrorContains(t, err, "the answer is not a result")
	assert.False(t, stagehttp.Temporary(err))
	_, err = do(answering(200, `"`+string(bytes.Repeat([]byte("x"), 17<<20))))
	require.ErrorContains(t, err, "more than")
	_, err = stagehttp.Do[order, receipt](nil, request)(t.Context(), order{})
	require.ErrorIs(t, err, errSoldOut)
	assert.PanicsWithValue(t, "stagehttp: Do: the function is nil", func() { stagehttp.Do[order, receipt](nil, nil) })
}

func TestAnAnswerThatEndsEarlyIsTriedAgain(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{`)
	}))
	defer s.Close()
	_, err := stagehttp.Do[order, receipt](nil, func(ctx context.Context, _ order) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
	})(t.Context(), order{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.True(t, stagehttp.Temporary(err))
	http.DefaultClient.CloseIdleConnections()
}

func TestACommandThatIsNotJSONIsNotSent(t *testing.T) {
	err := stagehttp.Post[func()](answering(200, ""), "http://host")(t.Context(), nil)
	require.Error(t, err)
	assert.False(t, stagehttp.Temporary(err))
}

func TestNoRequestIsSentBeforeTheTimeOfARetryAfter(t *testing.T) {
	date := func(after time.Duration) string { return time.Now().Add(after).UTC().Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		header func() string
		code   int
		want   time.Duration
	}{
		"seconds":        {func() string { return "20" }, 503, 20 * time.Second},
		"429":            {func() string { return "5" }, 429, 5 * time.Second},
		"a date":         {func() string { return date(30 * time.Second) }, 503, 30 * time.Second},
		"a date in past": {func() string { return date(-time.Hour) }, 503, 0},
		"none":           {func() string { return "" }, 503, 0},
		"nonsense":       {func() string { return "soon" }, 503, 0},
		"negative":       {func() string { return "-3" }, 503, 0},
		"at once":        {func() string { return "0" }, 503, 0},
		"too large":      {func() string { return "99999999999999999999" }, 503, time.Minute},
		"an hour":        {func() string { return "3600" }, 503, time.Minute},
		"not overloaded": {func() string { return "20" }, 500, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var at []time.Duration
				var mu sync.Mutex
				client := &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
					mu.Lock()
					defer mu.Unlock()
					at = append(at, time.Since(begin))
					if len(at) == 1 {
						return response(c.code, "", "Retry-After", c.header()), nil
					}
					return response(200, ""), nil
				})}
				post := stagehttp.Post[order](client, "http://host")
				require.Error(t, post(t.Context(), order{}))
				if c.want > 0 {
					requireNotSent(t, post(t.Context(), order{}), c.code, c.want)
					time.Sleep(c.want - 1)
					requireNotSent(t, post(t.Context(), order{}), c.code, 1)
					time.Sleep(1)
				}
				require.NoError(t, post(t.Context(), order{}))
				assert.Equal(t, c.want, at[len(at)-1])
			})
		})
	}
}

// requireNotSent requires the refusal of a request that was not sent, since the last answer, of a status, asks for a pause.
func requireNotSent(t *testing.T, err error, code int, left time.Duration) {
	t.Helper()
	o, _ := stage.Overloaded(err)
	require.Equal(t, stage.Overload{Reason: stagehttp.PeerOverloaded, RetryAfter: left}, o, "%v", err)
	require.True(t, stagehttp.Temporary(err))
	status, _ := errors.AsType[*stagehttp.StatusError](err)
	require.Equal(t, code, status.Code)
	require.EqualError(t, err, fmt.Sprintf("not sent: %v are left of the pause that the server asked for: %v",
		left.Round(time.Millisecond), status))
}

// A server that says when to try again has refused the request, even if it says at once.
func TestAnAnswerWithARetryAfterUsesUpNoAttempt(t *testing.T) {
	past := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	for header, refused := range map[string]bool{"0": true, past: true, "1": true, "99999999999999999999": true, "": false, "-5": false, "1.5": false, "soon": false} {
		t.Run(header, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				client := &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
					if sent++; sent <= 5 {
						return response(503, "", "Retry-After", header), nil
					}
					return response(200, ""), nil
				})}
				save := stage.Sink("save", stagehttp.Post[order](client, "http://host"), stage.Workers(1, 1),
					stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond, If: stagehttp.Temporary}))
				p, err := pipeline.New("test", save, pipeline.Logger(slog.New(slog.DiscardHandler)))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				_, err = save.Call(t.Context(), order{"tea"})
				if refused {
					require.NoError(t, err)
				} else {
					require.Error(t, err)
					require.Equal(t, 3, sent)
				}
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

func TestCommandsOutlastARetryAfterThatIsLongerThanTheTimeLimitOfTheStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var sent, stored atomic.Int64
		client := &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			sent.Add(1)
			if time.Since(begin) < 30*time.Second {
				return response(503, "", "Retry-After", "30"), nil
			}
			stored.Add(1)
			return response(200, ""), nil
		})}
		save := stage.Sink("save", stagehttp.Post[order](client, "http://host"), stage.Workers(2, 2), stage.Timeout(5*time.Second),
			stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: 100 * time.Millisecond, If: stagehttp.Temporary}))
		p, err := pipeline.New("test", save, pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				_, err := save.Call(t.Context(), order{"tea"})
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Equal(t, int64(5), stored.Load())
		assert.LessOrEqual(t, sent.Load(), int64(7), "one refused request for each worker")
		assert.Less(t, time.Since(begin), 32*time.Second)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestASinkTriesAgainUntilTheServerTakesTheCommand(t *testing.T) {
	var tries, stored atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o order
		if json.NewDecoder(r.Body).Decode(&o) != nil || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		switch n := tries.Add(1); {
		case o.Item == "bad":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case n%3 == 0:
			w.WriteHeader(http.StatusBadGateway)
		case n%5 == 0:
			panic(http.ErrAbortHandler)
		default:
			stored.Add(1)
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer s.Close()
	defer http.DefaultClient.CloseIdleConnections()
	save := stage.Sink("save", stagehttp.Post[order](nil, s.URL),
		stage.Retry(stage.RetryPolicy{Attempts: 20, If: stagehttp.Temporary}))
	start(t, save)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_, err := save.Call(t.Context(), order{"tea"})
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Equal(t, int64(100), stored.Load())
	before := tries.Load()
	_, err := save.Call(t.Context(), order{"bad"})
	status, ok := errors.AsType[*stagehttp.StatusError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, http.StatusUnprocessableEntity, status.Code)
	assert.Equal(t, before+1, tries.Load(), "a permanent error was tried again")
}
