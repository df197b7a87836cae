package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/internal/twin"
	"github.com/golda-dev/golda/examples/internal/usage"
	"github.com/golda-dev/golda/pipeline"
)

func TestMain(m *testing.M) {
	twin.Main(works)
	goleak.VerifyTestMain(m)
}

// served is a running service with its clients.
type served struct {
	*service
	*load
	address string
	stop    func()     // ends the context of the service
	ran     chan error // the result of its run
	gate    chan struct{}
}

// serve runs a service whose jobs are done when the gate is open.
func serve(ctx context.Context, t *testing.T, capacity int) *served {
	t.Helper()
	l, err := show.Listen(ctx, "-listen", "127.0.0.1:0")
	require.NoError(t, err)
	s := &served{load: newLoad(l.Addr().String()), address: l.Addr().String(), ran: make(chan error, 1), gate: make(chan struct{})}
	s.service, err = newService(config{capacity: capacity, patience: time.Minute}, func(job string) {
		<-s.gate
		s.done(job)
	}, pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	ctx, s.stop = context.WithCancel(ctx)
	go func() { s.ran <- s.run(ctx, l) }()
	return s
}

// post posts a job with a client of its own.
func (s *served) post(t *testing.T, query, job string) (status int, after time.Duration, err error) {
	t.Helper()
	client := newClient()
	defer client.CloseIdleConnections()
	return post(context.Background(), client, s.url+query, job)
}

// refuses waits until the server accepts no more connections.
func (s *served) refuses(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, time.Minute, time.Millisecond)
}

func TestTheServerStopsFirstAndEveryRequestInFlightIsAnswered(t *testing.T) {
	s := serve(context.Background(), t, 64)
	answers := make(chan int, 8)
	for i := range cap(answers) {
		go func() {
			status, _, err := s.post(t, "/done", string(rune('a'+i)))
			assert.NoError(t, err)
			answers <- status
		}()
	}
	status, _, err := s.post(t, "", "not waited for")
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, status)
	require.Eventually(t, func() bool { return s.p.Snapshot().InFlight == 9 }, time.Minute, time.Millisecond)

	s.stop()
	s.refuses(t)
	require.NoError(t, s.check.Submit(t.Context(), "late")) // as a request in flight would do: the pipeline still accepts it
	close(s.gate)
	for range cap(answers) {
		require.Equal(t, http.StatusNoContent, <-answers)
	}
	require.NoError(t, <-s.ran)
	require.Equal(t, pipeline.Ending{Ended: true}, s.p.Ending())
	require.Equal(t, map[string]int{
		"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1, "h": 1, "not waited for": 1, "late": 1,
	}, s.times)
	require.NoError(t, s.service.report(io.Discard))
}

func TestAnAnsweredJobIsDoneOnceAlthoughTheServerStops(t *testing.T) {
	for _, capacity := range []int{1, 8, 1024} {
		s := serve(context.Background(), t, capacity)
		ctx, stop := context.WithCancel(t.Context())
		join := s.start(ctx, 16)
		close(s.gate)
		require.Eventually(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.answer) >= 100
		}, time.Minute, time.Millisecond)
		stop() // from now on the clients take errors for the stop, and continue until there is one
		s.stop()
		require.NoError(t, <-s.ran)
		join()
		var out strings.Builder
		require.NoError(t, s.load.report(&out), out.String())
		require.NoError(t, s.service.report(&out), out.String())
	}
}

func TestAFullPipelineAnswers503WithRetryAfter(t *testing.T) {
	s := serve(t.Context(), t, 1)
	status, after := http.StatusAccepted, time.Duration(0)
	for i := 0; i < 100 && status == http.StatusAccepted; i++ {
		var err error
		status, after, err = s.post(t, "", "job")
		require.NoError(t, err)
	}
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, time.Second, after)
	close(s.gate)
	s.stop()
	require.NoError(t, <-s.ran)
}

func TestAnInvalidJobIsNotOverload(t *testing.T) {
	s := serve(t.Context(), t, 1)
	close(s.gate)
	for body, want := range map[string]int{" ": http.StatusUnprocessableEntity, strings.Repeat("x", 2000): http.StatusRequestEntityTooLarge} {
		status, _, err := s.post(t, "/done", body)
		require.Error(t, err)
		require.Equal(t, want, status)
	}
	s.stop()
	require.NoError(t, <-s.ran)
}

func TestTheServerStopsWhenThePipelineStops(t *testing.T) {
	s := serve(t.Context(), t, 1)
	defer s.stop()
	close(s.gate)
	<-s.p.Started()
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_ = s.p.Stop(ended)
	<-s.ran
	s.refuses(t)
	require.True(t, s.p.Ending().Ended)
}

func TestAStopBeforeTheStartIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	for range 50 {
		require.Equal(t, show.StatusOK, run(ctx, strings.Fields("-clients 0"), &out, &errs), errs.String())
	}
}

func TestAReportNamesJobsThatWereNotDoneAsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		answer, times int
		wrong         bool
	}{
		"accepted, done":         {http.StatusAccepted, 1, false},
		"accepted, lost":         {http.StatusAccepted, 0, true},
		"accepted, done twice":   {http.StatusNoContent, 2, true},
		"refused":                {http.StatusServiceUnavailable, 0, false},
		"refused, done":          {http.StatusServiceUnavailable, 1, true},
		"unanswered":             {unanswered, 0, false},
		"unanswered, done":       {unanswered, 1, false},
		"unanswered, done twice": {unanswered, 2, true},
	} {
		l := newLoad("")
		l.note("0/0", c.answer, nil)
		for range c.times {
			l.done("0/0")
		}
		if err := l.report(io.Discard); c.wrong {
			require.ErrorContains(t, err, "0/0", name)
		} else {
			require.NoError(t, err, name)
		}
	}
}

func TestTheProgramServesItsOwnClientsAndReports(t *testing.T) {
	var out, errs bytes.Buffer
	require.Equal(t, show.StatusOK, run(t.Context(), strings.Fields("-for 200ms -each 1ms"), &out, &errs), errs.String())
	assert.Empty(t, errs.String())
	assert.Contains(t, out.String(), "ended: stopped\n")
	assert.Contains(t, out.String(), "in flight 0  balanced\n")
}

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	usage.Refused(t, usage.In(t.Context(), run), map[string][2]string{
		"an unknown flag": {"-no", "ingest: flag provided but not defined: -no; see -help\n"},
		"all at once": {
			"-clients -1 -capacity 0 -each -1s -for -1s -patience 0 x",
			"ingest: stray argument \"x\"; everything is set with flags, see -help; -clients -1: at least 0; -capacity 0: at least 1; " +
				"-each -1s: at least 0; -for -1s: at least 0; -patience 0s: above 0\n",
		},
	})
}

func TestHelpIsNoError(t *testing.T) {
	usage.Help(t, usage.In(t.Context(), run), "ingest is an HTTP server")
}
