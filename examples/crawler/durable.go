package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// store is a crawl that is kept in a directory. Its addresses are relative to
// the site.
type store struct {
	conn     *nats.Conn
	frontier *nats.Inlet[string] // addresses to be fetched
	seen     nats.Outcomes       // addresses that have been in the frontier
	read     nats.Outcomes       // pages that were read
	met      sync.Map            // pages that are known to be in seen
	base     *url.URL            // of the site
}

func openStore(ctx context.Context, dir string, base *url.URL) (s *store, err error) {
	s = &store{base: base}
	if s.conn, err = nats.Embed(dir, nats.Store{}); err != nil {
		return nil, err
	}
	s.frontier, err = nats.NewInlet(ctx, s.conn, "frontier", nats.Options[string]{
		UntilEmpty: true, MaxInFlight: 256, AckWait: time.Second,
		Retry: stage.RetryPolicy{Attempts: 1000, If: func(err error) bool { // a process may be killed often
			_, answered := errors.AsType[*statusError](err)
			return !answered && !errors.Is(err, stage.ErrTimeout)
		}},
	})
	if err == nil {
		s.seen, err = s.conn.Outcomes(ctx, "seen", 0)
	}
	if err == nil {
		s.read, err = s.conn.Outcomes(ctx, "read", 0)
	}
	if err != nil {
		return nil, errors.Join(err, s.conn.Close(ctx))
	}
	return s, nil
}

// crawl is the function crawl with a frontier that outlives the process. The
// loop goes through an inlet:
//
//	inlet ──▶ fetch ──page──▶ extract ──new──▶ frontier ──▶ remember
//	  ▲                                            │
//	  └────────────────────────────────────────────┘
//
// An address is remembered when it is in the inlet, and not before. So a
// process that is killed in between has an address fetched twice, and never
// lost.
func (s *store) crawl(ctx context.Context, client *http.Client, limit time.Duration, progress io.Writer) (*result, error) {
	r := newResult()
	get := getter(client)
	fetch := stage.Map("fetch", func(ctx context.Context, address string) (page, error) {
		target, err := s.base.Parse(address)
		if err != nil {
			return page{}, err
		}
		return get(ctx, target)
	}, stage.Workers(fetchers, fetchers), stage.Timeout(limit),
		stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: 20 * time.Millisecond, Jitter: 0.5}))
	extract := stage.FlatMap("extract", func(ctx context.Context, p page, emit func(string) error) error {
		for _, link := range p.links() {
			r.links.Add(1)
			address := s.relative(link)
			known, err := s.knows(ctx, address)
			if err == nil && !known {
				err = emit(address)
			}
			if err != nil {
				return err
			}
		}
		r.read(p.address)
		_, err := s.read.Add(ctx, s.relative(p.address), nil)
		return err
	})
	frontier := s.frontier.Publisher("frontier", func(address string) string { return address })
	remember := stage.Sink("remember", s.remember)

	p, err := pipeline.New("crawler",
		pipeline.Feed("inlet", fetch, s.frontier.Feed), fetch.To(extract), extract.To(frontier), frontier.To(remember),
		pipeline.DrainTimeout(limit))
	if err != nil {
		return nil, err
	}
	root := path(0)
	known, err := s.knows(ctx, root)
	if err == nil && !known {
		if err = s.frontier.Publish(ctx, root, root); err == nil {
			err = s.remember(ctx, root)
		}
	}
	if err != nil {
		return nil, err
	}
	defer show.Every(progress, r.progress)()
	err = errors.Join(p.Run(ctx), context.Cause(ctx))
	r.law = show.Law(p.Snapshot())
	return r, err
}

// relative returns an address without the site, which is on another port each
// time.
func (s *store) relative(address *url.URL) string {
	return strings.TrimPrefix(address.String(), s.base.String())
}

// knows returns whether an address is, or was, in the frontier.
func (s *store) knows(ctx context.Context, address string) (bool, error) {
	if _, met := s.met.Load(address); met {
		return true, nil
	}
	_, found, err := s.seen.Get(ctx, address)
	if found {
		s.met.Store(address, true)
	}
	return found, err
}

// remember notes an address that is in the frontier.
func (s *store) remember(ctx context.Context, address string) error {
	if _, met := s.met.Load(address); met {
		return nil
	}
	_, err := s.seen.Add(ctx, address, nil)
	if err == nil {
		s.met.Store(address, true)
	}
	return err
}

// result adds to a result the pages that earlier processes have read, out of
// the given number, and all pages that failed for good.
func (s *store) result(ctx context.Context, r *result, pages int) error {
	clear(r.pages)
	for n := range pages {
		_, found, err := s.read.Get(ctx, path(n))
		if err != nil {
			return err
		}
		if found {
			r.read(s.base.JoinPath(path(n)))
		}
	}
	for letter, err := range s.frontier.Letters(ctx) {
		if err != nil {
			return err
		}
		address, err := s.base.Parse(letter.ID)
		if err != nil {
			return err
		}
		if r.failed[address.String()] == 0 { // a page may be fetched twice
			r.fail(address, errors.New(letter.Err))
		}
	}
	return nil
}

// crawlIn crawls with a store in a directory: it continues a crawl that was
// begun there.
func (c config) crawlIn(ctx context.Context, client *http.Client, s *site, base *url.URL, progress io.Writer) (r *result, err error) {
	st, err := openStore(ctx, c.store, base)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.conn.Close(context.WithoutCancel(ctx))) }()
	if r, err = st.crawl(ctx, client, c.limit, progress); err != nil {
		return nil, err
	}
	return r, st.result(ctx, r, s.pages)
}
