// Crawler follows the links of a generated web site until no page is left: a
// loop that fans out, with retries, a time limit, slow pages and pages that
// fail.
//
//	go run ./examples/crawler
//	go run ./examples/crawler -pages 20000 -links 10
//	go run ./examples/crawler -slow 0.2 -flaky 0.2 -broken 0.1
//	go run ./examples/crawler -store /tmp/crawl     # kill it, and start it again: it continues
//
// Every page that can be read is read once. Every page that cannot be read is
// reported with its error. At the end both are compared with a sequential
// search of the site; the exit status is 1 if they differ.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/golda-dev/golda/examples/internal/show"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// config holds the values of the flags.
type config struct {
	pages, links int
	seed         uint64
	share        shares
	delay, limit time.Duration
	store        string
	quiet        bool
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "crawler", err)
	}
	return show.Status(stderr, "crawler", c.work(ctx, stdout, stderr))
}

// work serves the site, crawls it and reports the result.
func (c config) work(ctx context.Context, stdout, stderr io.Writer) error {
	s := &site{pages: c.pages, links: c.links, seed: c.seed, share: c.share, delay: c.delay}
	base, closeSite, err := serve(ctx, s)
	if err != nil {
		return err
	}
	defer closeSite()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()

	if c.quiet {
		stderr = nil
	}
	begin := time.Now()
	client := &http.Client{Transport: transport}
	var r *result
	if c.store == "" {
		r, err = crawl(ctx, client, c.limit, base.JoinPath(path(0)), stderr)
	} else {
		r, err = c.crawlIn(ctx, client, s, base, stderr)
	}
	if err != nil {
		return err
	}
	return r.report(stdout, s, base, time.Since(begin))
}

// serve serves the site on a free port of this machine.
func serve(ctx context.Context, s *site) (base *url.URL, stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // Close ends it
	}()
	stop = func() {
		_ = server.Close()
		<-ended
	}
	return &url.URL{Scheme: "http", Host: l.Addr().String()}, stop, nil
}

func parseFlags(args []string, help io.Writer) (c config, err error) {
	flags := flag.NewFlagSet("crawler", flag.ContinueOnError)
	flags.IntVar(&c.pages, "pages", 5000, "`number` of pages of the site")
	flags.IntVar(&c.links, "links", 40, "`number` of links on each page")
	flags.Uint64Var(&c.seed, "seed", 1, "`number` that generates the links and the faults of the site")
	flags.Float64Var(&c.share.slow, "slow", 0.02, "`part` of the pages that answer late")
	flags.Float64Var(&c.share.flaky, "flaky", 0.05, "`part` of the pages whose first answer is 503")
	flags.Float64Var(&c.share.broken, "broken", 0.02, "`part` of the pages whose answer is 404")
	flags.Float64Var(&c.share.hanging, "hanging", 0.001, "`part` of the pages that do not answer")
	flags.DurationVar(&c.delay, "delay", 100*time.Millisecond, "`duration` that a slow page takes")
	flags.DurationVar(&c.limit, "limit", time.Second, "`duration` after which an attempt to fetch a page ends")
	flags.StringVar(&c.store, "store", "", "`directory` that keeps the crawl; when the program was killed, the next one goes on there")
	flags.BoolVar(&c.quiet, "quiet", false, "no line of progress every second")
	const about = "crawler follows the links of a generated web site: a loop that fans out, with retries and failures."
	if err := show.Parse(flags, args, about, help); err != nil {
		return c, err
	}
	return c, errors.Join(show.NoArguments(flags), c.check())
}

func (c config) check() error {
	faults := []error{
		show.Fault(c.pages < 1, "-pages %d: at least 1", c.pages),
		show.Fault(c.links < 2, "-links %d: at least 2", c.links),
	}
	sum := 0.0
	for _, f := range []struct {
		name  string
		value float64
	}{{"slow", c.share.slow}, {"flaky", c.share.flaky}, {"broken", c.share.broken}, {"hanging", c.share.hanging}} {
		faults = append(faults, show.Fault(f.value < 0 || f.value > 1, "-%s %v: from 0 to 1", f.name, f.value))
		sum += f.value
	}
	return errors.Join(append(faults,
		show.Fault(sum > 1, "-slow, -flaky, -broken and -hanging: %.3f in all, at most 1", sum),
		show.Fault(c.delay < 0, "-delay %v: at least 0", c.delay),
		show.Fault(c.limit <= 0, "-limit %v: above 0", c.limit),
	)...)
}
