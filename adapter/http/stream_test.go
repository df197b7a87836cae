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
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// counting is a pipeline that answers n with n rows, the numbers from 0; with -n it fails after n rows.
func counting(t *testing.T, row func(ctx context.Context, n int) error, opts ...stage.Option) *stage.Flow[int, int] {
	t.Helper()
	count := stage.FlatMap("count", func(_ context.Context, n int, emit func(int) error) error {
		for i := range n {
			if err := emit(i); err != nil {
				return err
			}
		}
		return nil
	})
	start(t, count.To(stage.Sink("rows", row, opts...)))
	return count
}

// get gets a stream, and returns the error with which it ended.
func get(t *testing.T, url, accept string, n int) (answer, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(strconv.Itoa(n)))
	require.NoError(t, err)
	r.Header.Set("Accept", accept)
	r.Header.Set("Content-Type", "application/json")
	w, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	return answer{w.StatusCode, w.Header, string(text)}, err
}

func TestAStreamIsOneResultALine(t *testing.T) {
	for _, n := range []int{0, 1, 3, 1000} {
		count := counting(t, stagehttp.Send[int], stage.Workers(1, 1))
		h := stagehttp.Stream(count.Call)
		got, err := get(t, serve(t, h), "", n)
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, got.code)
		assert.Equal(t, "application/x-ndjson", got.header.Get("Content-Type"))
		var want strings.Builder
		for i := range n {
			fmt.Fprintln(&want, i)
		}
		assert.Equal(t, want.String(), got.body)
		assert.Equal(t, uint64(1), h.Answers(200))
	}
}

func TestServerSentEventsEndWithAnEnd(t *testing.T) {
	count := counting(t, stagehttp.Send[int], stage.Workers(1, 1))
	url := serve(t, stagehttp.Stream(count.Call))
	got, err := get(t, url, "text/event-stream", 2)
	require.NoError(t, err)
	assert.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
	assert.Equal(t, "data: 0\n\ndata: 1\n\nevent: end\ndata: null\n\n", got.body)
	got, err = get(t, url, "text/event-stream", 0)
	require.NoError(t, err)
	assert.Equal(t, "event: end\ndata: null\n\n", got.body)
}

func TestAResultReachesTheClientBeforeTheNextIsMade(t *testing.T) {
	next := make(chan struct{})
	s := stage.Sink("rows", func(ctx context.Context, n int) error {
		for i := range n {
			if err := stagehttp.Send(ctx, i); err != nil {
				return err
			}
			<-next
		}
		return nil
	})
	start(t, s)
	for _, accept := range []string{"", "text/event-stream"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, serve(t, stagehttp.Stream(s.Call)), strings.NewReader("3"))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", accept)
		w, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		lines := bufio.NewReader(w.Body)
		for i := range 3 {
			line, err := lines.ReadString('\n')
			for line == "\n" {
				line, err = lines.ReadString('\n')
			}
			require.NoError(t, err)
			assert.Contains(t, line, strconv.Itoa(i))
			next <- struct{}{}
		}
		_, err = io.ReadAll(lines)
		require.NoError(t, err)
		w.Body.Close()
	}
}

func TestTheAcceptHeaderChoosesEvents(t *testing.T) {
	h := stagehttp.Stream(counting(t, stagehttp.Send[int]).Call)
	for accept, want := range map[string]string{
		"":                                   "application/x-ndjson",
		"*/*":                                "application/x-ndjson",
		"text/event-stream":                  "text/event-stream",
		"Text/Event-Stream; charset=utf-8":   "text/event-stream",
		"text/html, text/event-stream;q=0.1": "text/event-stream",
		"text/event-stream;q=0, */*":         "application/x-ndjson",
		"text/event-stream; q=0.000":         "application/x-ndjson",
		"text/event-stream;q=0,text/event-stream": "text/event-stream",
		"text/event-streams":                      "application/x-ndjson",
		", ;, text/event-stream;q=":               "application/x-ndjson",
	} {
		t.Run(accept, func(t *testing.T) {
			got, err := get(t, serve(t, h), accept, 1)
			require.NoError(t, err)
			require.Contains(t, got.header.Get("Content-Type"), want)
		})
	}
}

func TestAStreamThatFailsBeforeItsFirstResultHasAStatus(t *testing.T) {
	count := counting(t, func(context.Context, int) error { return stage.ErrFull })
	h := stagehttp.Stream(count.Call)
	for _, accept := range []string{"", "text/event-stream"} {
		got, err := get(t, serve(t, h), accept, 1)
		require.NoError(t, err)
		assert.Equal(t, http.StatusServiceUnavailable, got.code)
		assert.Equal(t, "1", got.header.Get("Retry-After"))
		assert.Contains(t, got.body, `"reason":"full"`)
	}
	w, err := http.Post(serve(t, h), "application/json", strings.NewReader("x"))
	require.NoError(t, err)
	defer w.Body.Close()
	assert.Equal(t, http.StatusBadRequest, w.StatusCode)
}

func TestAStreamThatFailsAfterAResultDoesNotLookComplete(t *testing.T) {
	count := counting(t, func(ctx context.Context, i int) error {
		if i == 2 {
			panic("secret")
		}
		return stagehttp.Send(ctx, i)
	}, stage.Workers(1, 1))
	h := stagehttp.Stream(count.Call)
	url := serve(t, h)
	const problem = `{"title":"Internal Server Error","status":500}`
	got, err := get(t, url, "", 3)
	require.Error(t, err, "the answer is complete: %s", got.body)
	assert.Equal(t, http.StatusOK, got.code)
	assert.Equal(t, "0\n1\n{\"problem\":"+problem+"}\n", got.body)
	got, err = get(t, url, "text/event-stream", 3)
	require.NoError(t, err)
	assert.Equal(t, "data: 0\n\ndata: 1\n\nevent: problem\ndata: "+problem+"\n\n", got.body)
	assert.Equal(t, uint64(2), h.Answers(500))
	assert.Zero(t, h.Answers(200))
}

func TestAClientThatLeavesAStreamEndsItsCommand(t *testing.T) {
	ended := make(chan error, 1)
	s := stage.Sink("rows", func(ctx context.Context, _ int) error {
		for i := 0; ; i++ {
			if err := stagehttp.Send(ctx, i); err != nil {
				ended <- err
				return err
			}
		}
	})
	start(t, s)
	h := stagehttp.Stream(s.Call)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, serve(t, h), strings.NewReader("1"))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	w, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	_, err = bufio.NewReader(w.Body).ReadString('\n')
	require.NoError(t, err)
	cancel()
	w.Body.Close()
	require.Error(t, <-ended)
	require.Eventually(t, func() bool { return h.Answers(499) == 1 }, time.Minute, time.Millisecond)
}

func TestAClientThatReadsNothingIsDroppedAndItsWorkerFreed(t *testing.T) {
	ended := make(chan error, 1)
	s := stage.Sink("rows", func(ctx context.Context, _ int) error {
		for {
			if err := stagehttp.Send(ctx, strings.Repeat("x", 1<<16)); err != nil {
				<-ctx.Done()
				ended <- err
				return err
			}
		}
	}, stage.Workers(1, 1))
	start(t, s)
	h := stagehttp.Stream(s.Call)
	h.WriteTimeout = 100 * time.Millisecond
	server := httptest.NewServer(h)
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n1")
	require.NoError(t, err)
	require.Error(t, <-ended)
	require.Eventually(t, func() bool { return h.Answers(499) == 1 }, time.Minute, time.Millisecond)
}

// one returns a request with the command 1.
func one() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("1"))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// broken is a ResponseWriter that cannot write, or panics.
type broken struct {
	http.ResponseWriter
	panics bool
}

func (w broken) Write([]byte) (int, error) {
	if w.panics {
		panic("writer")
	}
	return 0, io.ErrClosedPipe
}

func TestACommandEndsWhenItsResultsCannotBeWritten(t *testing.T) {
	for _, panics := range []bool{false, true} {
		h := stagehttp.Stream(func(ctx context.Context, _ int) (int, error) {
			if err := stagehttp.Send(ctx, 1); err != nil {
				return 0, err
			}
			<-ctx.Done() // ServeHTTP returns when this function has
			return 0, ctx.Err()
		})
		assert.Panics(t, func() {
			h.ServeHTTP(broken{httptest.NewRecorder(), panics}, one())
		})
	}
}

func TestAConnectionCanBeUsedAgainAfterAStream(t *testing.T) {
	count := counting(t, stagehttp.Send[int], stage.Workers(1, 1))
	h := stagehttp.Stream(count.Call)
	h.WriteTimeout = 50 * time.Millisecond
	var connections int
	var mu sync.Mutex
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if s == http.StateNew {
			connections++
		}
	}
	server.Start()
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for range 3 {
		got, err := get(t, server.URL, "text/event-stream", 1)
		require.NoError(t, err)
		require.Equal(t, "data: 0\n\nevent: end\ndata: null\n\n", got.body)
		time.Sleep(100 * time.Millisecond) // the limit of the last write passes
	}
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, 1, connections)
}

func TestSendOutsideAStreamIsAnError(t *testing.T) {
	require.ErrorIs(t, stagehttp.Send(t.Context(), 1), stagehttp.ErrNoStream)
}

func TestSendAfterTheEndOfTheAnswerIsAnError(t *testing.T) {
	var late context.Context
	h := stagehttp.Stream(func(ctx context.Context, _ int) (int, error) {
		late = context.WithoutCancel(ctx) //nolint:fatcontext // it is used after the request
		return 0, stagehttp.Send(ctx, 1)
	})
	got, err := get(t, serve(t, h), "", 1)
	require.NoError(t, err)
	assert.Equal(t, "1\n", got.body)
	for range 2 * 64 { // more than are buffered
		require.ErrorIs(t, stagehttp.Send(late, 1), stagehttp.ErrStreamOver)
	}
}

func TestAResultThatIsNotJSONFailsItsCommand(t *testing.T) {
	s := stage.Sink("rows", func(ctx context.Context, _ int) error { return stagehttp.Send(ctx, func() {}) })
	start(t, s)
	got, err := get(t, serve(t, stagehttp.Stream(s.Call)), "", 1)
	require.NoError(t, err)
	assert.Equal(t, http.StatusInternalServerError, got.code)
}

func TestAFunctionThatPanicsOrEndsItsGoroutineEndsOnlyItsRequest(t *testing.T) {
	for name, f := range map[string]func(context.Context, int) (int, error){
		"panics":             func(context.Context, int) (int, error) { panic("stream") },
		"panics with nil":    func(context.Context, int) (int, error) { panic(nil) },
		"ends its goroutine": func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil },
	} {
		var log bytes.Buffer
		h := stagehttp.Stream(f)
		h.Log = slog.New(slog.NewTextHandler(&log, nil))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, one())
		assert.Equal(t, http.StatusInternalServerError, w.Code, name)
		if strings.HasPrefix(name, "panics") {
			assert.Contains(t, log.String(), "stream_test.go", "%s: the stack is that of the function", name)
		}
	}
}

// pipes is a listener whose connections are pairs of [net.Pipe], whose time limits follow the clock of a synctest bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestAStreamThatPausesLongerThanItsWriteTimeoutEndsWell(t *testing.T) {
	for _, accept := range []string{"", "text/event-stream"} {
		for _, limit := range []time.Duration{0, time.Second, -1} {
			for _, rows := range []int{0, 1, 2} {
				t.Run(fmt.Sprintf("%s, %v, %d rows", accept, limit, rows), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { streamWithPauses(t, accept, limit, rows) })
				})
			}
		}
	}
}

func streamWithPauses(t *testing.T, accept string, limit time.Duration, rows int) {
	t.Helper()
	h := stagehttp.Stream(func(ctx context.Context, _ int) (int, error) {
		for i := range rows {
			if err := stagehttp.Send(ctx, i); err != nil {
				return 0, err
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Minute)
		return 0, nil
	})
	h.WriteTimeout = limit
	server := &http.Server{Handler: h, WriteTimeout: 30 * time.Second}
	l := make(pipes, 1)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	client, conn := net.Pipe()
	l <- conn
	_, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1\r\nAccept: "+accept+"\r\n\r\n1")
	require.NoError(t, err)
	w, err := http.ReadResponse(bufio.NewReader(client), nil)
	if assert.NoError(t, err) {
		text, err := io.ReadAll(w.Body)
		assert.NoError(t, err, "%q", text)
		if accept == "" {
			assert.Equal(t, "0\n1\n"[:2*rows], string(text))
		}
	}
	require.NoError(t, client.Close())
	close(l)
	<-served
	require.NoError(t, server.Close())
}

func TestManyStreamsAtOnceDoNotMix(t *testing.T) {
	type row struct {
		Of int `json:"of"`
		N  int `json:"n"`
	}
	rows := stage.Sink("rows", stagehttp.Send[row], stage.Blocking(), stage.Workers(8, 8))
	count := stage.FlatMap("count", func(_ context.Context, of int, emit func(row) error) error {
		for i := range of {
			if err := emit(row{of, i}); err != nil {
				return err
			}
		}
		return nil
	})
	start(t, count.To(rows), pipeline.Grace(time.Second))
	url := serve(t, stagehttp.Stream(count.Call))
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 50}}
	defer client.CloseIdleConnections()
	errs := make(chan error, 200)
	for of := range cap(errs) {
		go func() {
			errs <- func() error {
				w, err := client.Post(url, "application/json", strings.NewReader(strconv.Itoa(of)))
				if err != nil {
					return err
				}
				defer w.Body.Close()
				seen := map[int]bool{}
				for from := json.NewDecoder(w.Body); ; {
					var r row
					if err := from.Decode(&r); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						return err
					}
					if r.Of != of || seen[r.N] {
						return fmt.Errorf("stream %d got %+v", of, r)
					}
					seen[r.N] = true
				}
				if len(seen) != of {
					return fmt.Errorf("stream %d got %d rows", of, len(seen))
				}
				return nil
			}()
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
}
