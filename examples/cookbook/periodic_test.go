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

func Example_doItOnceInAllProcesses() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "digest")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	conn, err := nats.Embed(dir, nats.Store{})
	check(err)
	defer func() { check(conn.Close(context.Background())) }()
	digests, err := nats.NewInlet(ctx, conn, "digests", nats.Options[string]{Jobs: true})
	check(err)

	// each process declares the schedule when it starts: it is there once
	check(digests.Schedule(ctx, jobs.Schedule{Name: "weekly", Cron: "CRON_TZ=Europe/Berlin 0 6 * * MON", Missed: jobs.Skip}, "the week"))
	for range 3 {
		check(digests.Schedule(ctx, jobs.Schedule{Name: "each-second", Every: time.Second}, "this second"))
	}
	write := stage.Sink("write", func(ctx context.Context, what string) error {
		job, _ := jobs.Of(ctx)
		fmt.Println(what, job.Schedule, time.Now().Before(job.Due))
		stop() // a service goes on
		return nil
	})
	p, err := pipeline.New("digests", write, pipeline.Feed("digests", write, digests.Feed))
	check(err)
	check(p.Run(ctx))
	all, err := digests.Schedules(context.Background())
	fmt.Println(len(all), err)
	// Output:
	// this second each-second false
	// 2 <nil>
}
