package tables

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// clients is the load of ERLDA's repository: clients that request a file again
// and again, each on a connection that it keeps, and none sends a request
// before its last one was answered.
type clients struct {
	n      int
	length time.Duration
	path   string
}

// served has the measurements of clients of a server.
type served struct {
	Server  string
	Answers int64 // with status 200
	Other   int64 // other answers
	Broken  int64 // connections that ended before an answer
	Silent  int64 // requests without an answer when the patience was over
	Rate    float64
	P50     time.Duration
	P99     time.Duration
	Longest time.Duration
}

// patience is how long a client waits for an answer after the end.
const patience = 5 * time.Second

// load sends requests to a server for a time.
func (c clients) load(ctx context.Context, name, addr string) (served, error) {
	s := served{Server: name}
	ctx, cancel := context.WithTimeout(ctx, c.length)
	defer cancel()
	latency := hdrhistogram.New(1, int64(time.Hour), 3)
	begin := time.Now()
	end := begin.Add(c.length)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range c.n {
		all.Go(func() {
			mine, one := hdrhistogram.New(1, int64(time.Hour), 2), served{}
			for ctx.Err() == nil && one.Silent == 0 {
				c.connection(ctx, addr, end, mine, &one)
			}
			mu.Lock()
			defer mu.Unlock()
			latency.Merge(mine)
			s.Answers, s.Other, s.Broken, s.Silent = s.Answers+one.Answers, s.Other+one.Other, s.Broken+one.Broken, s.Silent+one.Silent
		})
	}
	all.Wait()
	if s.Answers == 0 {
		return s, fmt.Errorf("%s at %s gave no answer: %d connections broke, %d requests have none", name, addr, s.Broken, s.Silent)
	}
	s.Rate = float64(s.Answers) / c.length.Seconds()
	quantile := func(q float64) time.Duration { return time.Duration(latency.ValueAtQuantile(q)) }
	s.P50, s.P99, s.Longest = quantile(50), quantile(99), quantile(100)
	return s, nil
}

// connection sends requests on one connection until it breaks, or ctx ends.
func (c clients) connection(ctx context.Context, addr string, end time.Time, latency *hdrhistogram.Histogram, s *served) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		if ctx.Err() == nil {
			s.Broken++
			time.Sleep(10 * time.Millisecond) // a server that refuses is not asked again at once
		}
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(end.Add(patience)) // an error comes again when it is read
	in := bufio.NewReaderSize(conn, 4096)
	request := "GET " + c.path + " HTTP/1.1\r\nHost: " + addr + "\r\n\r\n"
	for ctx.Err() == nil {
		begin, status := time.Now(), 0
		if _, err = io.WriteString(conn, request); err == nil {
			status, err = readAnswer(in)
		}
		switch {
		case err != nil && time.Now().After(end):
			s.Silent++
			return
		case err != nil:
			s.Broken++
			return
		case status != http.StatusOK:
			s.Other++
		default:
			s.Answers++
			_ = latency.RecordValue(max(1, int64(time.Since(begin)))) // such a value has a place
		}
	}
}

// readAnswer reads an answer that has a length, and returns its status. It does
// hardly anything else, since the clients share the CPUs with the server.
func readAnswer(in *bufio.Reader) (status int, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if fields := bytes.Fields(line); len(fields) > 1 {
		status, _ = strconv.Atoi(string(fields[1])) // 0 is no status that is expected
	}
	length := 0
	for len(bytes.TrimSpace(line)) > 0 {
		if line, err = in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	_, err = in.Discard(length)
	return status, err
}

// target is a server to be measured.
type target struct{ name, addr string }

// compare measures servers in turns, and returns for each the run with the
// median rate.
func (c clients) compare(ctx context.Context, runs int, servers []target, progress io.Writer) ([]served, error) {
	all := make([][]served, len(servers))
	for round := range runs {
		for i, server := range servers {
			s, err := c.load(ctx, server.name, server.addr)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], s)
			_, _ = fmt.Fprintf(progress, "%d clients, run %d: %s, %.0f answers a second\n", c.n, round+1, server.name, s.Rate)
		}
	}
	var middle []served
	for _, s := range all {
		slices.SortFunc(s, func(a, b served) int { return cmp.Compare(a.Rate, b.Rate) })
		middle = append(middle, s[len(s)/2])
	}
	return middle, nil
}

// serve starts examples/webserver with a file of a size, and returns its
// address. The command is running, and must be stopped.
func (c clients) serve(ctx context.Context, p *programs, size int) (addr string, cmd *exec.Cmd, err error) {
	root := filepath.Join(p.dir, "www")
	if err := os.Mkdir(root, 0o750); err != nil {
		return "", nil, err
	}
	page := "<!DOCTYPE html>\n<title>Golda</title>\n<p>"
	page += strings.Repeat("x", max(0, size-len(page)))
	if err := os.WriteFile(filepath.Join(root, filepath.Base(c.path)), []byte(page), 0o600); err != nil {
		return "", nil, err
	}
	if addr, err = free(ctx); err != nil {
		return "", nil, err
	}
	cmd = p.command(ctx, "webserver", "-addr", addr, "-root", root)
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	if err := ready(ctx, addr); err != nil {
		stopProcess(cmd)
		return "", nil, err
	}
	return addr, cmd, nil
}

// stopProcess ends a server. How it ends is not measured.
func stopProcess(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
}

// free returns an address that was free a moment ago.
func free(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// ready waits until a server accepts connections.
func ready(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no server at %s: %w", addr, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
