package main

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/golda-dev/golda/stage"
)

// source submits jobs to the first stage. It keeps at most window of them open,
// with at most budget bytes of pixels together: before it submits another, it
// waits for the oldest. This keeps the memory of a run about the same for 500
// images and for 5,000, and for small ones and large ones.
//
// The source waits, not a handler: if several stages share a worker, the
// handler might occupy the only worker that could end the image that it waits
// for.
type source struct {
	entry  *stage.Stage[*job]
	window int
	budget int
	most   int // pixels of an image

	open     []pending
	bytes    int // of the open images
	begun    int // how many were submitted
	failures failures
}

// pending is a job that was accepted and has not ended.
type pending struct {
	path   string
	bytes  int
	ticket *stage.Ticket
}

// window returns how many images may be in progress: a full inbox, and one for
// each worker that a stage may have.
func window(c config) int { return capacity + c.workers }

// byteBudget is how many bytes of pixels may be in progress: 256 MiB, two
// wallpapers of 16 million pixels or a window of smaller images. A larger image
// passes alone.
const byteBudget = 256 << 20

// run submits all jobs, or as many as it can before ctx ends, and waits for the
// end of each that was accepted. The error says why the pipeline accepted no
// more; the end of ctx is not an error.
func (s *source) run(ctx context.Context, jobs iter.Seq[*job]) (refused error) {
	for j := range jobs {
		if refused = s.submit(ctx, j); refused != nil {
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

// submit submits a job when the window and the budget allow it. An image that
// is larger than the budget is in progress alone.
func (s *source) submit(ctx context.Context, j *job) error {
	size := weigh(j.path, s.most)
	for len(s.open) > 0 && (len(s.open) == s.window || s.bytes+size > s.budget) {
		s.collect()
	}
	if err := ctx.Err(); err != nil { // a stage with a free slot accepts a command although its context has ended
		return err
	}
	// An image that was started is finished, even if ctx ends. The wait for a
	// slot is short: the window limits the open images. A policy or an operator
	// may have the stage refuse it for now.
	ticket, err := s.entry.Ask(context.WithoutCancel(ctx), j)
	for err != nil {
		overload, later := stage.Overloaded(err)
		if !later {
			return err
		}
		if err := sleep(ctx, overload.RetryAfter); err != nil {
			return err
		}
		ticket, err = s.entry.Ask(context.WithoutCancel(ctx), j)
	}
	s.begun++
	s.bytes += size
	s.open = append(s.open, pending{j.path, size, ticket})
	return nil
}

// sleep waits for a time, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// collect waits for the oldest job. It needs no other way out: every accepted
// command ends, even if the pipeline fails.
func (s *source) collect() {
	first := s.open[0]
	s.open = s.open[1:]
	<-first.ticket.Done()
	if err := first.ticket.Err(); err != nil {
		s.failures.add(first.path, err)
	}
	s.bytes -= first.bytes
}
