package cookbook

import (
	"context"
	"fmt"
	"os"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func Example_moveAJobOrCancelIt() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "exports")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	conn, err := nats.Embed(dir, nats.Store{})
	check(err)
	defer func() { check(conn.Close(ctx)) }()
	lanes, laneOf := map[string]int{"urgent": 8, "bulk": 1}, func(string) string { return "bulk" }
	exports, err := nats.NewInlet(ctx, conn, "exports", nats.Options[string]{Jobs: true, Lanes: lanes, Lane: laneOf})
	check(err)
	_, err = exports.PublishJob(ctx, jobs.Spec{Key: "ann"}, "all orders of ann")
	check(err)
	find := func() (job jobs.Job) { // any process may look for it, move it and cancel it
		for job, err = range exports.Jobs(ctx, jobs.Filter{Key: "ann"}) {
			check(err)
		}
		return job
	}
	moved, err := exports.SetLane(ctx, find(), "urgent")
	fmt.Println("moved", moved, err, find().Lane, find().State)

	begun, ended := make(chan bool), make(chan error)
	export := stage.Sink("export", func(ctx context.Context, _ string) error {
		close(begun)
		<-ctx.Done() // it takes long
		ended <- context.Cause(ctx)
		return ctx.Err()
	})
	p, err := pipeline.New("exports", export, pipeline.Feed("exports", export, exports.Feed))
	check(err)
	check(p.Start(ctx))
	<-begun
	canceled, err := exports.Cancel(ctx, find())
	fmt.Println("canceled", canceled, err, "because", <-ended)
	check(p.Stop(ctx))
	// Output:
	// moved true <nil> urgent pending
	// canceled true <nil> because jobs: the job was canceled
}
