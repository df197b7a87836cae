package main

import (
	"context"
	"errors"
	"iter"

	"github.com/golda-dev/golda/stage"
)

// source hands jobs to the first stage, and holds no more than window of them
// open, with no more than budget bytes of pixels together: to hand in another it waits for the
// oldest. This keeps the memory of a run about the same for 500 images and for
// 5,000, and for small ones and large ones.
//
// It is the source that waits and not a handler: a worker that several stages share
// might be the only one who could end the image that it waits for.
type source struct {
	entry  *stage.Stage[*job]
	window int
	budget int
	most   int // pixels of an image

	open     []pending
	bytes    int // of those that are open
	begun    int // how many were handed in
	failures failures
}

// pending is a job that was accepted and has not ended.
type pending struct {
	path   string
	bytes  int
	ticket *stage.Ticket
}

// window is how many images may be under way: a roomful, and one for each worker that a
// stage may have.
func window(c config) int { return capacity + c.workers }

// byteBudget is how many bytes of pixels may be under way: 256 MiB, two wallpapers of 16 million pixels or a window of
// smaller images. An image that is larger passes alone.
const byteBudget = 256 << 20

// run hands in all jobs, or as many as it can before ctx ends, and waits for the end
// of each that was accepted. The error says why the pipeline took no more; that ctx
// ended is none.
func (s *source) run(ctx context.Context, jobs iter.Seq[*job]) (refused error) {
	for j := range jobs {
		if refused = s.hand(ctx, j); refused != nil {
			break
		}
	}
	for len(s.open) > 0 {
		s.collect()
	}
	if ctx.Err() != nil && errors.Is(refused, ctx.Err()) {
		return nil
	}
	return refused
}

// hand hands in a job when there is room for it. What is larger than the budget is
// under way alone.
func (s *source) hand(ctx context.Context, j *job) error {
	size := weigh(j.path, s.most)
	for len(s.open) > 0 && (len(s.open) == s.window || s.bytes+size > s.budget) {
		s.collect()
	}
	if err := ctx.Err(); err != nil { // a stage with room takes a command of a context that has ended
		return err
	}
	// An image that was begun is finished, even if ctx ends. The wait for a slot is short: the window bounds what is open.
	ticket, err := s.entry.Ask(context.WithoutCancel(ctx), j)
	if err != nil {
		return err
	}
	s.begun++
	s.bytes += size
	s.open = append(s.open, pending{j.path, size, ticket})
	return nil
}

// collect waits for the oldest job. It has no other way out: every accepted command
// ends, whatever becomes of the pipeline.
func (s *source) collect() {
	first := s.open[0]
	s.open = s.open[1:]
	<-first.ticket.Done()
	if err := first.ticket.Err(); err != nil {
		s.failures.add(first.path, err)
	}
	s.bytes -= first.bytes
}
