package main

import (
	"context"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// till is a behaviour with state, and with a fault: at its third sale it jams
// for good.
type till struct {
	number int64
	sold   int
}

type receipt struct {
	item    string
	till    int64
	attempt int
}

func (t *till) HandleCommand(ctx context.Context, item string) behaviour.Outcome {
	if t.sold == 2 {
		panic("the till is jammed")
	}
	t.sold++
	return behaviour.OK(receipt{item, t.number, behaviour.Attempt(ctx)})
}

// restart: a crash discards the instance, with its faulty state, and the
// factory makes a fresh one. The caller of a command that may be retried does
// not notice.
func restart(ctx context.Context, s *story) error {
	var tills atomic.Int64
	sell := stage.Each("sell", func() behaviour.Behaviour[string] { return &till{number: tills.Add(1)} },
		stage.Workers(1, 1), stage.Retry(stage.RetryPolicy{Attempts: 2}))
	p, err := startQuietly(ctx, "restart", sell)
	if err != nil {
		return err
	}

	s.didf("Tills jam at their third sale. Five things are sold; each sale may be attempted twice.")
	for _, item := range []string{"apple", "bread", "cheese", "dates", "eggs"} {
		r, err := stage.Call[receipt](ctx, sell, item)
		if err != nil {
			return err
		}
		s.sawf("%-6s sold at till %d, at attempt %d", r.item, r.till, r.attempt)
	}
	s.didf("No sale was lost, and %d tills were needed.", tills.Load())
	return s.end(p) //nolint:contextcheck // it stops softly although ctx has ended
}
