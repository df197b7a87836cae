// Await has one worker and ten thousand fetches in progress: the handler waits
// as if it blocked, but holds no worker meanwhile.
//
//	go run ./examples/await
//	go run ./examples/await -fetches 10000 -instances 10000 -each 1s
//	go run ./examples/await -instances 100      # at most a hundred at once: takes a hundred times as long
//
// There is no server: the stage "origin" stands for one, and answers each call
// after the time that -each gives. The stage "fetch" calls it with
// [stage.Call], which suspends a handler without a goroutine, and measures the
// page with [coroutine.Await], which is for code that blocks and takes a
// goroutine while it runs. Both stages have one worker each.
//
// It prints the largest number of suspended fetches, how long all fetches took,
// and the law.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// config holds the values of the flags.
type config struct {
	fetches, instances int
	each               time.Duration
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "await", err)
	}
	return show.Status(stderr, "await", c.work(ctx, stdout, stderr))
}

// work fetches all pages and reports the result.
func (c config) work(ctx context.Context, stdout, stderr io.Writer) error {
	origin := stage.Coroutine("origin", c.answer, stage.Workers(1, 1), stage.Instances(c.instances))
	fetch := stage.Coroutine("fetch", func(co coroutine.Context, url string) behaviour.Outcome { //nolint:contextcheck // it is its context
		page, err := stage.Call[string](co, origin, url)
		if err != nil {
			return behaviour.Error(err)
		}
		size, err := coroutine.Await(co, func(context.Context) (int, error) { return len(page), nil })
		if err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(size)
	}, stage.Workers(1, 1), stage.Instances(c.instances))

	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	p, err := pipeline.New("await", fetch, origin, pipeline.Logger(log))
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	begin := time.Now()
	most, size, err := c.fetchAll(ctx, fetch)
	if stopped := p.Stop(ctx); err == nil {
		err = stopped
	}
	_, _ = fmt.Fprintf(stdout, "fetches: %d, %d bytes\nsuspended at most: %d\ntook: %v\nlaw: %s\n",
		c.fetches, size, most, time.Since(begin).Round(time.Millisecond), p.Snapshot().Law())
	return err
}

// answer is the handler of the origin; it answers after a pause.
func (c config) answer(co coroutine.Context, url string) behaviour.Outcome {
	if err := coroutine.Sleep(co, c.each); err != nil {
		return behaviour.Error(err)
	}
	return behaviour.OK("<html>" + url + "</html>")
}

// fetchAll requests all pages and waits for them. It returns the largest number
// of suspended fetches that it saw, and how many bytes arrived.
func (c config) fetchAll(ctx context.Context, fetch *stage.Stage[string]) (most, size int, err error) {
	tickets := make([]*stage.Ticket, c.fetches)
	for i := range tickets {
		if tickets[i], err = fetch.Ask(ctx, fmt.Sprintf("/page/%05d", i)); err != nil {
			return most, size, err
		}
	}
	look := time.NewTicker(max(c.each/100, time.Millisecond))
	defer look.Stop()
	for _, ticket := range tickets {
		for waits := true; waits; {
			most = max(most, fetch.Snapshot().Queue.Suspended)
			select {
			case <-ticket.Done():
				waits = false
			case <-look.C:
			}
		}
		if err := ticket.Err(); err != nil {
			return most, size, err
		}
		size += ticket.Result().(int)
	}
	return most, size, nil
}

func parseFlags(args []string, help io.Writer) (c config, err error) {
	flags := flag.NewFlagSet("await", flag.ContinueOnError)
	flags.IntVar(&c.fetches, "fetches", 10_000, "`number` of pages that are fetched")
	flags.IntVar(&c.instances, "instances", 10_000, "`number` of fetches that may be in progress at once")
	flags.DurationVar(&c.each, "each", time.Second, "`duration` that the origin takes for each page")
	const about = "await has one worker and ten thousand fetches in progress: a handler that waits holds no worker."
	if err := show.Parse(flags, args, about, help); err != nil {
		return c, err
	}
	return c, errors.Join(
		show.NoArguments(flags),
		show.Fault(c.fetches < 1, "-fetches %d: at least 1", c.fetches),
		show.Fault(c.instances < 1, "-instances %d: at least 1", c.instances),
		show.Fault(c.each < 0, "-each %v: at least 0", c.each),
	)
}
