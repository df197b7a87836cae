package main

import (
	"context"
	"hash/maphash"
	"io"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/golda-dev/golda/examples/internal/show"
)

// byHand is analyse without Golda: goroutines that parse, and goroutines that each count the records of some of the hosts. As
// many lines and records are queued as there. A crash of the parser ends the process.
func byHand(ctx context.Context, log *input, crash float64, progress io.Writer) (*report, error) {
	defer show.Every(progress, log.progress)()
	sum := newReport()
	n := runtime.GOMAXPROCS(0)
	g, ctx := errgroup.WithContext(ctx)

	lines := make(chan line, 1024)
	g.Go(func() error {
		defer close(lines)
		return log.lines(ctx, func(l line) error { return send(ctx, lines, l) })
	})

	shards := make([]chan record, n)
	for i := range shards {
		shards[i] = make(chan record, 1024/n)
	}
	parse, seed := parser(crash), maphash.MakeSeed()
	var parsers sync.WaitGroup
	for range n {
		parsers.Add(1)
		g.Go(func() error {
			defer parsers.Done()
			for l := range lines {
				r, err := parse(ctx, l)
				if err != nil {
					sum.reject(l, err)
					continue
				}
				shard := maphash.String(seed, r.host) % uint64(n)
				if err := send(ctx, shards[shard], r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		parsers.Wait()
		for _, shard := range shards {
			close(shard)
		}
		return nil
	})

	for _, shard := range shards {
		g.Go(func() error {
			hosts := map[string]*totals{}
			for r := range shard {
				t := hosts[r.host]
				if t == nil {
					t = &totals{}
					hosts[r.host] = t
				}
				t.add(r)
			}
			for host, t := range hosts {
				sum.merge(host, *t)
			}
			return nil
		})
	}
	return sum, g.Wait()
}

// send sends a value to a channel, unless ctx ends first.
func send[T any](ctx context.Context, to chan<- T, v T) error {
	select {
	case to <- v:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
