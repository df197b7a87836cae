package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/examples/internal/show"
)

// execute sums up a log twice, without kills and with, and compares.
func (c config) execute(ctx context.Context, progress io.Writer) (r result, err error) {
	dir, err := os.MkdirTemp("", "golda-etl")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r.Lines = c.lines
	log := filepath.Join(dir, "log")
	if r.Bytes, err = writeLog(log, c.lines); err != nil {
		return r, err
	}
	say(progress, "a log of %d lines, %d MB\n", c.lines, r.Bytes>>20)
	smooth := job{Log: log, Dir: filepath.Join(dir, "smooth"), Period: c.period}
	if r.Without, err = smooth.run(ctx, 0, progress); err != nil {
		return r, err
	}
	rough := job{Log: log, Dir: filepath.Join(dir, "rough"), Period: c.period}
	if r.With, err = rough.run(ctx, c.kills, progress); err != nil {
		return r, err
	}
	return r, r.compare(log, smooth, rough)
}

// say writes a line of progress, if that is wanted.
func say(to io.Writer, format string, args ...any) {
	if to != nil {
		_, _ = fmt.Fprintf(to, format, args...)
	}
}

// run has children do the job, and kills some of them.
func (j job) run(ctx context.Context, kills int, to io.Writer) (r ran, err error) {
	if err := os.Mkdir(j.Dir, 0o700); err != nil {
		return r, err
	}
	start := time.Now()
	for done := false; !done; {
		at := 2.0 // never
		if r.Killed < kills {
			at = float64(r.Killed+1) / float64(kills+3)
		}
		began, last, err := j.spawn(ctx, at, to)
		if err != nil {
			return r, err
		}
		if done = !last.killed; !done {
			r.Killed++
		}
		if r.behind > 0 && began == 0 {
			r.Afresh++
		}
		if !done {
			say(to, "killed at %s, where %s was saved\n", last.percent(last.Position), last.percent(last.Checkpoint))
		}
		r.Again += max(0, r.behind-began)
		r.behind = last.Position
	}
	r.Took = time.Since(start)
	return r, nil
}

// place is where a child has ended.
type place struct {
	progress

	killed bool
}

func (p progress) percent(of int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(of)/float64(max(p.Total, 1)))
}

// spawn starts a child, and kills it when it has read a part of the log, and a
// checkpoint was saved. It returns the position at which the child began.
func (j job) spawn(ctx context.Context, at float64, to io.Writer) (began int64, last place, err error) {
	cmd, out, stderr, err := j.start(ctx)
	if err != nil {
		return 0, last, err
	}
	var now atomic.Pointer[progress]
	now.Store(&progress{})
	stop := show.Every(to, func() string { p := now.Load(); return "at " + p.percent(p.Position) })
	lines, first := json.NewDecoder(out), true
	for {
		var p progress
		if lines.Decode(&p) != nil { // it has ended
			break
		}
		if first {
			began, first = p.Checkpoint, false
		}
		now.Store(&p)
		last.progress = p
		if float64(p.Position) >= at*float64(p.Total) && p.Total > 0 && p.Checkpoint > began && !last.killed {
			last.killed = cmd.Process.Kill() == nil
		}
	}
	stop()
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return 0, last, context.Cause(ctx)
	case err == nil: // also if the kill came too late
		last.killed = false
	case !last.killed:
		return 0, last, fmt.Errorf("the child process: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return began, last, nil
}

// start starts a child.
func (j job) start(ctx context.Context) (cmd *exec.Cmd, out io.Reader, stderr *bytes.Buffer, err error) {
	work, err := json.Marshal(j)
	if err != nil {
		return nil, nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd, stderr = exec.CommandContext(ctx, self), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), workEnv+"="+string(work))
	cmd.Stderr = stderr
	if out, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, nil, err
	}
	return cmd, out, stderr, cmd.Start()
}

// compare compares the reports with each other, and with the report of a loop.
func (r *result) compare(log string, smooth, rough job) error {
	want, err := inALoop(log)
	if err != nil {
		return err
	}
	without, err := os.ReadFile(smooth.report())
	if err != nil {
		return err
	}
	with, err := os.ReadFile(rough.report())
	if err != nil {
		return err
	}
	r.Results = bytes.Count(without, []byte("\n"))
	r.Same, r.Right = bytes.Equal(without, with), bytes.Equal(without, want)
	return nil
}
