package main

import (
	"context"
	"iter"

	"github.com/golda-dev/golda/stage"
)

// source hands jobs to the first stage, and holds no more than window of them
// open: to hand in another it waits for the oldest. With the small rooms of the
// stages this keeps the memory of a run the same for 500 images and for
// 5,000.
type source struct {
	entry    *stage.Stage[*job]
	window   int
	progress progress

	open     []pending
	failures failures
}

// pending is a job that was accepted and has not ended.
type pending struct {
	path   string
	ticket *stage.Ticket
}

// window is how many images may be under way: enough to keep every worker of a
// stage busy and its room full.
func window(c config) int { return capacity + 4*c.workers }

// run hands in all jobs, or as many as it can before ctx ends, and waits for the end
// of each that was accepted. The error says why the pipeline took no more.
func (s *source) run(ctx context.Context, jobs iter.Seq[*job]) error {
	var refused error
	for j := range jobs {
		if len(s.open) == s.window {
			s.collect()
		}
		ticket, err := s.submit(ctx, j)
		if err != nil {
			refused = err
			break
		}
		s.open = append(s.open, pending{j.path, ticket})
	}
	for len(s.open) > 0 {
		s.collect()
	}
	return refused
}

func (s *source) submit(ctx context.Context, j *job) (*stage.Ticket, error) {
	if err := ctx.Err(); err != nil { // a stage with room takes a command of a context that has ended
		return nil, err
	}
	return s.entry.Ask(ctx, j)
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
	s.progress.step()
}
