package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// fetchers is how many pages are fetched at once.
const fetchers = 8

// crawl follows all links from an address, and returns when no page is left. An
// attempt to fetch a page ends after the limit; there are three.
//
//	frontier ──new──▶ fetch ──page──▶ extract
//	    ▲                                │
//	    └────────────── links ───────────┘
//
// The connection from extract to frontier closes the loop, so frontier accepts
// commands from it beyond its capacity. When fetch is full, frontier waits.
func crawl(ctx context.Context, client *http.Client, limit time.Duration, from *url.URL, progress io.Writer) (*result, error) {
	r := newResult()
	seen := map[string]bool{} // addresses that were sent to be fetched; frontier has one worker
	frontier := stage.FlatMap("frontier", func(_ context.Context, links []*url.URL, emit func(*url.URL) error) error {
		r.links.Add(int64(len(links)))
		for _, address := range links {
			if key := address.String(); !seen[key] {
				seen[key] = true
				if err := emit(address); err != nil {
					return err
				}
			}
		}
		return nil
	}, stage.Workers(1, 1))
	fetch := stage.Map("fetch", getter(client), stage.Workers(fetchers, fetchers), stage.Timeout(limit),
		stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: 20 * time.Millisecond, Jitter: 0.5}))
	extract := stage.Map("extract", func(_ context.Context, p page) ([]*url.URL, error) {
		r.read(p.address)
		return p.links(), nil
	})

	failed := func(l stage.DeadLetter) {
		if address, ok := l.Command.(*url.URL); ok {
			r.fail(address, l.Err)
		}
	}
	p, err := pipeline.New("crawler",
		pipeline.Feed("start", frontier, source.Slice([][]*url.URL{{from}})),
		stage.Chain(stage.Chain(frontier, fetch), extract).To(frontier),
		pipeline.Failures(failed), pipeline.DeadLetters(failed), pipeline.DrainTimeout(limit))
	if err != nil {
		return nil, err
	}
	defer show.Every(progress, r.progress)()
	// Run returns when the first address and all addresses found from it have
	// ended
	err = errors.Join(p.Run(ctx), context.Cause(ctx))
	r.law = show.Law(p.Snapshot())
	return r, err
}
