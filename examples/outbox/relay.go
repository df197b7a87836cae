package main

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// message is a row of the outbox.
type message struct {
	ID   int64 // grows with each transaction that commits
	Text string
}

// messages submits the rows after a position, in their order, and looks again when wake says that there may be more, or in a second.
func messages(db *sql.DB, wake <-chan struct{}) source.Source[message] {
	return source.From(func(ctx context.Context, from int64, submit func(m message, next int64) error) error {
		for {
			rows, err := rowsAfter(ctx, db, from)
			if err != nil {
				return err // the feed runs this function again, after a pause
			}
			for _, m := range rows {
				if err := submit(m, m.ID); err != nil {
					return err
				}
				from = m.ID
			}
			if len(rows) == most {
				continue
			}
			select {
			case <-wake:
			case <-time.After(time.Second):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// relay delivers the messages of the outbox, each at least once, and removes the rows of messages that were delivered.
func relay(ctx context.Context, db *sql.DB, wake <-chan struct{}, send func(context.Context, message) error, parts ...pipeline.Part) (*pipeline.Pipeline, error) {
	from, err := position(ctx, db)
	if err != nil {
		return nil, err
	}
	deliver := stage.Sink("deliver", send, stage.Blocking(), stage.Workers(8, 8),
		// The position passes a message that has failed, so none may fail.
		stage.Retry(stage.RetryPolicy{Attempts: math.MaxInt, Backoff: 10 * time.Millisecond, Max: time.Second}))
	save := func(ctx context.Context, position int64) error { return forget(ctx, db, position) }
	return pipeline.New("relay", append(parts,
		pipeline.Feed("outbox", deliver, source.Checkpoint(messages(db, wake), from, save)))...)
}
