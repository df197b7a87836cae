package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/examples/internal/board"
	"github.com/golda-dev/golda/examples/internal/show"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// drainTime is how long the stages may take to stop when no image is left.
const drainTime = 10 * time.Second

// run runs the program and returns its exit status. When ctx ends, no more
// images are started; those in progress are finished.
func run(ctx context.Context, args []string, box *outbox, stdout, stderr io.Writer) int {
	r := &runner{box: box, stdout: stdout, stderr: stderr}
	return r.main(ctx, args)
}

func (r *runner) main(ctx context.Context, args []string) int {
	var err error
	r.config, err = parse(args, r.stdout)
	if errors.Is(err, flag.ErrHelp) {
		return show.StatusOK
	}
	if err != nil {
		return show.Faults(r.stderr, "images", show.StatusUsage, err)
	}
	if err := r.prepare(ctx); err != nil {
		return show.Faults(r.stderr, "images", show.StatusUsage, err)
	}
	if r.policies != nil {
		return r.compare(ctx)
	}
	return r.run(ctx)
}

// runner is one run of the program with valid flags.
type runner struct {
	config
	box            *outbox
	stdout, stderr io.Writer
	limit          func(bytes int64) // limits the process's memory; nil: no limit
	compared       bool              // one run of a comparison: the captchas exist, and the report needs a digest

	files    []string // names within in or captchas
	listener net.Listener
	page     *board.Board
	alive    census
}

// prepare does everything that can fail before anything is started.
func (r *runner) prepare(ctx context.Context) (err error) {
	if r.in != "" {
		if r.files, err = listed(r.in, r.n); err != nil {
			return err
		}
	}
	if r.metrics != "" {
		if r.listener, err = show.Listen(ctx, "-metrics", r.metrics); err != nil {
			return err
		}
	}
	r.page, err = board.Listen(ctx, r.dashboard)
	if err == nil {
		err = r.config.prepare(r.box)
	}
	if err != nil || r.policies != nil { // no client knows the addresses yet; each run of a comparison listens itself
		if r.listener != nil {
			_ = r.listener.Close()
		}
		r.page.Close()
	}
	return err
}

func (r *runner) run(ctx context.Context) int {
	p, entry, err := plan(r.config, r.box, &r.alive, r.stderr, r.page.Tap())
	if err != nil {
		return show.Faults(r.stderr, "images", show.StatusFailed, err)
	}
	defer show.ServeMetrics(r.listener, p)() //nolint:contextcheck // metrics are served while an interrupted run drains
	stop, err := r.page.Serve(p)
	if err != nil {
		return show.Faults(r.stderr, "images", show.StatusFailed, err)
	}
	defer stop()
	if err := r.draw(ctx); err != nil && ctx.Err() == nil {
		return show.Faults(r.stderr, "images", show.StatusFailed, err)
	} // after an interrupt it continues without images, so that there is always a report
	done, err := r.process(ctx, p, entry)
	return r.verdict(ctx, done, errors.Join(err, r.tell(done)))
}

// draw draws the captchas, unless -in is given.
func (r *runner) draw(ctx context.Context) error {
	if r.in != "" {
		return nil
	}
	wanted := corpus{r.captchas, r.n, r.size, r.seed}
	r.files = wanted.names()
	if r.compared {
		return nil
	}
	var drawn atomic.Int64
	bar := startProgress(r.stderr, "drawing captchas", r.n, func() int { return int(drawn.Load()) })
	defer bar.done()
	return wanted.draw(ctx, r.box, &drawn)
}

// process sends the images through the pipeline.
func (r *runner) process(ctx context.Context, p *pipeline.Pipeline, entry *stage.Stage[*job]) (result, error) {
	if err := p.Start(context.WithoutCancel(ctx)); err != nil {
		return result{end: p.Snapshot()}, err
	}
	if r.limit != nil {
		r.limit(int64(max(byteBudget, 2*canvas*r.maxPixels)) + besides)
	}
	bar := startProgress(r.stderr, "processing images", len(r.files), func() int { return finished(p) })
	src := &source{entry: entry, window: window(r.config), budget: byteBudget, most: r.maxPixels}
	clock := startClock()
	refused := src.run(ctx, r.jobs())
	wall, cpu := clock.stop()
	bar.done()
	end, err := settle(context.WithoutCancel(ctx), p)
	done := result{
		images: len(r.files), wall: wall, cpu: cpu, peak: show.PeakMemory(), alive: r.alive.most(), end: end, failures: src.failures,
	}
	if r.compared {
		var unread error
		done.digest, unread = digest(r.written(src))
		err = cmp.Or(err, unread)
	}
	return done, cmp.Or(err, refused)
}

// finished returns how many images have ended.
func finished(p *pipeline.Pipeline) int {
	s := p.Snapshot()
	return int(s.Replied + s.Failed + s.Shed + s.DeadLettered)
}

// jobs returns the commands, each of which is made when it is needed.
func (r *runner) jobs() iter.Seq[*job] {
	from := cmp.Or(r.in, r.captchas)
	crash := faults{r.seed, r.crash, stageNames()}
	names := outNames(r.files)
	return func(yield func(*job) bool) {
		for i, file := range r.files {
			path := filepath.Join(from, file)
			j := &job{path: path, out: filepath.Join(r.out, names[i]), crashIn: crash.victim(path)}
			if !yield(j) {
				return
			}
		}
	}
}

// written returns the files of the images that a source submitted and that did
// not fail.
func (r *runner) written(s *source) (outs []string) {
	for j := range r.jobs() {
		if len(outs)+len(s.failures.paths) == s.begun {
			break
		}
		if !s.failures.paths[j.path] {
			outs = append(outs, j.out)
		}
	}
	return outs
}

// settle stops the pipeline. It takes the snapshot when all commands have ended
// but the workers still exist, so that they are counted.
func settle(ctx context.Context, p *pipeline.Pipeline) (pipeline.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	drained := p.Drain(ctx)
	end := p.Snapshot()
	stopped := p.Stop(ctx)
	return end, cmp.Or(p.Err(), stopped, drained) // the first cause is enough
}

// tell prints the report and, to stderr, the failures.
func (r *runner) tell(done result) error {
	done.failures.print(r.stderr)
	if r.json {
		return done.printJSON(r.stdout)
	}
	return done.print(r.stdout)
}

// verdict prints a line if something went wrong, and returns the status.
func (r *runner) verdict(ctx context.Context, done result, err error) int {
	failed := len(done.failures.lines)
	switch {
	case ctx.Err() != nil:
		return show.Faults(r.stderr, "images", show.StatusInterrupted, errors.Join(
			fmt.Errorf("interrupted; %d of %d images were begun, and have been finished", done.end.Accepted, done.images), err))
	case err != nil:
		return show.Faults(r.stderr, "images", show.StatusFailed, err)
	case !done.end.Balanced():
		return show.Faults(r.stderr, "images", show.StatusFailed, errors.New("the accounts do not balance"))
	case failed > 0:
		return show.Faults(r.stderr, "images", show.StatusFailed, fmt.Errorf("%d of %d images failed", failed, done.images))
	default:
		return show.StatusOK
	}
}
