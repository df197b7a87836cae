package comingfrom

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Email is a job.
type Email struct{ To string }

// river.AddWorker(workers, &emailWorker{}); client.Insert(ctx, Email{"ann"}, nil)
// mux.HandleFunc("email", send);            client.Enqueue(asynq.NewTask("email", payload), asynq.TaskID("welcome-ann"))
func Example_jobs() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "jobs")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	conn, err := nats.Embed(dir, nats.Store{}) // in place of the database; nats.Connect for a server of your own
	check(err)
	emails, err := nats.NewInlet(ctx, conn, "emails", nats.Options[Email]{
		Retry:      stage.RetryPolicy{Attempts: 25, Backoff: time.Second}, // then it is a dead letter: a discarded, or archived, job
		UntilEmpty: true,
	})
	check(err)
	check(emails.Publish(ctx, "welcome-ann", Email{"ann"}))
	check(emails.Publish(ctx, "welcome-ann", Email{"ann"})) // the same job: dropped

	send := stage.Sink("send", func(_ context.Context, e Email) error {
		fmt.Println("to", e.To)
		return nil
	}, stage.Blocking(), stage.Workers(10, 10)) // MaxWorkers, Concurrency
	p, err := pipeline.New("mailer", pipeline.Feed("emails", send, emails.Feed))
	check(err)
	check(p.Run(ctx))
	check(conn.Close(ctx))
	// Output: to ann
}
