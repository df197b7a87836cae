// Ingest is an HTTP server that feeds a pipeline and loses no job when it is
// stopped: the server stops first, then the pipeline drains.
//
//	go run ./examples/ingest                     # two seconds of requests by eight clients of its own
//	go run ./examples/ingest -clients 32 -capacity 4
//	go run ./examples/ingest -clients 0 -for 0 -listen 127.0.0.1:8080   # serves until SIGTERM
//	go run ./examples/ingest -for 1h -dashboard :8077                   # while it runs: http://127.0.0.1:8077
//
// POST /jobs queues the job in the request's body and answers 202. POST
// /jobs/done answers 204 when the job is done. When the pipeline is full, both
// answer 503 with Retry-After. The clients record each answer. At the end
// ingest compares the answers with the jobs that were done. The exit status is
// 1 if a job that was answered 202 or 204 was not done exactly once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/golda-dev/golda/examples/internal/board"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
)

func main() { show.Main(run) }

// config holds the values of the flags.
type config struct {
	listen, dashboard string
	clients, capacity int
	each, length      time.Duration
	patience          time.Duration
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "ingest", err)
	}
	return show.Status(stderr, "ingest", c.work(ctx, stdout, stderr))
}

// work serves until ctx or the time of -for ends, and reports the finished
// jobs.
func (c config) work(ctx context.Context, stdout, stderr io.Writer) error {
	l, err := show.Listen(ctx, "-listen", c.listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // closes the listener if the server was not started; the server closes it otherwise
	dash, err := board.Listen(ctx, c.dashboard)
	if err != nil {
		return err
	}
	defer dash.Close()
	if c.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.length)
		defer cancel()
	}
	clients := newLoad(l.Addr().String())
	store := func(job string) {
		time.Sleep(c.each)
		clients.done(job)
	}
	if c.clients == 0 {
		_, _ = fmt.Fprintf(stdout, "listening: %s\n", l.Addr())
		store = func(string) { time.Sleep(c.each) } // there are no answers to compare with
	}
	s, err := newService(c, store, dash.Tap(),
		pipeline.Logger(slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))))
	if err != nil {
		return err
	}
	stop, err := dash.Serve(s.p)
	if err != nil {
		return err
	}
	defer stop()
	join := clients.start(ctx, c.clients)
	err = s.run(ctx, l)
	join()
	if c.clients > 0 {
		err = errors.Join(err, clients.report(stdout))
	}
	return errors.Join(err, s.report(stdout))
}

// report writes how the pipeline ended, and returns an error if a command is
// not accounted for.
func (s *service) report(w io.Writer) error {
	sn := s.p.Snapshot()
	_, _ = fmt.Fprintf(w, "ended: %s\nlaw: %s\n", s.p.Ending(), show.Law(sn))
	if !sn.Balanced() || sn.InFlight > 0 {
		return fmt.Errorf("the accounts do not balance: %s", sn.Law())
	}
	return nil
}

func parseFlags(args []string, help io.Writer) (c config, err error) {
	flags := flag.NewFlagSet("ingest", flag.ContinueOnError)
	flags.StringVar(&c.listen, "listen", "127.0.0.1:0", "`address` that the server listens at; port 0 is any free one")
	flags.StringVar(&c.dashboard, "dashboard", "", board.Usage)
	flags.IntVar(&c.clients, "clients", 8, "`number` of clients in this process; every second one waits for its jobs to be done")
	flags.IntVar(&c.capacity, "capacity", 8, "`number` of jobs that each of the two stages queues")
	flags.DurationVar(&c.each, "each", 5*time.Millisecond, "`duration` of a job")
	flags.DurationVar(&c.length, "for", 2*time.Second, "`duration` after which the server stops; 0 is when SIGTERM or SIGINT comes")
	flags.DurationVar(&c.patience, "patience", 20*time.Second, "`duration` that the stop of server and pipeline may take")
	const about = "ingest is an HTTP server that feeds a pipeline: when it stops, the server stops first and the pipeline drains then."
	if err := show.Parse(flags, args, about, help); err != nil {
		return c, err
	}
	return c, errors.Join(
		show.NoArguments(flags),
		show.Fault(c.clients < 0, "-clients %d: at least 0", c.clients),
		show.Fault(c.capacity < 1, "-capacity %d: at least 1", c.capacity),
		show.Fault(c.each < 0, "-each %v: at least 0", c.each),
		show.Fault(c.length < 0, "-for %v: at least 0", c.length),
		show.Fault(c.patience <= 0, "-patience %v: above 0", c.patience),
	)
}
