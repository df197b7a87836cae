//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/examples/internal/show"
)

func TestADrainAnswersRequestsAndEndsIdleConnections(t *testing.T) {
	h := openServer(t, testLimits())
	idle, asking, slow := h.dial(), h.dial(), h.dial()
	idle.say(get)
	idle.hear("GET")
	asking.say("GET /digits.txt HTTP/1.1\r\nHo")
	slow.say("GET /large.bin HTTP/1.1\r\nHost: t\r\n\r\n" + get)
	for h.stats.sent.Load() < 10_000 || h.connections() < 3 { // until the large file is being sent
		time.Sleep(time.Millisecond)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		h.end()
	}()
	idle.ends()
	_, err := net.Dial("tcp", h.addr)
	require.Error(t, err, "the listener is closed before connections are")
	asking.say("st: t\r\n\r\n")
	got := asking.hear("GET")
	assert.Equal(t, "0123456789", got.body)
	assert.True(t, got.Close)
	asking.ends()
	requireSame(t, large(), slow.hear("GET").body)
	<-drained
}

func TestADrainDoesNotWaitForEver(t *testing.T) {
	l := testLimits()
	l.drain = 20 * time.Millisecond
	h := openServer(t, l)
	stuck, asking := h.dial(), h.dial()
	stuck.say(strings.Repeat("GET /large.bin HTTP/1.1\r\nHost: t\r\n\r\n", 10))
	asking.say("GET /")
	for h.stats.sent.Load() == 0 || h.connections() < 2 {
		time.Sleep(time.Millisecond)
	}
	h.end()
}

func TestAConnectionTooManyIsAnswered503(t *testing.T) {
	l := testLimits()
	l.connections, l.spare = 2, 1
	l.linger = time.Hour // so that the third still exists when the fourth comes
	h := openServer(t, l)
	served := []*client{h.dial(), h.dial()}
	for _, c := range served {
		c.say(get)
		assert.Equal(t, 200, c.hear("GET").StatusCode)
	}
	heard, turnedAway := h.dial(), h.dial()
	heard.say(get)
	for _, c := range []*client{heard, turnedAway} {
		got := c.hear("GET")
		assert.Equal(t, 503, got.StatusCode)
		assert.Equal(t, "1", got.Header.Get("Retry-After"))
		assert.True(t, got.Close)
	}
	turnedAway.ends()
	assert.EqualValues(t, 2, h.stats.refused.Load())
	served[0].say(get)
	assert.Equal(t, 200, served[0].hear("GET").StatusCode, "earlier connections are still served")
}

func TestTheServerWorksAfterACrash(t *testing.T) {
	h := openAt(t, testLimits(), trap{})
	for range 3 {
		c := h.dial()
		c.say(get)
		assert.Equal(t, 500, c.hear("GET").StatusCode)
		c.ends()
		assert.Equal(t, 404, h.ask("GET", "/other").StatusCode)
	}
}

// trap is a site with a file whose opening crashes.
type trap struct{}

func (trap) Open(name string) (fs.File, error) {
	if name == "digits.txt" {
		panic("a trap")
	}
	return nil, fs.ErrNotExist
}

func TestAnEventOfAClosedConnectionDoesNotReachTheNextOneInItsSlot(t *testing.T) {
	h := prepareWith(t, testLimits(), os.DirFS(testSite(t)), staff{policy.Fixed{}, 1})
	look := func() (n int) {
		require.NoError(t, h.poller.until(time.Now().Add(20*time.Second)))
		n, err := h.poller.wait()
		require.NoError(t, err)
		return n
	}
	first := h.dial()
	for h.connections() == 0 {
		for i := range look() {
			h.handle(h.poller.event(i))
		}
	}
	for old := h.slots[0]; !old.signals.raise(0); { // until the stages have parked it; now the test owns it
		runtime.Gosched()
	}
	require.NoError(t, first.SetLinger(0))
	require.NoError(t, first.Close())
	for ended := false; !ended; { // the events are in the poller's buffer, and wait there to be handled
		for i := range look() {
			_, what := h.poller.event(i)
			ended = ended || what&hungUp != 0
		}
	}
	stale := h.poller.n
	h.close(h.slots[0])
	second := h.dial()
	h.acceptAll()
	require.Len(t, h.slots, 1, "the second connection has the slot of the first")
	for i := range stale {
		h.handle(h.poller.event(i))
	}
	assert.False(t, h.slots[0].signals.has(hungUp|taken), "it belongs to the connection that was there before")
	h.start()
	second.say(get)
	assert.Equal(t, 200, second.hear("GET").StatusCode)
}

func TestClientsThatCloseOrResetDoNotDelayIdleOnes(t *testing.T) {
	const (
		crowds = 32
		each   = 100 // clients of a crowd, one after another
		idle   = 4   // one of this many clients stays
	)
	l := testLimits()
	l.connections = crowds * each
	h := prepareWith(t, l, os.DirFS(testSite(t)), staff{policy.Fixed{}, 1}) // a single worker that loops for one client stops all
	stop := h.startSlow()
	var all sync.WaitGroup
	for range crowds {
		all.Go(func() {
			var stay []*client
			for i := range each {
				c := h.dial()
				switch {
				case i%idle == 0: // this also keeps the other clients from running ahead of the server
					c.say(get)
					assert.Equal(t, "0123456789", c.hear("GET").body)
					stay = append(stay, c)
					continue
				case i%idle == 1: // resets the connection
					_ = c.SetLinger(0)
				}
				c.say("GET /work?n=1000 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
				for n := h.looks.Load(); h.looks.Load() == n; { // until the server has it
					runtime.Gosched()
				}
				_ = c.Close()
			}
			for _, c := range stay {
				c.say(get)
				assert.Equal(t, "0123456789", c.hear("GET").body)
			}
		})
	}
	all.Wait()
	stop()
	h.start()
}

func TestAnswersAreThoseOfNetHTTPsServer(t *testing.T) {
	h := openServer(t, testLimits())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	model := &http.Server{Handler: http.FileServer(http.Dir(h.root)), ReadHeaderTimeout: time.Minute}
	go func() { _ = model.Serve(listener) }()
	defer model.Close()
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()

	fetch := func(addr, method, path, header, value string) (int, string, http.Header) {
		req, err := http.NewRequest(method, "http://"+addr+path, nil)
		require.NoError(t, err)
		if header != "" {
			req.Header.Set(header, value)
		}
		r, err := transport.RoundTrip(req)
		require.NoError(t, err)
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return r.StatusCode, string(body), r.Header
	}
	for _, method := range []string{"GET", "HEAD"} {
		for _, path := range []string{"/", "/digits.txt", "/large.bin", "/large", "/sub/", "/none", "/empty.txt", "/style.css", "/a%20b%25.txt", "/noext", "/inside.txt"} {
			for _, condition := range []string{
				"", "Range: bytes=1-3", "Range: bytes=-2", "If-Modified-Since: Mon, 02 Jan 2040 15:04:05 GMT",
				"If-Unmodified-Since: Mon, 02 Jan 2006 15:04:05 GMT", "Accept: */*",
			} {
				if method == "HEAD" && strings.HasPrefix(condition, "Range") {
					continue // the standard library applies it there, although RFC 9110 says not to
				}
				header, value, _ := strings.Cut(condition, ": ")
				status, body, headers := fetch(h.addr, method, path, header, value)
				wantStatus, wantBody, wantHeaders := fetch(listener.Addr().String(), method, path, header, value)
				name := method + " " + path + " " + condition
				require.Equal(t, wantStatus, status, name)
				if status >= 400 {
					continue // the texts differ
				}
				requireSame(t, wantBody, body)
				for _, same := range []string{"Last-Modified", "Content-Length", "Content-Range", "Accept-Ranges"} {
					require.Equal(t, wantHeaders.Get(same), headers.Get(same), "%s: %s", name, same)
				}
				if path != "/inside.txt" { // the name is lost
					require.Equal(t, wantHeaders.Get("Content-Type"), headers.Get("Content-Type"), name)
				}
			}
		}
	}
}

func TestManyClientsAtOnceAreServedByEveryPolicy(t *testing.T) {
	for _, name := range policy.Names() {
		if name == "codel" || name == "rt90" {
			continue // they drop or refuse commands in an overload
		}
		t.Run(name, func(t *testing.T) {
			p, err := policy.ByName(name)
			require.NoError(t, err)
			h := openWith(t, testLimits(), os.DirFS(testSite(t)), staff{p, 4})
			transport := &http.Transport{MaxIdleConnsPerHost: 50}
			defer transport.CloseIdleConnections()
			var connections sync.WaitGroup
			for i := range 50 {
				connections.Go(func() {
					for j := range 20 {
						path := []string{"/", "/digits.txt", "/none", "/work?n=500", "/sub/"}[(i+j)%5]
						r, err := (&http.Client{Transport: transport}).Get("http://" + h.addr + path)
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, r.Body)
						_ = r.Body.Close()
						assert.Equal(t, path == "/none", r.StatusCode == http.StatusNotFound, path)
					}
				})
			}
			connections.Wait()
			h.end()
			assert.EqualValues(t, 1000, h.stats.byClass[2].Load()+h.stats.byClass[4].Load())
		})
	}
}

// program runs the whole program until the test calls stop, and returns the address that it serves at.
func program(t *testing.T, args ...string) (addr string, stop func() (status int, stdout, stderr string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var stdout bytes.Buffer
	stderr, told := io.Pipe()
	heard := make(chan string, 1)
	all := make(chan string, 1)
	go func() {
		var text strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := stderr.Read(buf)
			text.Write(buf[:n])
			if n > 0 {
				select {
				case heard <- text.String():
				default:
				}
			}
			if err != nil {
				all <- text.String()
				return
			}
		}
	}()
	status := make(chan int, 1)
	go func() {
		s := run(ctx, append([]string{"-addr", "127.0.0.1:0"}, args...), &stdout, told)
		_ = told.Close()
		status <- s
	}()
	_, rest, found := strings.Cut(<-heard, "http://")
	require.True(t, found)
	addr, _, _ = strings.Cut(rest, " ")
	return addr, func() (int, string, string) {
		cancel()
		return <-status, stdout.String(), <-all
	}
}

func TestAStoppedProgramReportsAndIsBalanced(t *testing.T) {
	addr, stop := program(t, "-json", "-root", testSite(t), "-policy", "fixed", "-workers", "2")
	for _, path := range []string{"/", "/", "/none", "/work?n=10"} {
		r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + addr + path)
		require.NoError(t, err)
		_ = r.Body.Close()
	}
	status, stdout, _ := stop()
	assert.Equal(t, show.StatusOK, status)
	var got report
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&got))
	assert.Equal(t, "fixed", got.Policy)
	assert.EqualValues(t, 4, got.Answers)
	assert.EqualValues(t, 3, got.OK)
	assert.EqualValues(t, 1, got.ClientErrors)
	assert.EqualValues(t, 4, got.Connections)
	assert.True(t, got.Balanced)
	assert.Len(t, got.Stages, 5)
}

func TestTheTextEndsWithTheLaw(t *testing.T) {
	_, stop := program(t)
	status, stdout, stderr := stop()
	assert.Equal(t, show.StatusOK, status)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	assert.Equal(t, "accepted 0 = replied 0 + failed 0 + shed 0 + dead-lettered 0 + in flight 0  balanced", lines[len(lines)-1])
	assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
}

func TestMetricsAreServedWhileItRuns(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, free.Close())
	_, stop := program(t, "-metrics", free.Addr().String())
	r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + free.Addr().String() + "/metrics")
	require.NoError(t, err)
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	_ = r.Body.Close()
	assert.Contains(t, string(body), `stage="respond"`)
	stop()
}

func TestBadInputIsRefusedInOneLineBeforeAnythingStarts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	rows := []struct{ args, says string }{
		{"-root " + dir + "/none", "no such file"},
		{"-root " + file, "not a directory"},
		{"-policy nope", "known are "},
		{"-workers 0", "at least 1 worker"},
		{"-cache -1", "at least 0 bytes"},
		{"-cache much", `"much"`},
		{"-connections 0", "at least 1 connection"},
		{"-connections 1000000000", "files open"},
		{"-addr " + taken.Addr().String(), "in use"},
		{"-addr nowhere", "-addr"},
		{"-metrics " + taken.Addr().String(), "in use"},
		{"-metrics nowhere", "-metrics"},
		{"-unknown", "not defined: -unknown; see -help"},
		{"stray", `"stray"`},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.args, dir, "DIR"), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status := run(t.Context(), append([]string{"-addr", "127.0.0.1:0"}, strings.Fields(row.args)...), &stdout, &stderr)
			assert.Equal(t, show.StatusUsage, status)
			assert.Empty(t, stdout.String())
			assert.Contains(t, stderr.String(), row.says)
			assert.True(t, strings.HasPrefix(stderr.String(), "webserver: "), stderr.String())
			assert.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line: %q", stderr.String())
		})
	}
}

func TestTheDefaultOfConnectionsFollowsTheLimitOfOpenFiles(t *testing.T) {
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) }()
	rows := []struct {
		files       uint64
		args        []string
		connections int
		says        string
	}{
		{8192, nil, 4032, ""},
		{130, nil, 1, ""},
		{1024, []string{"-connections", "449"}, 449, "-connections 449: at most 448, since this process may have 1024 files open; see ulimit -n"},
		{64, nil, 1, "this process may have 64 files open, and a server needs 130; see ulimit -n"},
	}
	for _, row := range rows {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: row.files, Max: old.Max}))
		c, err := parseFlags(row.args, io.Discard)
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
		assert.Equal(t, row.connections, c.connections)
		if row.says == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, row.says)
		}
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	var stdout, stderr bytes.Buffer
	assert.Equal(t, show.StatusUsage, run(t.Context(), []string{"-workers", "0", "-cache", "-1", "-policy", "nope"}, &stdout, &stderr))
	assert.Equal(t, 3, strings.Count(stderr.String(), "\n"), stderr.String())
}

func TestHelpIsNoError(t *testing.T) {
	var stdout, stderr bytes.Buffer
	assert.Equal(t, show.StatusOK, run(t.Context(), []string{"-help"}, &stdout, &stderr))
	assert.Contains(t, stdout.String(), "-policy")
	assert.Empty(t, stderr.String())
}
