package cookbook

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func Example_doAJobLater() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "mails")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	conn, err := nats.Embed(dir, nats.Store{})
	check(err)
	defer func() { check(conn.Close(context.Background())) }()
	mails, err := nats.NewInlet(ctx, conn, "mails", nats.Options[string]{Jobs: true})
	check(err)

	began := time.Now()
	for range 2 { // the second one is a duplicate, as long as the first one waits
		added, err := mails.PublishJob(ctx, jobs.Spec{ID: "welcome ann", In: 500 * time.Millisecond}, "Welcome, Ann!")
		fmt.Println(added, err)
	}
	send := stage.Sink("send", func(_ context.Context, text string) error {
		fmt.Println(text, time.Since(began) >= 500*time.Millisecond)
		stop() // a service goes on
		return nil
	})
	p, err := pipeline.New("mails", send, pipeline.Feed("mails", send, mails.Feed))
	check(err)
	check(p.Run(ctx))
	// Output:
	// true <nil>
	// false <nil>
	// Welcome, Ann! true
}
