package stagehttp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a pipeline, and stops it at the end of the test.
func start(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("test", append(parts, pipeline.Logger(slog.New(slog.DiscardHandler)))...)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		assert.NoError(t, p.Stop(ctx))
		assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
	})
	return p
}

// serve returns the URL of a server with a handler.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	})
	return s.URL
}

// answer is an answer with its body.
type answer struct {
	code   int
	header http.Header
	body   string
}

// send posts a body.
func send(t *testing.T, url, kind, body string) answer {
	t.Helper()
	w, err := http.Post(url, kind, strings.NewReader(body))
	require.NoError(t, err)
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	return answer{w.StatusCode, w.Header, string(text)}
}

type order struct {
	Item string `json:"item"`
}

type receipt struct {
	Item string `json:"item"`
	By   string `json:"by"`
}

func book(_ context.Context, o order) (receipt, error) { return receipt{o.Item, "shop"}, nil }

var errSoldOut = errors.New("sold out")

func TestARequestIsAnsweredWithTheResultOfItsCommand(t *testing.T) {
	s := stage.Map("book", book)
	start(t, s)
	h := stagehttp.New(s.Call)
	got := send(t, serve(t, h), "application/json", `{"Item":"tea"}`)
	assert.Equal(t, http.StatusOK, got.code)
	assert.Equal(t, "application/json", got.header.Get("Content-Type"))
	assert.JSONEq(t, `{"item":"tea","by":"shop"}`, got.body)
	assert.Equal(t, uint64(1), h.Answers(200))
	assert.Zero(t, h.Answers(-1)+h.Answers(1000))
}

func TestAResultWithoutContentIsAnswered204(t *testing.T) {
	s := stage.Sink("drop", func(context.Context, order) error { return nil })
	start(t, s)
	got := send(t, serve(t, stagehttp.New(s.Call)), "application/json", `{}`)
	assert.Equal(t, http.StatusNoContent, got.code)
	assert.Empty(t, got.body)
}

func TestTheStatusSaysWhatWasWrong(t *testing.T) {
	fail := func(err error) func(context.Context, order) (receipt, error) {
		return func(context.Context, order) (receipt, error) { return receipt{}, err }
	}
	deadline, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	for name, c := range map[string]struct {
		call   func(context.Context, order) (receipt, error)
		kind   string
		body   string
		want   int
		detail string
	}{
		"no JSON":                             {book, "application/json", `{"Item":`, 400, "unexpected EOF"},
		"an empty body":                       {book, "application/json", ``, 400, "the body is empty"},
		"two values":                          {book, "application/json", `{}{}`, 400, "the body has more than one JSON value"},
		"text behind the value":               {book, "application/json", `{} x`, 400, "the body has more than one JSON value"},
		"a wrong type":                        {book, "application/json", `{"Item":7}`, 400, "cannot unmarshal number"},
		"a form":                              {book, "application/x-www-form-urlencoded", `a=b`, 415, "send application/json"},
		"a broken content type":               {book, "application/;;", `{}`, 415, "send application/json"},
		"a type with a suffix":                {book, "application/merge-patch+json; charset=utf-8", `{}`, 200, ""},
		"no content type":                     {book, "", `{}`, 415, "the request has no Content-Type: send application/json"},
		"too large":                           {book, "application/json", `{"Item":"` + strings.Repeat("x", 200) + `"}`, 413, "too large"},
		"too large behind the value":          {book, "application/json", `{}` + strings.Repeat(" ", 200), 413, "too large"},
		"a chosen status":                     {fail(errSoldOut), "application/json", `{}`, 409, "sold out"},
		"another error":                       {fail(errors.New("secret")), "application/json", `{}`, 500, ""},
		"full":                                {fail(stage.ErrFull), "application/json", `{}`, 503, ""},
		"rate":                                {fail(stage.ErrRate), "application/json", `{}`, 429, ""},
		"closed":                              {fail(stage.ErrClosed), "application/json", `{}`, 503, ""},
		"draining":                            {fail(fmt.Errorf("a: %w", stage.ErrDraining)), "application/json", `{}`, 503, ""},
		"not running":                         {fail(stage.ErrNotRunning), "application/json", `{}`, 503, ""},
		"stopped":                             {fail(stage.ErrStopped), "application/json", `{}`, 503, ""},
		"a deadline":                          {fail(deadline.Err()), "application/json", `{}`, 504, ""},
		"a time limit":                        {fail(fmt.Errorf("a: %w", stage.ErrTimeout)), "application/json", `{}`, 504, ""},
		"a context that is not the request's": {fail(context.Canceled), "application/json", `{}`, 500, ""},
		"a crash":                             {fail(&stage.CrashError{Value: stage.ErrFull}), "application/json", `{}`, 500, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := stagehttp.New(c.call)
			h.MaxBytes = 100
			h.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			h.Problem = func(err error) (int, string) {
				if errors.Is(err, errSoldOut) {
					return http.StatusConflict, "sold out"
				}
				return 0, "not used"
			}
			got := send(t, serve(t, h), c.kind, c.body)
			require.Equal(t, c.want, got.code, got.body)
			assert.Equal(t, uint64(1), h.Answers(c.want))
			if c.want == 200 {
				assert.Empty(t, log.String())
				return
			}
			assert.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
			var problem struct {
				Title  string `json:"title"`
				Detail string `json:"detail"`
				Reason string `json:"reason"`
				Status int    `json:"status"`
			}
			require.NoError(t, json.Unmarshal([]byte(got.body), &problem))
			assert.Equal(t, c.want, problem.Status)
			assert.Equal(t, http.StatusText(c.want), problem.Title)
			assert.Contains(t, problem.Detail, c.detail)
			if c.detail == "" {
				assert.Empty(t, problem.Detail)
			}
			overloaded := c.want == 503 || c.want == 429
			assert.Equal(t, overloaded, got.header.Get("Retry-After") == "1")
			assert.Equal(t, overloaded, problem.Reason != "")
			assert.Contains(t, log.String(), fmt.Sprint("status=", c.want))
		})
	}
}

func TestAChosenStatusKeepsTheRetryAfterOfAnOverload(t *testing.T) {
	h := stagehttp.New(func(context.Context, order) (receipt, error) { return receipt{}, stage.ErrFull })
	h.Problem = func(error) (int, string) { return http.StatusTooManyRequests, "" }
	got := send(t, serve(t, h), "application/json", `{}`)
	assert.Equal(t, http.StatusTooManyRequests, got.code)
	assert.Equal(t, "1", got.header.Get("Retry-After"))
	assert.Contains(t, got.body, `"reason":"full"`)
	h.Problem = func(error) (int, string) { return http.StatusOK, "" } // not the status of an error
	assert.Equal(t, http.StatusServiceUnavailable, send(t, serve(t, h), "application/json", `{}`).code)
}

func TestACrashIsAnswered500WithoutItsStackOrValue(t *testing.T) {
	for name, f := range map[string]func(context.Context, order) (receipt, error){
		"a panic":  func(context.Context, order) (receipt, error) { panic("password 123") },
		"an error": func(context.Context, order) (receipt, error) { panic(fmt.Errorf("password: %w", stage.ErrFull)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := stage.Map("crash", f)
			start(t, s)
			got := send(t, serve(t, stagehttp.New(s.Call)), "application/json", `{}`)
			require.Equal(t, http.StatusInternalServerError, got.code)
			assert.JSONEq(t, `{"title":"Internal Server Error","status":500}`, got.body)
		})
	}
}

func TestAFullStageAnswers503WithRetryAfterAtOnce(t *testing.T) {
	open := make(chan struct{})
	s := stage.Map("slow", func(_ context.Context, o order) (receipt, error) { <-open; return receipt{Item: o.Item}, nil },
		stage.Workers(1, 1), stage.Capacity(1), stage.Overflow(overflow.Reject))
	start(t, s)
	h := stagehttp.New(s.Call)
	url := serve(t, h)
	codes := make(chan int, 2)
	for i := range 2 { // one is handled, one is queued
		go func() {
			w, err := http.Post(url, "application/json", strings.NewReader(`{}`))
			if err != nil {
				codes <- 0
				return
			}
			w.Body.Close()
			codes <- w.StatusCode
		}()
		require.Eventually(t, func() bool { sn := s.Snapshot(); return sn.Queue.InHand >= 1 && sn.Queue.InHand+sn.Queue.Queued == i+1 }, time.Minute, time.Millisecond)
	}
	got := send(t, url, "application/json", `{}`)
	close(open)
	assert.Equal(t, http.StatusServiceUnavailable, got.code)
	assert.Equal(t, "1", got.header.Get("Retry-After"))
	assert.Contains(t, got.body, `"reason":"full"`)
	assert.Equal(t, 200, <-codes)
	assert.Equal(t, 200, <-codes)
}

func TestTheTimeoutOfAHandlerEndsTheCommand(t *testing.T) {
	h := stagehttp.New(func(ctx context.Context, _ order) (receipt, error) { // a stage may end the command before its handler begins
		<-ctx.Done()
		return receipt{}, ctx.Err()
	})
	h.Timeout = time.Millisecond
	assert.Equal(t, http.StatusGatewayTimeout, send(t, serve(t, h), "application/json", `{}`).code)
}

func TestAHandlerThatIsStuckPastTheTimeLimitOfItsStageIs504(t *testing.T) {
	open := make(chan struct{})
	s := stage.Map("stuck", func(context.Context, order) (receipt, error) { <-open; return receipt{}, nil },
		stage.Timeout(time.Millisecond), stage.Grace(time.Millisecond))
	start(t, s)
	got := send(t, serve(t, stagehttp.New(s.Call)), "application/json", `{}`)
	close(open)
	assert.Equal(t, http.StatusGatewayTimeout, got.code)
}

func TestAClientThatGoesAwayEndsItsCommandAndIsCounted(t *testing.T) {
	started, ended := make(chan struct{}), make(chan struct{})
	s := stage.Map("wait", func(ctx context.Context, _ order) (receipt, error) {
		close(started)
		<-ctx.Done()
		close(ended)
		return receipt{}, ctx.Err()
	})
	start(t, s)
	h := stagehttp.New(s.Call)
	var log bytes.Buffer
	h.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	url := serve(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	go func() { <-started; cancel() }()
	_, err = http.DefaultClient.Do(r) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, context.Canceled)
	<-ended
	require.Eventually(t, func() bool { return h.Answers(499) == 1 }, time.Minute, time.Millisecond)
	assert.Contains(t, log.String(), "status=499")
}

func TestAnAcceptedCommandContinuesWhenItsClientGoesAway(t *testing.T) {
	open, done := make(chan struct{}), make(chan error, 1)
	s := stage.Sink("job", func(ctx context.Context, _ order) error { <-open; done <- ctx.Err(); return nil })
	start(t, s)
	url := serve(t, stagehttp.Accept(s.Submit))
	got := send(t, url, "application/json", `{}`)
	assert.Equal(t, http.StatusAccepted, got.code)
	assert.Empty(t, got.body)
	close(open)
	require.NoError(t, <-done)
}

func TestASlowBodyIsAnswered408(t *testing.T) {
	s := httptest.NewUnstartedServer(stagehttp.New(book))
	s.Config.ReadTimeout = 50 * time.Millisecond
	s.Start()
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	w, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer w.Body.Close()
	assert.Equal(t, http.StatusRequestTimeout, w.StatusCode)
}

func TestAResultThatCannotBeEncodedIs500(t *testing.T) {
	h := stagehttp.New(func(context.Context, order) (func(), error) { return func() {}, nil })
	assert.Equal(t, http.StatusInternalServerError, send(t, serve(t, h), "application/json", `{}`).code)
}

func TestAnAnswerThatFailsHalfwayIsAborted(t *testing.T) {
	h := stagehttp.New(book)
	h.Encode = func(w http.ResponseWriter, _ receipt) error {
		_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
		return errors.New("the rest is missing")
	}
	s := httptest.NewServer(h)
	defer s.Close()
	w, err := http.Post(s.URL, "application/json", strings.NewReader(`{}`))
	require.NoError(t, err)
	defer w.Body.Close()
	_, err = io.ReadAll(w.Body)
	require.Error(t, err)
	assert.Equal(t, uint64(1), h.Answers(500))
}

func TestAPanicOfAFunctionOfTheHandlerIsAnswered500AndLoggedWithEndpointAndStack(t *testing.T) {
	type handler = stagehttp.Handler[order, receipt]
	for name, set := range map[string]func(h *handler){
		"Decode":  func(h *handler) { h.Decode = func(*http.Request) (order, error) { panic("password 123") } },
		"Encode":  func(h *handler) { h.Encode = func(http.ResponseWriter, receipt) error { panic("password 123") } },
		"Problem": func(h *handler) { h.Problem = func(error) (int, string) { panic("password 123") } },
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := stagehttp.New(func(_ context.Context, o order) (receipt, error) {
				if name == "Problem" {
					return receipt{}, errSoldOut
				}
				return receipt{o.Item, "shop"}, nil
			})
			h.Log = slog.New(slog.NewTextHandler(&log, nil))
			set(h)
			mux := http.NewServeMux()
			mux.Handle("POST /orders/{id}", h)
			got := send(t, serve(t, mux)+"/orders/7", "application/json", `{}`)
			assert.Equal(t, 500, got.code)
			assert.NotContains(t, got.body, "password")
			assert.Equal(t, uint64(1), h.Answers(500))
			line := log.String()
			assert.Equal(t, 1, strings.Count(line, "\n"), line)
			for _, want := range []string{"level=ERROR", "path=/orders/7", `endpoint="POST /orders/{id}"`, "password 123", "handler_test.go", "status=500"} {
				assert.Contains(t, line, want)
			}
			if name == "Problem" {
				assert.Contains(t, line, "sold out", "the error that was to be answered is not lost")
			}
		})
	}
}

func TestAPanicWithoutALogGoesToTheDefaultLog(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	h := stagehttp.New(book)
	h.Decode = func(*http.Request) (order, error) { panic("decode") }
	assert.Equal(t, 500, send(t, serve(t, h), "", "").code)
	assert.Contains(t, log.String(), "decode")
}

func TestAPanicWithErrAbortHandlerAbortsTheConnectionAndIsNotLogged(t *testing.T) {
	var log bytes.Buffer
	h := stagehttp.New(book)
	h.Log = slog.New(slog.NewTextHandler(&log, nil))
	h.Encode = func(http.ResponseWriter, receipt) error { panic(http.ErrAbortHandler) }
	stream := stagehttp.Stream(func(context.Context, order) (receipt, error) { panic(http.ErrAbortHandler) })
	stream.Log = h.Log
	for _, at := range []http.Handler{h, stream} {
		_, err := http.Post(serve(t, at), "application/json", strings.NewReader(`{}`)) //nolint:bodyclose // there is no answer
		require.ErrorIs(t, err, io.EOF)
	}
	assert.Empty(t, log.String())
	assert.Equal(t, uint64(1), h.Answers(500))
	assert.Equal(t, uint64(1), stream.Answers(500))
}

func TestWhatAClientSendsIsNotEchoedInFull(t *testing.T) {
	var log bytes.Buffer
	h := stagehttp.New(book)
	h.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	url := serve(t, h)
	long := strings.Repeat("9", 100_000)
	for name, c := range map[string]struct {
		path, kind, body string
		code             int
	}{
		"a content type": {"/", "text/" + long, `{}`, 415},
		"a number":       {"/", "application/json", `{"item":` + long + `}`, 400},
		"a path":         {"/" + long, "application/json", `[]`, 400},
	} {
		log.Reset()
		got := send(t, url+c.path, c.kind, c.body)
		assert.Equal(t, c.code, got.code, name)
		assert.Less(t, len(got.body), 1024, name)
		assert.Less(t, log.Len(), 2048, name)
		assert.NotZero(t, log.Len(), name)
	}
}

func TestANegativeTimeoutIsAnswered500AndLogged(t *testing.T) {
	var log bytes.Buffer
	h := stagehttp.New(book)
	h.Timeout, h.Log = -1, slog.New(slog.NewTextHandler(&log, nil))
	assert.Equal(t, 500, send(t, serve(t, h), "application/json", `{}`).code)
	assert.Contains(t, log.String(), "stagehttp: the Timeout of the Handler is negative: -1ns; use 0 for no limit")
}

func TestDecodeAndEncodeReplaceJSON(t *testing.T) {
	h := stagehttp.New(book)
	h.Decode = func(r *http.Request) (order, error) {
		if item := r.URL.Query().Get("item"); item != "" {
			return order{item}, nil
		}
		return order{}, errSoldOut
	}
	h.Encode = func(w http.ResponseWriter, out receipt) error {
		w.WriteHeader(http.StatusCreated)
		_, err := io.WriteString(w, out.Item+" by "+out.By)
		return err
	}
	h.Problem = func(err error) (int, string) {
		if errors.Is(err, errSoldOut) {
			return http.StatusGone, ""
		}
		return 0, ""
	}
	url := serve(t, h)
	got := send(t, url+"?item=tea", "", "")
	assert.Equal(t, http.StatusCreated, got.code)
	assert.Equal(t, "tea by shop", got.body)
	assert.Equal(t, uint64(1), h.Answers(201))
	assert.Equal(t, http.StatusGone, send(t, url, "", "").code)
}

func TestAThousandRequestsAtOnceAreEachAnsweredWithTheirOwnResult(t *testing.T) {
	first := stage.Map("first", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	second := stage.Map("second", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	line := stage.Chain(first, second)
	p := start(t, line)
	h := stagehttp.New(line.Call)
	url := serve(t, h)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 100, MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	const n = 1000
	var wrong atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			w, err := client.Post(url, "application/json", strings.NewReader(strconv.Itoa(i)))
			if err != nil {
				wrong.Add(1)
				return
			}
			defer w.Body.Close()
			var got int
			if json.NewDecoder(w.Body).Decode(&got) != nil || w.StatusCode != http.StatusOK || got != 2*i+1 {
				wrong.Add(1)
			}
		})
	}
	all.Wait()
	assert.Zero(t, wrong.Load())
	assert.Equal(t, uint64(n), h.Answers(200))
	assert.Equal(t, uint64(n), p.Snapshot().Replied)
}

func TestAWrongUseOfTheConstructorsPanics(t *testing.T) {
	assert.PanicsWithValue(t, "stagehttp: New: the function is nil", func() { stagehttp.New[order, receipt](nil) })
	assert.PanicsWithValue(t, "stagehttp: Accept: the function is nil", func() { stagehttp.Accept[order](nil) })
	assert.PanicsWithValue(t, "stagehttp: Stream: the function is nil", func() { stagehttp.Stream[order, receipt](nil) })
	assert.PanicsWithValue(t, "stagehttp: make a Handler with New, Accept or Stream", func() {
		new(stagehttp.Handler[order, receipt]).ServeHTTP(httptest.NewRecorder(), nil)
	})
}

// A gateway does not pass on that a peer of it asks for 68 years.
func TestARetryAfterIsAMinuteAtMost(t *testing.T) {
	var log bytes.Buffer
	peer := stage.Map("peer", stagehttp.Do[order, order](answering(503, "", "Retry-After", "2147483647"),
		func(ctx context.Context, _ order) (*http.Request, error) {
			return http.NewRequestWithContext(ctx, http.MethodGet, "http://peer", nil)
		}))
	start(t, peer)
	h := stagehttp.New(peer.Call)
	h.Log = slog.New(slog.NewTextHandler(&log, nil))
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "60", w.Header().Get("Retry-After"))
	require.Contains(t, log.String(), "retry_after=1m0s")
}
