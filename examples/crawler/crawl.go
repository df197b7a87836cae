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
	"github.com/golda-dev/golda/stage"
)

// crawl follows all links from an address, and returns when no page is left. An attempt to fetch a page ends after the limit;
// there are three.
//
//	frontier ──new──▶ fetch ──page──▶ extract
//	    ▲                                │
//	    └────────────── links ───────────┘
//
// The connection from extract to frontier closes the loop, so frontier accepts commands from it beyond its capacity.
// Each page brings many links, and none is lost.
func crawl(ctx context.Context, client *http.Client, limit time.Duration, from *url.URL, progress io.Writer) (*result, error) {
	r := newResult()
	seen := map[string]bool{} // addresses that were sent to be fetched; frontier has one worker
	frontier := stage.Filter("frontier", func(_ context.Context, address *url.URL) (bool, error) {
		r.links.Add(1)
		known := seen[address.String()]
		seen[address.String()] = true
		return !known, nil
	}, stage.Workers(1, 1))
	fetch := stage.Map("fetch", func(ctx context.Context, address *url.URL) (page, error) {
		return get(ctx, client, address)
	}, stage.Timeout(limit), stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: 20 * time.Millisecond, Jitter: 0.5}))
	extract := stage.FlatMap("extract", func(_ context.Context, p page, emit func(*url.URL) error) error {
		if err := p.eachLink(emit); err != nil {
			return err
		}
		r.read(p.address)
		return nil
	})

	failed := func(l stage.DeadLetter) { r.fail(l.Command.(*url.URL), l.Err) }
	loop := stage.Chain3(frontier, fetch, extract).To(frontier)
	p, err := pipeline.New("crawler", loop, pipeline.Failures(failed), pipeline.DeadLetters(failed))
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	defer show.Every(progress, r.progress)()
	_, err = frontier.Call(ctx, from) // returns when all that came of the first address has ended
	err = errors.Join(err, p.Stop(ctx))
	r.law = show.Law(p.Snapshot())
	return r, err
}
