package nats_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/jobs"
)

// queueOfOrders calls f with a job queue in a directory of its own.
func queueOfOrders(f func(ctx context.Context, orders *nats.Inlet[Order])) {
	dir, err := os.MkdirTemp("", "jobs")
	check(err)
	conn, err := nats.Embed(dir, nats.Store{})
	check(err)
	orders, err := nats.NewInlet(context.Background(), conn, "orders", nats.Options[Order]{Jobs: true})
	check(err)
	f(context.Background(), orders)
	check(conn.Close(context.Background()))
	check(os.RemoveAll(dir))
}

// Two processes declare the schedule, and it is there once.
func ExampleInlet_Schedule() {
	queueOfOrders(func(ctx context.Context, orders *nats.Inlet[Order]) {
		for range 2 {
			check(orders.Schedule(ctx, jobs.Schedule{Name: "audit", Cron: "30 4 * * *", Missed: jobs.CatchUp}, Order{ID: "audit"}))
		}
		all, err := orders.Schedules(ctx)
		check(err)
		for _, s := range all {
			fmt.Println(s.Name, s.Cron, s.Missed, s.Next.Format("15:04"))
		}
	})
	// Output: audit 30 4 * * * catch-up 04:30
}

func ExampleInlet_PublishJob() {
	queueOfOrders(func(ctx context.Context, orders *nats.Inlet[Order]) {
		for range 2 { // the client tries again
			added, err := orders.PublishJob(ctx, jobs.Spec{ID: "remind 7", In: 24 * time.Hour}, Order{ID: "7"})
			fmt.Println(added, err)
		}
		s, err := orders.Status(ctx)
		fmt.Println(s.Delayed, s.Pending, err)
	})
	// Output:
	// true <nil>
	// false <nil>
	// 1 0 <nil>
}
