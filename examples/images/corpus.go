package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/golda-dev/golda/examples/images/captcha"
)

// corpus is a set of captchas to draw into a directory.
type corpus struct {
	dir  string
	n    int
	set  captcha.Sizes
	seed uint64
}

// draw draws the captchas, with one goroutine for each processor, each of which
// has one captcha in memory. It ends early, with the reason, when ctx ends.
func (c corpus) draw(ctx context.Context, box *outbox, drawn *atomic.Int64) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(c.n, runtime.GOMAXPROCS(0)) {
		group.Go(func() error {
			artist, err := captcha.NewPainter()
			if err != nil {
				return err
			}
			for i := int(next.Add(1)); i <= c.n; i = int(next.Add(1)) {
				if err := c.one(ctx, artist, box, i); err != nil {
					return err
				}
				drawn.Add(1)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("drawing captchas: %w", err)
	}
	return nil
}

func (c corpus) one(ctx context.Context, artist *captcha.Painter, box *outbox, i int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	file, err := artist.JPEG(c.seed, c.set, i)
	if err != nil {
		return err
	}
	return box.put(filepath.Join(c.dir, c.name(i)), file)
}

// name returns a name with everything that a captcha depends on, so that
// another run may draw into the same directory without damaging it.
func (c corpus) name(i int) string {
	return fmt.Sprintf("captcha-%s-%d-%05d.jpg", c.set, c.seed, i)
}

func (c corpus) names() []string {
	names := make([]string, c.n)
	for i := range names {
		names[i] = c.name(i + 1)
	}
	return names
}
