package reexec

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"
)

// checkEnv has, in the process that checks a new version, a secret that it must
// write to its standard output, after checked, if the version is good. So a
// program that knows nothing of this package, and ends well, does not count as
// checked.
const checkEnv = "GOLDA_REEXEC_CHECK"

const (
	checked    = "golda-reexec checked "
	mostOffer  = 16 << 20 // bytes
	mostOutput = 8 << 10  // the last bytes of the checking process's output
)

// try checks the new version in a process of its own. It returns the file that
// is good.
func (p *Program) try(ctx context.Context, path string) (os.FileInfo, error) {
	within := p.CheckTime
	if within == 0 {
		within = defaultCheckTime
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the check has not ended within %v", within))
	defer cancel()
	offer, err := p.offer(ctx)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	file, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return file, run(ctx, path, offer)
}

// run runs the process that checks a file.
func run(ctx context.Context, path string, offer []byte) error {
	secret := rand.Text()
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = args(path)
	cmd.Env = append(os.Environ(), checkEnv+"="+secret)
	var stdout, stderr tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(offer), &stdout, &stderr
	cmd.WaitDelay = time.Second // for processes that it has left behind
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w%s", err, stderr.after(": "))
	case !strings.Contains(string(stdout.last), checked+secret):
		return fmt.Errorf("it has not called Run%s", stderr.after(": "))
	}
	return nil
}

// offer returns the data for the new version. It does not wait for a function
// that hangs: the program must be able to end.
func (p *Program) offer(ctx context.Context) (data []byte, err error) {
	if p.Offer == nil {
		return nil, nil
	}
	done := make(chan struct{})
	var offered []byte
	failure := errGoexit
	go func() {
		defer close(done)
		defer recovered("Offer", &failure)
		offered, failure = p.Offer()
	}()
	select {
	case <-done:
		data, err = offered, failure
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil && len(data) > mostOffer {
		err = fmt.Errorf("it has %d bytes, and may have %d", len(data), mostOffer)
	}
	if err != nil {
		return nil, fmt.Errorf("the offer of this version: %w", err)
	}
	return data, nil
}

var errGoexit = errors.New("the function has ended its goroutine")

// answer is Run in the process that checks.
func (p *Program) answer(ctx context.Context, secret string) error {
	if err := os.Unsetenv(checkEnv); err != nil {
		return err
	}
	if err := p.fault(); err != nil {
		return fmt.Errorf("reexec: %w", err)
	}
	offer, err := io.ReadAll(io.LimitReader(os.Stdin, mostOffer))
	if err != nil {
		return err
	}
	if len(offer) == 0 {
		offer = nil
	}
	if err := p.check(ctx, offer); err != nil {
		return err
	}
	_, err = fmt.Fprintf(os.Stdout, "\n%s\n", checked+secret)
	return err
}

func (p *Program) check(ctx context.Context, offer []byte) (err error) {
	if p.Check == nil {
		return nil
	}
	defer recovered("Check", &err)
	return p.Check(ctx, offer)
}

// recovered makes a panic an error.
func recovered(function string, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%s has panicked: %v\n%s", function, v, debug.Stack())
	}
}

// tail keeps the last bytes that were written.
type tail struct{ last []byte }

// Write is for package exec.
func (t *tail) Write(text []byte) (int, error) {
	t.last = append(t.last, text...)
	if over := len(t.last) - mostOutput; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(text), nil
}

// after returns the text with something before it, or nothing if there is none.
func (t *tail) after(before string) string {
	if text := strings.TrimSpace(string(t.last)); text != "" {
		return before + text
	}
	return ""
}
