package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	stagequeue "github.com/golda-dev/golda/stage/queue"
)

var golda = system{
	name:    "golda",
	what:    "Golda's adapter/nats with Options.Jobs; the NATS server is in the process that works",
	durable: [2]string{"synced once a second", "each message is synced"},
	urgent:  "a second inlet, and queue.Priority in the stage that both feed",
	gone:    "AckWait, set to 2 s",
	open:    openGolda,
}

// goldaInlets are two job queues in an embedded server.
type goldaInlets struct {
	order
	conn           *nats.Conn
	urgent, others *nats.Inlet[job]
}

func openGolda(ctx context.Context, o order) (queue, error) {
	conn, err := nats.Embed(filepath.Join(o.Dir, "nats"), nats.Store{SyncAlways: o.Sync})
	if err != nil {
		return nil, err
	}
	g := &goldaInlets{order: o, conn: conn}
	options := nats.Options[job]{
		Jobs: true, MaxInFlight: o.InFlight * o.AtOnce, AckWait: goneAfter,
		Retry: stage.RetryPolicy{Attempts: attempts, Backoff: retryAfter},
	}
	var urgent, others error
	g.urgent, urgent = nats.NewInlet(ctx, conn, "urgent", options)
	g.others, others = nats.NewInlet(ctx, conn, "others", options)
	if err := errors.Join(urgent, others); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return g, nil
}

func (g *goldaInlets) add(ctx context.Context, j job) error {
	to := g.others
	if j.Urgent {
		to = g.urgent
	}
	_, err := to.PublishJob(ctx, jobs.Spec{ID: j.ID}, j)
	return err
}

func (g *goldaInlets) work(ctx context.Context, handle func(job) error) error {
	first := stagequeue.PriorityOf(func(j job) int {
		if j.Urgent {
			return 1
		}
		return 0
	})
	work := stage.Sink("work", func(_ context.Context, j job) error { return handle(j) },
		stage.Blocking(), stage.Workers(g.AtOnce, g.AtOnce), stage.Discipline(first))
	p, err := pipeline.New("jobs", work, pipeline.Logger(slog.New(slog.DiscardHandler)),
		pipeline.Feed("urgent", work, g.urgent.Feed), pipeline.Feed("others", work, g.others.Feed))
	if err != nil {
		return err
	}
	if err := p.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return p.Stop(stop)
}

func (g *goldaInlets) left(ctx context.Context) (int, error) {
	n := 0
	for _, i := range []*nats.Inlet[job]{g.urgent, g.others} {
		s, err := i.Status(ctx)
		if err != nil {
			return 0, err
		}
		n += int(s.Pending + s.Delayed + s.DeadLettered) //nolint:gosec // a few thousand
	}
	return n, nil
}

func (g *goldaInlets) close(ctx context.Context) error { return g.conn.Close(ctx) }
