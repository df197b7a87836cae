package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/golda-dev/golda/examples/internal/board"
	"github.com/golda-dev/golda/examples/internal/show"

	"github.com/golda-dev/golda/pipeline"
)

// stopTime is how long the stages may take to stop when no connection is left.
const stopTime = 5 * time.Second

// run runs the program and returns its exit status. When ctx ends, no more
// requests are accepted; those in progress are answered.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return show.StatusOK
	}
	if err != nil {
		return show.Faults(stderr, "webserver", show.StatusUsage, err)
	}
	r := &runner{config: c, stdout: stdout, stderr: stderr}
	if err := r.prepare(ctx); err != nil {
		return show.Faults(stderr, "webserver", show.StatusUsage, err)
	}
	return r.run(ctx)
}

// runner is one run of the program with valid flags.
type runner struct {
	config
	stdout, stderr io.Writer

	server           *server
	listener, gauges net.Listener
	page             *board.Board
	rooted           *os.Root
}

// prepare does everything that can fail before anything is started.
func (r *runner) prepare(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			r.release()
		}
	}()
	site, err := r.openSite()
	if err != nil {
		return err
	}
	if r.listener, err = show.Listen(ctx, "-addr", r.addr); err != nil {
		return err
	}
	if r.metrics != "" {
		if r.gauges, err = show.Listen(ctx, "-metrics", r.metrics); err != nil {
			return err
		}
	}
	if r.page, err = board.Listen(ctx, r.dashboard); err != nil {
		return err
	}
	l := defaultLimits()
	l.connections = r.connections
	r.server = newServer(l, site, r.cache)
	if err := r.server.plan(staff{r.policy, r.workers}, r.stderr, r.page.Tap()); err != nil {
		return err
	}
	return r.server.open(r.listener)
}

// release closes the listeners and the site's directory.
func (r *runner) release() {
	r.page.Close()
	for _, l := range []net.Listener{r.listener, r.gauges} {
		if l != nil {
			_ = l.Close() // it may be closed already
		}
	}
	if r.rooted != nil {
		_ = r.rooted.Close() // it was only read
	}
}

func (r *runner) openSite() (fs.FS, error) {
	if r.root == "" {
		return demoSite()
	}
	var err error
	if r.rooted, err = os.OpenRoot(r.root); err != nil {
		return nil, fmt.Errorf("-root: %w", err)
	}
	return rooted{r.rooted}, nil
}

func (r *runner) run(ctx context.Context) int {
	defer r.release()
	s := r.server
	defer show.ServeMetrics(r.gauges, s.line)() //nolint:contextcheck // metrics are served while an interrupted run drains
	unserve, err := r.page.Serve(s.line)
	if err != nil {
		s.poller.close()
		return show.Faults(r.stderr, "webserver", show.StatusFailed, err)
	}
	defer unserve()
	if err := s.line.Start(context.WithoutCancel(ctx)); err != nil {
		s.poller.close()
		return show.Faults(r.stderr, "webserver", show.StatusFailed, err)
	}
	_, _ = fmt.Fprintf(r.stderr, "webserver: serving at http://%s with policy %s; stop with Ctrl-C\n", r.listener.Addr(), r.policy.Name())
	err = s.serveUntil(ctx)
	end, stopped := settle(s.line) //nolint:contextcheck // ctx has ended
	done := result{server: s, end: end, wall: s.now(), peak: show.PeakMemory()}
	err = errors.Join(cmp.Or(s.line.Err(), err, stopped), done.tell(r.stdout, r.json))
	if err != nil {
		return show.Faults(r.stderr, "webserver", show.StatusFailed, err)
	}
	return show.StatusOK
}

// serveUntil serves until ctx ends or the pipeline stops, and all answers are
// written.
func (s *server) serveUntil(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.serve() }() //nolint:contextcheck // it is asked to drain, and then continues for a while
	select {
	case <-ctx.Done():
		s.drain(s.limits.drain)
	case <-s.line.Done():
		s.drain(0)
	case err := <-served:
		return err
	}
	return <-served
}

// settle stops the pipeline. It takes the snapshot when all commands have ended
// but the workers still exist, so that they are counted.
func settle(p *pipeline.Pipeline) (pipeline.Snapshot, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	drained := p.Drain(ctx)
	end := p.Snapshot()
	return end, cmp.Or(p.Stop(ctx), drained)
}
