package stagehttp_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// site is a server and a pipeline that Serve runs.
type site struct {
	*pipeline.Pipeline
	url  string
	stop context.CancelFunc
	ran  chan error
}

func run(t *testing.T, h http.Handler, parts ...pipeline.Part) *site {
	t.Helper()
	p, err := pipeline.New("site", append(parts, pipeline.Logger(slog.New(slog.DiscardHandler)))...)
	require.NoError(t, err)
	l := listen(t)
	ctx, stop := context.WithCancel(context.Background())
	s := &site{p, "http://" + l.Addr().String(), stop, make(chan error, 1)}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { s.ran <- stagehttp.Serve(ctx, l, server, p) }()
	t.Cleanup(stop)
	return s
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// refuses waits until the server accepts no more connections.
func (s *site) refuses(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, time.Minute, time.Millisecond)
}

func TestTheServerStopsFirstAndThePipelineCompletesItsRequests(t *testing.T) {
	open := make(chan struct{})
	var done atomic.Int64
	s := stage.Map("slow", func(_ context.Context, o order) (receipt, error) {
		<-open
		done.Add(1)
		return receipt{Item: o.Item}, nil
	}, stage.Workers(1, 1))
	mux := http.NewServeMux()
	mux.Handle("/wait", stagehttp.New(s.Call))
	mux.Handle("/jobs", stagehttp.Accept(s.Submit))
	at := run(t, mux, s)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 3}} // Shutdown waits 5 s for connections that were never used
	defer client.CloseIdleConnections()
	codes := make(chan int, 3)
	for range cap(codes) {
		go func() {
			w, err := client.Post(at.url+"/wait", "application/json", strings.NewReader(`{"Item":"tea"}`))
			if err != nil {
				codes <- 0
				return
			}
			w.Body.Close()
			codes <- w.StatusCode
		}()
	}
	<-at.Started()
	require.Eventually(t, func() bool { return at.Snapshot().InFlight == 3 }, time.Minute, time.Millisecond)
	at.stop()
	at.refuses(t)
	require.NoError(t, s.Submit(t.Context(), order{})) // the pipeline still takes what requests under way submit
	close(open)
	for range cap(codes) {
		require.Equal(t, 200, <-codes)
	}
	require.NoError(t, <-at.ran)
	assert.Equal(t, int64(4), done.Load())
	assert.Equal(t, pipeline.Ending{Ended: true}, at.Ending())
}

func TestThePipelineDrainsWhatWasAccepted(t *testing.T) {
	open := make(chan struct{})
	var done atomic.Int64
	s := stage.Sink("job", func(context.Context, order) error { <-open; done.Add(1); return nil }, stage.Workers(1, 1))
	at := run(t, stagehttp.Accept(s.Submit), s)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for range 10 {
		w, err := client.Post(at.url, "application/json", strings.NewReader(`{}`))
		require.NoError(t, err)
		w.Body.Close()
		require.Equal(t, http.StatusAccepted, w.StatusCode)
	}
	at.stop()
	at.refuses(t)
	close(open)
	require.NoError(t, <-at.ran)
	assert.Equal(t, int64(10), done.Load())
}

func TestTheServerStopsWhenThePipelineGivesUp(t *testing.T) {
	s := stage.Map("broken", func(context.Context, order) (receipt, error) { panic("broken") },
		stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: -1}))
	at := run(t, stagehttp.New(s.Call), s)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for range 2 {
		if w, err := client.Post(at.url, "application/json", strings.NewReader(`{}`)); err == nil {
			w.Body.Close()
		}
	}
	err := <-at.ran
	_, gaveUp := errors.AsType[*supervisor.EscalationError](err)
	assert.True(t, gaveUp, "%v", err)
	at.refuses(t)
	assert.True(t, at.Ending().GaveUp)
}

func TestTheServerStopsWhenThePipelineIsStoppedElsewhere(t *testing.T) {
	s := stage.Map("book", book)
	at := run(t, stagehttp.New(s.Call), s)
	<-at.Started()
	require.NoError(t, at.Stop(t.Context()))
	require.NoError(t, <-at.ran)
	at.refuses(t)
}

func TestAPipelineThatCannotStartClosesTheListener(t *testing.T) {
	s := stage.Map("book", book)
	p, err := pipeline.New("site", s)
	require.NoError(t, err)
	require.NoError(t, p.Stop(t.Context()))
	l := listen(t)
	require.ErrorIs(t, stagehttp.Serve(t.Context(), l, new(http.Server), p), pipeline.ErrStopped)
	require.ErrorIs(t, l.Close(), net.ErrClosed)
}

func TestAPipelineThatIsAlreadyStartedIsRefusedAndLeftAsItIs(t *testing.T) {
	s := stage.Map("book", book)
	p := start(t, s)
	l := listen(t)
	require.ErrorContains(t, stagehttp.Serve(t.Context(), l, new(http.Server), p), `"test" is already started`)
	require.ErrorIs(t, l.Close(), net.ErrClosed)
	got, err := s.Call(t.Context(), order{"tea"})
	require.NoError(t, err)
	assert.Equal(t, "tea", got.Item)
}

func TestAContextThatHasEndedStopsTheServerAndIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		p, err := pipeline.New("site", stage.Map("book", book), pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		l := listen(t)
		require.NoError(t, stagehttp.Serve(ctx, l, new(http.Server), p))
		require.ErrorIs(t, l.Close(), net.ErrClosed)
		assert.True(t, p.Ending().Ended)
	}
}

func TestAServerThatFailsStopsThePipeline(t *testing.T) {
	p, err := pipeline.New("site", stage.Map("book", book), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	l := listen(t)
	require.NoError(t, l.Close())
	require.ErrorIs(t, stagehttp.Serve(t.Context(), l, new(http.Server), p), net.ErrClosed)
	assert.Equal(t, pipeline.Ending{Ended: true}, p.Ending())
}

func TestRequestsThatDoNotEndAreCutOffAfterHalfOfTheDrainTimeout(t *testing.T) {
	ended := make(chan struct{})
	s := stage.Map("endless", func(ctx context.Context, _ order) (receipt, error) {
		<-ctx.Done()
		close(ended)
		return receipt{}, ctx.Err()
	})
	var done atomic.Bool
	late := stage.Sink("late", func(ctx context.Context, _ order) error {
		<-ended
		time.Sleep(50 * time.Millisecond)
		done.Store(ctx.Err() == nil)
		return nil
	})
	h := stagehttp.New(s.Call)
	at := run(t, h, s, late, pipeline.DrainTimeout(time.Second))
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	cut := make(chan error, 1)
	go func() {
		w, err := client.Post(at.url, "application/json", strings.NewReader(`{}`))
		if err == nil {
			w.Body.Close()
		}
		cut <- err
	}()
	<-at.Started()
	require.Eventually(t, func() bool { return at.Snapshot().InFlight == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, late.Submit(t.Context(), order{}))
	at.stop()
	err := <-at.ran
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "stagehttp: Serve: requests were under way after 500ms, half of the DrainTimeout, and were cut off: ")
	assert.True(t, done.Load(), "the pipeline had no time for its drain")
	require.Error(t, <-cut)
	assert.Zero(t, at.Snapshot().InFlight)
	require.Eventually(t, func() bool { return h.Answers(499) == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, at.Stop(t.Context()), "the pipeline was drained in its half")
}

func TestAServerWithCertificatesServesTLS(t *testing.T) {
	example := httptest.NewTLSServer(nil) // for its certificate
	defer example.Close()
	s := stage.Map("book", book)
	p, err := pipeline.New("site", s, pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	l := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	server := &http.Server{Handler: stagehttp.New(s.Call), TLSConfig: example.TLS.Clone(), ReadHeaderTimeout: time.Minute}
	ran := make(chan error, 1)
	go func() { ran <- stagehttp.Serve(ctx, l, server, p) }()
	client := example.Client()
	w, err := client.Post("https://"+l.Addr().String(), "application/json", strings.NewReader(`{"Item":"tea"}`))
	require.NoError(t, err)
	text, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	w.Body.Close()
	assert.Contains(t, string(text), "tea")
	client.CloseIdleConnections()
	stop()
	require.NoError(t, <-ran)
}

func TestRunReportsAnAddressThatItCannotListenAt(t *testing.T) {
	l := listen(t)
	defer l.Close()
	p, err := pipeline.New("site", stage.Map("book", book))
	require.NoError(t, err)
	require.Error(t, stagehttp.Run(t.Context(), &http.Server{Addr: l.Addr().String(), ReadHeaderTimeout: time.Minute}, p))
	assert.False(t, p.Ending().Ended)
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	assert.PanicsWithValue(t, "stagehttp: Run: nil pipeline", func() { _ = stagehttp.Run(t.Context(), new(http.Server), nil) })
	assert.PanicsWithValue(t, "stagehttp: Serve: nil server", func() { _ = stagehttp.Serve(t.Context(), nil, nil, nil) })
	assert.PanicsWithValue(t, "stagehttp: Serve: nil listener", func() {
		_ = stagehttp.Serve(t.Context(), nil, new(http.Server), new(pipeline.Pipeline))
	})
}
