//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/controller/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testServer is a server under test.
type testServer struct {
	*server
	t     testing.TB
	addr  string
	root  string
	looks *atomic.Int64 // how often the source of startSlow has polled
	end   func()        // drains the server and checks that everything is in order; called at the end of the test in any case
}

// testLimits returns the limits of the program, with a shorter tick.
func testLimits() limits {
	l := defaultLimits()
	l.tick = 5 * time.Millisecond
	l.fresh = 0 // a test that changes a file need not wait
	return l
}

// openServer starts a server for the site of testSite.
func openServer(t *testing.T, l limits) *testServer {
	t.Helper()
	root := testSite(t)
	r, err := os.OpenRoot(root)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	h := openAt(t, l, rooted{r})
	h.root = root
	return h
}

func openAt(t testing.TB, l limits, site fs.FS) *testServer {
	t.Helper()
	return openWith(t, l, site, staff{policy.ERLDA{}, 4})
}

func openWith(t testing.TB, l limits, site fs.FS, st staff) *testServer {
	t.Helper()
	h := prepareWith(t, l, site, st)
	h.start()
	return h
}

// prepareWith makes a server whose stages run but whose source does not: start starts it.
func prepareWith(t testing.TB, l limits, site fs.FS, st staff) *testServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var log bytes.Buffer
	s := newServer(l, site, defaultCache)
	require.NoError(t, s.plan(st, &log))
	require.NoError(t, s.open(listener))
	require.NoError(t, s.line.Start(context.Background()))
	return &testServer{server: s, t: t, addr: listener.Addr().String(), looks: new(atomic.Int64)}
}

// start starts the source, and checks its end.
func (h *testServer) start() {
	t, s := h.t, h.server
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.serveUntil(ctx) }()
	ended := false
	h.end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		require.NoError(t, <-served)
		end, err := settle(s.line)
		require.NoError(t, err)
		assert.True(t, end.Balanced(), end.Law())
		assert.Zero(t, end.InFlight)
		assert.Len(t, s.free, len(s.slots), "no connection is left")
	}
	t.Cleanup(h.end)
}

// startSlow starts a slow source: between the moment when it takes events from the poller and the moment when it
// handles them, the stages finish their work, and so may close connections that the events belong to. After stop, start
// starts the usual source.
func (h *testServer) startSlow() (stop func()) {
	var over atomic.Bool
	var source sync.WaitGroup
	source.Go(func() {
		for !over.Load() {
			_ = h.poller.until(time.Now().Add(h.limits.tick)) // the poller is open until stop
			n, _ := h.poller.wait()
			for range 100 { // the clients will notice a stage that never finishes
				if h.line.Snapshot().InFlight == 0 {
					break
				}
				runtime.Gosched()
			}
			for i := range n {
				h.handle(h.poller.event(i))
			}
			h.looks.Add(1)
		}
	})
	return func() {
		over.Store(true)
		source.Wait()
	}
}

// testSite makes a directory with every kind of file that a path may lead to, and a secret file beside it.
func testSite(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for name, text := range map[string]string{
		"index.html":       "<h1>home</h1>",
		"digits.txt":       "0123456789",
		"empty.txt":        "",
		"a b%.txt":         "odd name",
		"noext":            "<html>what am I?",
		"style.css":        "p {}",
		"sub/index.html":   "<h1>sub</h1>",
		"bare/readme.txt":  "a directory without index",
		"large.bin":        large(),
		"large":            large(),
		"..hidden/dots.md": "two dots begin this name",
		"../secret.txt":    "secret",
	} {
		name = filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
	}
	for link, to := range map[string]string{
		"inside.txt": "digits.txt", "outside.txt": "../secret.txt", "absolute.txt": filepath.Join(dir, "secret.txt"),
		"up": "..", "circle": "circle",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(root, link)))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o666))
	return root
}

// large returns a file that is neither kept in the cache nor written at once.
func large() string {
	return strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
}

// client is a connection that sends and reads bytes.
type client struct {
	*net.TCPConn
	t      testing.TB
	reader *bufio.Reader
}

func (h *testServer) dial() *client {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.addr)
	require.NoError(h.t, err)
	return h.connect(conn)
}

// connect makes a client of a connection.
func (h *testServer) connect(conn net.Conn) *client {
	h.t.Helper()
	h.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(h.t, conn.SetDeadline(time.Now().Add(20*time.Second))) // a test that hangs should show where
	return &client{conn.(*net.TCPConn), h.t, bufio.NewReader(conn)}
}

func (c *client) say(words string) {
	c.t.Helper()
	_, err := c.Write([]byte(words))
	require.NoError(c.t, err)
}

// heard is an answer with its body.
type heard struct {
	*http.Response
	body string
}

// hear reads the next answer, to a request of that method.
func (c *client) hear(method string) heard {
	c.t.Helper()
	r, err := http.ReadResponse(c.reader, &http.Request{Method: method})
	require.NoError(c.t, err)
	body, err := io.ReadAll(r.Body)
	require.NoError(c.t, err)
	require.NoError(c.t, r.Body.Close())
	return heard{r, string(body)}
}

// ends asserts that the server sends nothing more and closes the connection cleanly.
func (c *client) ends() {
	c.t.Helper()
	rest, err := io.ReadAll(c.reader)
	require.NoError(c.t, err)
	assert.Empty(c.t, string(rest))
}

// ask requests a path on a connection of its own, with header lines.
func (h *testServer) ask(method, path string, headers ...string) heard {
	h.t.Helper()
	c := h.dial()
	defer c.Close()
	lines := strings.Join(append(headers, ""), "\r\n")
	c.say(method + " " + path + " HTTP/1.1\r\nHost: test\r\n" + lines + "\r\n")
	return c.hear(method)
}

func (h *testServer) write(name, text string) {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(filepath.Join(h.root, name), []byte(text), 0o666))
}

func (h *testServer) remove(name string) {
	h.t.Helper()
	require.NoError(h.t, os.Remove(filepath.Join(h.root, name)))
}

// connections returns the number of connections.
func (h *testServer) connections() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.slots) - len(h.free)
}

// requireSame compares texts that are too long to be printed.
func requireSame(t *testing.T, want, got string) {
	t.Helper()
	require.Equal(t, len(want), len(got), "bytes of %.50q", got) //nolint:testifylint // Len would print them all
	require.Equal(t, sha256.Sum256([]byte(want)), sha256.Sum256([]byte(got)), "of %.50q", got)
}
