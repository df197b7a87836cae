package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/html"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// page is a page that was read.
type page struct {
	address *url.URL
	body    string
}

// crawler is a loop of three stages:
//
//	frontier ──new──▶ fetch ──page──▶ extract
//	    ▲                                │
//	    └────────────── links ───────────┘
//
// The connection from extract to frontier closes the loop, so frontier accepts commands from it beyond its capacity.
// Each page brings many links, and none is lost.
type crawler struct {
	client   *http.Client
	frontier *stage.Stage[*url.URL]
	fetch    *stage.Stage[*url.URL]
	extract  *stage.Stage[page]

	seen  map[string]bool // addresses that were sent to be fetched; only frontier's one worker uses it
	links atomic.Int64    // links that were followed or already known
	read  func(*url.URL)  // called for each page that was read, by several workers concurrently
}

// newCrawler makes the stages. Options that the lesson does not need keep their defaults.
func newCrawler(client *http.Client, patience time.Duration, read func(*url.URL)) *crawler {
	c := &crawler{client: client, seen: map[string]bool{}, read: read}
	c.frontier = stage.Func("frontier", c.sift, stage.Workers(1, 1))
	c.fetch = stage.Func("fetch", c.get,
		stage.Timeout(patience), stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: 20 * time.Millisecond, Jitter: 0.5}))
	c.extract = stage.Func("extract", c.follow)
	return c
}

// parts returns the stages as parts of a pipeline, in the order in which commands pass them. The pipeline discovers the
// connections between them when handlers use them.
func (c *crawler) parts() pipeline.Part { return pipeline.Join(c.frontier, c.fetch, c.extract) }

// crawl follows all links from an address and returns when no page is left.
func (c *crawler) crawl(ctx context.Context, from *url.URL) error {
	ticket, err := c.frontier.Ask(ctx, from)
	if err != nil {
		return err
	}
	select { // the ticket waits for all commands that were emitted on the way; pages that failed are in Failures
	case <-ticket.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sift forwards an address if it is new.
func (c *crawler) sift(_ context.Context, address *url.URL) behaviour.Outcome {
	c.links.Add(1)
	key := address.String()
	if c.seen[key] {
		return behaviour.OK(nil)
	}
	c.seen[key] = true
	return behaviour.Forward(c.fetch, address)
}

// get fetches a page. An error is retried; if it remains, the command is in Failures.
func (c *crawler) get(ctx context.Context, address *url.URL) behaviour.Outcome {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return behaviour.Error(err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return behaviour.Error(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return behaviour.Error(err)
	}
	if response.StatusCode != http.StatusOK {
		return behaviour.Error(&statusError{response.StatusCode})
	}
	return behaviour.Forward(c.extract, page{address, string(body)})
}

// follow emits all links of a page to the frontier.
func (c *crawler) follow(ctx context.Context, p page) behaviour.Outcome {
	tokens := html.NewTokenizer(strings.NewReader(p.body))
	for kind := tokens.Next(); kind != html.ErrorToken; kind = tokens.Next() {
		if kind != html.StartTagToken {
			continue
		}
		target, ok := href(tokens)
		if !ok {
			continue
		}
		address, err := p.address.Parse(target)
		if err != nil {
			continue // an invalid link leads nowhere
		}
		if err := behaviour.Emit(ctx, c.frontier, address); err != nil {
			return behaviour.Error(err)
		}
	}
	c.read(p.address)
	return behaviour.OK(nil)
}

// href returns the address in an <a> tag.
func href(tokens *html.Tokenizer) (address string, ok bool) {
	name, more := tokens.TagName()
	if string(name) != "a" {
		return "", false
	}
	for more {
		var key, value []byte
		if key, value, more = tokens.TagAttr(); string(key) == "href" {
			return string(value), true
		}
	}
	return "", false
}

// statusError is an answer other than 200.
type statusError struct{ status int }

// Error returns the status in words.
func (e *statusError) Error() string {
	return fmt.Sprintf("status %d %s", e.status, http.StatusText(e.status))
}
