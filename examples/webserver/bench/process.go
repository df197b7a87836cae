package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long a server may take to start, and to stop.
const patience = 15 * time.Second

// process is a running server.
type process struct {
	cmd  *exec.Cmd
	says bytes.Buffer
}

func start(ctx context.Context, program string, args []string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, program, args...)} //nolint:gosec // the program that was just built
	p.cmd.Stderr = &p.says
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = patience
	return p, p.cmd.Start()
}

// freeAddress returns an address that was free a moment ago.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// ready waits until the server answers with the expected bytes.
func (p *process) ready(ctx context.Context, url string) error {
	want, err := os.ReadFile(filepath.Join(site, "index.html"))
	if err != nil {
		return fmt.Errorf("run this at the root of the repository: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		got, err := get(ctx, url)
		if err == nil && bytes.Equal(got, want) {
			return nil
		}
		if err == nil {
			return fmt.Errorf("%s is not the file", url)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// get sends a request that leaves nothing behind: no connection is kept, and no
// redirect is followed.
func get(ctx context.Context, url string) ([]byte, error) {
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	return io.ReadAll(answer.Body)
}

// peak returns the peak memory of the process.
func (p *process) peak() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(kib), " kB"), 64)
			return n * 1024, err
		}
	}
	return 0, errors.New("/proc has no VmHWM")
}

// stop ends the process. How a server ends is not measured, but a crash is
// reported.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	err := p.cmd.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) && !exit.Exited() { // plain is killed by the signal
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.says.String())
	}
	return nil
}
