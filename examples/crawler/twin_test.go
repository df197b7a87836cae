package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/golda-dev/golda/examples/internal/show"
)

// byHand is crawl without Golda: one goroutine keeps the frontier, and as many as fetch has workers fetch pages and extract
// their links. A crash of one of them ends the process.
func byHand(ctx context.Context, client *http.Client, limit time.Duration, from *url.URL, progress io.Writer) (*result, error) {
	r := newResult()
	defer show.Every(progress, r.progress)()
	g, ctx := errgroup.WithContext(ctx)
	frontier := make(chan *url.URL)
	found := make(chan []*url.URL)
	get := getter(client)

	g.Go(func() error {
		defer close(frontier)
		queue := []*url.URL{from}
		seen := map[string]bool{from.String(): true}
		r.links.Add(1)
		for fetching := 0; fetching > 0 || len(queue) > 0; {
			var next *url.URL
			var out chan<- *url.URL // nil while the queue is empty
			if len(queue) > 0 {
				next, out = queue[0], frontier
			}
			select {
			case out <- next:
				queue = queue[1:]
				fetching++
			case links := <-found:
				fetching--
				r.links.Add(int64(len(links)))
				for _, address := range links {
					if key := address.String(); !seen[key] {
						seen[key] = true
						queue = append(queue, address)
					}
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})

	for range fetchers {
		g.Go(func() error {
			for address := range frontier {
				var links []*url.URL
				if p, err := try(ctx, get, limit, address); err != nil {
					r.fail(address, err)
				} else {
					r.read(address)
					links = p.links()
				}
				select {
				case found <- links:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return nil
		})
	}
	return r, g.Wait()
}

var errSlow = errors.New("took longer than the limit")

// getting fetches a page once.
type getting = func(ctx context.Context, address *url.URL) (page, error)

// try fetches a page in three attempts, with pauses in between.
func try(ctx context.Context, get getting, limit time.Duration, address *url.URL) (p page, err error) {
	pause := 20 * time.Millisecond
	for attempt := 1; ; attempt++ {
		once, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
		p, err = get(once, address)
		cancel()
		if err == nil || attempt == 3 || ctx.Err() != nil {
			return p, err
		}
		jitter := 0.5 + rand.Float64()
		select {
		case <-time.After(time.Duration(float64(pause) * jitter)):
		case <-ctx.Done():
			return p, context.Cause(ctx)
		}
		pause *= 2
	}
}
