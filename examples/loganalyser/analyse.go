package main

import (
	"context"
	"errors"
	"io"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// analyse reads a log and sums it up by host. The parser crashes in a share of
// its calls.
//
//	log ──line──▶ parse ──record──▶ count, by host
//
// Many lines are parsed at once. The records of one host are counted one after
// the other, so the totals need no lock. A line whose parser crashed is parsed
// again; one that cannot be parsed is a failure.
func analyse(ctx context.Context, log *input, crash float64, progress io.Writer) (*report, error) {
	sum := newReport()
	reject := func(l stage.DeadLetter) {
		if bad, ok := l.Command.(line); ok {
			sum.reject(bad, l.Err)
		}
	}
	parse := stage.Map("parse", parser(crash), stage.Retry(stage.RetryPolicy{Attempts: 10, If: crashed}))
	count := stage.Keyed("count", byHost, func(host string) *counter { return &counter{host: host, into: sum} })
	p, err := pipeline.New("loganalyser", pipeline.Feed("log", parse, log.lines), parse.To(count),
		pipeline.Failures(reject), pipeline.DeadLetters(reject), pipeline.KeepLetters(letters.Options{Most: -1}))
	if err != nil {
		return nil, err
	}
	defer show.Every(progress, log.progress)()
	return sum, errors.Join(p.Run(ctx), context.Cause(ctx))
}

// crashed reports whether an error is a crash.
func crashed(err error) bool { return errors.As(err, new(*stage.CrashError)) }

// counter counts the records of a host.
type counter struct {
	totals
	host string
	into *report
}

// HandleCommand counts a record.
func (c *counter) HandleCommand(_ context.Context, r record) behaviour.Outcome {
	c.add(r)
	return behaviour.OK(nil)
}

// Stop reports the totals.
func (c *counter) Stop() { c.into.merge(c.host, c.totals) }
