package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/pipeline/tap"
	"github.com/golda-dev/golda/stage"
)

func TestMain(m *testing.M) {
	if url, name, ok := strings.Cut(os.Getenv(memberEnv), " "); ok {
		if err := member(url, name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if pay := outages[os.Getenv(outageEnv)]; pay != nil {
		fmt.Fprintln(os.Stderr, outage(pay))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

const token = "0123456789abcdef"

type order struct{ Item string }

// shop is a pipeline with a dashboard.
type shop struct {
	*pipeline.Pipeline

	in     *stage.Flow[order, order]
	taps   *tap.Tap
	broken atomic.Bool
	url    string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{taps: tap.New()}
	pay := stage.Sink("pay", func(_ context.Context, o order) error {
		switch {
		case o.Item == "crash":
			panic("crashed \x1b[31m")
		case s.broken.Load():
			return errors.New("disk full")
		default:
			return nil
		}
	}, stage.Workers(1, 4))
	s.in = stage.Map("in", func(_ context.Context, o order) (order, error) { return o, nil })
	var err error
	s.Pipeline, err = pipeline.New("shop", s.in.To(pay), pipeline.Middleware(s.taps.Around), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, s.Start(t.Context()))
	d, err := dashboard.New(s.Pipeline, dashboard.Options{Token: token, Payloads: true, Tap: s.taps, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	server := httptest.NewServer(d)
	s.url = server.URL
	t.Cleanup(func() {
		d.Close()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
		require.NoError(t, s.Stop(context.Background())) //nolint:usetesting // the test's has ended
	})
	return s
}

func (s *shop) submit(t *testing.T, items ...string) {
	t.Helper()
	for _, item := range items {
		require.NoError(t, s.in.Submit(t.Context(), order{item}))
	}
	require.NoError(t, s.Drain(t.Context()))
	require.NoError(t, s.Reopen())
}

// golda runs a command line, and returns its output.
func golda(t *testing.T, args ...string) string {
	t.Helper()
	t.Setenv("GOLDA_TOKEN", token)
	t.Setenv("USER", "ann")
	var out, errs bytes.Buffer
	require.Zero(t, run(t.Context(), args, &out, &errs), "%v: %s", args, errs.String())
	return out.String()
}

// fails runs a command line that fails, and returns its error.
func fails(t *testing.T, status int, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	require.Equal(t, status, run(t.Context(), args, &out, &errs), "%v: %s", args, out.String())
	return errs.String() + out.String()
}

func TestTopPrintsTheStagesOnce(t *testing.T) {
	s := newShop(t)
	s.submit(t, "a", "b", "crash")
	var top table
	require.NoError(t, json.Unmarshal([]byte(golda(t, "top", s.url, "-once", "-json", "-every", "100ms")), &top))
	require.Equal(t, "shop", top.Pipeline)
	require.Equal(t, "none", top.Verdict.Limit)
	require.Equal(t, 1, top.Letters)
	require.Len(t, top.Stages, 2)
	pay := top.Stages[1]
	require.Equal(t, "pay", pay.Stage)
	require.Equal(t, 4, pay.Most)
	require.EqualValues(t, 1, pay.Errors)
	require.Positive(t, pay.ServiceP99Ns)

	golda(t, "pause", s.url, "pay")
	text := golda(t, "top", s.url, "--once", "--every", "100ms")
	golda(t, "resume", s.url, "pay")
	require.Contains(t, text, "wait p99")
	require.Contains(t, text, "pay (paused)")
	require.NotContains(t, text, "\x1b")
}

func TestParkedKeysAreInTheTablesWhereThereAreSome(t *testing.T) {
	none := golda(t, "top", newShop(t).url, "-once", "-every", "100ms")
	require.NotContains(t, none, "parked keys")

	var mended atomic.Bool
	book := stage.Keyed("book", func(o order) string { return o.Item }, func(string) behaviour.Func[order] {
		return func(context.Context, order) behaviour.Outcome {
			if mended.Load() {
				return behaviour.OK(nil)
			}
			return behaviour.Error(errors.New("disk full"))
		}
	}, stage.ParkOnFailure())
	p, err := pipeline.New("ledger", book, pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	d, err := dashboard.New(p, dashboard.Options{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	server := httptest.NewServer(d)
	t.Cleanup(func() {
		d.Close()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
		mended.Store(true)
		p.Failures().Clear(letters.Filter{})
		require.NoError(t, p.Stop(context.Background())) //nolint:usetesting // the test's has ended
	})
	for range 3 {
		require.NoError(t, book.Submit(t.Context(), order{"a"}))
	}
	require.Eventually(t, func() bool { return book.Snapshot().Queue.Held == 2 }, time.Minute, time.Millisecond)
	var top table
	require.NoError(t, json.Unmarshal([]byte(golda(t, "top", server.URL, "-once", "-json", "-every", "100ms")), &top))
	require.Equal(t, 1, top.Stages[0].ParkedKeys)
	text := golda(t, "top", server.URL, "-once", "-every", "100ms")
	require.Regexp(t, `errors\s+parked keys\n\s+book .* 1\n`, text)
	require.Contains(t, golda(t, "letters", "show", server.URL, "failures", "1"), "2 later commands of the key wait")
}

func TestTopPrintsUntilItIsInterrupted(t *testing.T) {
	s := newShop(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, out := io.Pipe()
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"top", s.url, "-json", "-every", "100ms"}, out, io.Discard)
	}()
	tables := json.NewDecoder(in)
	for range 3 {
		var top table
		require.NoError(t, tables.Decode(&top))
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, in) }()
	require.Zero(t, <-ended)
	require.NoError(t, out.Close())
}

func TestTheOperatorsCommandsAreCarriedOut(t *testing.T) {
	s := newShop(t)
	pay := func() stage.Snapshot { return s.Snapshot().Stages[1] }
	require.Equal(t, "stage \"pay\" is paused\n", golda(t, "pause", s.url, "pay"))
	require.True(t, pay().Paused)
	golda(t, "resume", s.url, "pay")
	require.False(t, pay().Paused)
	golda(t, "resize", s.url, "pay", "2", "3")
	require.Equal(t, 3, pay().Workers.Max)
	golda(t, "resize", s.url, "pay", "6")
	require.Equal(t, 6, pay().Workers.Min)
	require.Contains(t, fails(t, 1, "resize", s.url, "pay", "5", "2"), "the smaller number first")
	require.Equal(t, 6, pay().Workers.Min)
	golda(t, "resize", s.url, "pay")
	require.Equal(t, 4, pay().Workers.Max)
	golda(t, "capacity", s.url, "pay", "7")
	require.Equal(t, 7, pay().Queue.Capacity)
	golda(t, "rate", s.url, "100", "-stage", "pay", "-burst", "5")
	golda(t, "rate", s.url, "0", "-stage", "pay")
	golda(t, "policy", s.url, "erlda", "-for", "1m")
	require.Equal(t, "erlda", s.Snapshot().Policy)
	golda(t, "drain", s.url, "pay")
	require.True(t, pay().Draining)
	golda(t, "reopen", s.url, "-all")
	require.False(t, pay().Draining)
	require.Contains(t, golda(t, "verdict", s.url), "no command has been submitted yet")
	s.submit(t, "a")
	require.Contains(t, golda(t, "verdict", s.url), "no stage limits the pipeline")
	require.Contains(t, fails(t, 1, "race", s.url, "-for", "1s", "-within", "1s", "-policy", "codel"), `pipeline "shop" got 0 commands in 1`)
	for _, c := range s.Journal() {
		if c.Policy == "operator:ann" {
			return
		}
	}
	t.Fatal("the journal does not name the operator")
}

func TestLettersAreListedShownRetriedAndDropped(t *testing.T) {
	s := newShop(t)
	s.broken.Store(true)
	s.submit(t, "a", "b", "c", "crash")
	text := golda(t, "letters", "list", s.url)
	require.Contains(t, text, "quarantine")
	require.Contains(t, text, "disk full")
	require.NotContains(t, text, "\x1b", "a terminal would obey it")
	require.Equal(t, 4, strings.Count(golda(t, "letters", "list", s.url, "failures"), "\n"), "a line for each, and the names")
	require.Contains(t, golda(t, "letters", "show", s.url, "quarantine", "1"), "main_test.go")
	var l api.Letter
	require.NoError(t, json.Unmarshal([]byte(golda(t, "letters", "show", s.url, "failures", "2", "-json")), &l))
	require.Contains(t, l.Summary, `{"Item":`)

	require.Contains(t, fails(t, 1, "letters", "retry", s.url, "failures", "-stage", "pay", "-token", token), "failed again")
	require.Equal(t, 3, s.Failures().Len())
	s.broken.Store(false)
	require.Equal(t, "3 letters were retried\n", golda(t, "letters", "retry", s.url, "failures", "-stage", "pay"))
	require.Equal(t, 1, strings.Count(golda(t, "letters", "export", s.url, "quarantine"), "\n"))
	golda(t, "letters", "edit", s.url, "quarantine", "1", `{"Item":"a"}`)
	require.NoError(t, s.Drain(t.Context()))
	require.NoError(t, s.Reopen())
	require.Zero(t, s.Quarantine().Len()+s.Failures().Len())
	s.submit(t, "crash")
	require.Equal(t, "1 letters were dropped\n", golda(t, "letters", "drop", s.url, "quarantine", "-all"))
	require.Zero(t, s.Quarantine().Len())
}

// The recording is opened by another process in a program; here, by another server.
func TestARecordingIsMadeAndOpened(t *testing.T) {
	s := newShop(t)
	s.submit(t, "a", "crash")
	file := filepath.Join(t.TempDir(), "outage.json")
	require.Contains(t, golda(t, "record", s.url, file, "-for", "1500ms"), "golda open")
	require.Contains(t, fails(t, 1, "record", s.url, file, "-for", "1ms"), "exists", "no recording is overwritten")

	var top table
	require.NoError(t, json.Unmarshal([]byte(golda(t, "top", file, "-json")), &top))
	require.EqualValues(t, 1, top.Stages[1].Errors)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &lines{}
	ended := make(chan int)
	go func() { ended <- run(ctx, []string{"open", file, "-listen", "127.0.0.1:0"}, out, io.Discard) }()
	url := out.address(t)
	var r api.Recording
	require.NoError(t, (&api.Client{URL: url}).Get(t.Context(), "/recording", &r))
	require.True(t, r.Root.Recorded)
	require.GreaterOrEqual(t, len(r.History.Snapshots), 2)
	require.Len(t, r.Failures.Groups, 1)
	require.Contains(t, fails(t, 1, "pause", url, "pay"), "read-only")
	http.DefaultClient.CloseIdleConnections()
	cancel()
	require.Zero(t, <-ended)
}

// lines is an output that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestACommandThatIsWrongSaysSo(t *testing.T) {
	s := newShop(t)
	t.Setenv("GOLDA_TOKEN", "")
	empty := filepath.Join(t.TempDir(), "empty.json")
	require.NoError(t, os.WriteFile(empty, []byte("{}"), 0o600))
	for _, tt := range []struct {
		status int
		text   string
		args   []string
	}{
		{2, "Try: golda --help", []string{"explode"}},
		{2, "expected", []string{"pause"}},
		{2, "must be one of", []string{"letters", "show", s.url, "all", "1"}},
		{1, "wrong token", []string{"pause", s.url, "pay"}},
		{1, "not part of this pipeline", []string{"pause", s.url, "none", "-token", token}},
		{1, "not JSON", []string{"letters", "edit", s.url, "dead", "1", "{"}},
		{1, "no letter 9", []string{"letters", "show", s.url, "dead", "9"}},
		{1, "no such file", []string{"top", "nothing.json"}},
		{1, "no recording", []string{"top", empty}},
		{1, "no recording", []string{"open", empty}},
	} {
		require.Contains(t, fails(t, tt.status, tt.args...), tt.text, tt.args)
	}
	require.Contains(t, golda(t, "--help"), "letters")
}

func TestThePercentileIsThatOfTheInterval(t *testing.T) {
	h := func(p99 int64, buckets ...api.Bucket) (d api.Durations) {
		d.Buckets, d.P99Ns = buckets, p99
		for _, b := range buckets {
			d.Count += b.Count
		}
		return d
	}
	require.EqualValues(t, 10, p99(h(20, api.Bucket{UpToNs: 20, Count: 100}), h(20, api.Bucket{UpToNs: 10, Count: 50}, api.Bucket{UpToNs: 20, Count: 100})))
	require.EqualValues(t, 20, p99(api.Durations{}, h(20, api.Bucket{UpToNs: 10, Count: 50}, api.Bucket{UpToNs: 20, Count: 100})))
	require.EqualValues(t, 20, p99(h(20, api.Bucket{UpToNs: 20, Count: 1}), h(20, api.Bucket{UpToNs: 20, Count: 1})), "no sample in the interval")
	require.EqualValues(t, 7, p99(api.Durations{Count: 3}, api.Durations{Count: 5, P99Ns: 7}), "without buckets")
}
