package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// process is a child that runs.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string   // of its standard output; closed at its end
	ended  chan struct{} // closed when it has ended
	failed error         // once it has ended
	stderr last
}

// last keeps the last bytes that a child writes.
type last struct {
	mu   sync.Mutex // guards text
	text []byte
}

const mostSaid = 4 << 10

func (l *last) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-mostSaid):]
	return len(p), nil
}

func (l *last) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.TrimSpace(l.text))
}

// start starts a child, which ends with ctx.
func start(ctx context.Context, o order) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &process{lines: make(chan string, 64), ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, program, childWord, string(text)) //nolint:gosec // it is this program
	p.cmd.Stderr, p.cmd.WaitDelay = &p.stderr, time.Second
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		for said := bufio.NewScanner(stdout); said.Scan(); {
			p.lines <- said.Text()
		}
		close(p.lines)
		if err := p.cmd.Wait(); err != nil {
			p.failed = fmt.Errorf("%s of %s: %w: %s", o.Do, o.System, err, p.stderr.String())
		}
	}()
	return p, nil
}

// line returns the next line of a child.
func (p *process) line(ctx context.Context) (string, error) {
	select {
	case text, more := <-p.lines:
		if more {
			return text, nil
		}
		<-p.ended
		if p.failed != nil {
			return "", p.failed
		}
		return "", errors.New("the process has ended")
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// left asks a child how many jobs are in the queue.
func (p *process) left(ctx context.Context) (int, error) {
	if _, err := fmt.Fprintln(p.stdin, askLeft); err != nil {
		return 0, err
	}
	text, err := p.line(ctx)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimPrefix(text, askLeft+" "))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the process says %q: %s", text, p.stderr.String())
	}
	return n, nil
}

// kill kills a child as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.await()
}

// stop asks a child to end, and waits for that; if it takes too long it is
// killed.
func (p *process) stop() error {
	_ = p.stdin.Close()
	impatient := time.AfterFunc(30*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer impatient.Stop()
	p.await()
	return p.failed
}

func (p *process) await() {
	for range p.lines { //nolint:revive // it must not wait for its parent
	}
	<-p.ended
}
