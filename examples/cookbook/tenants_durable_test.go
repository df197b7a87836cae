package cookbook

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func Example_shareAQueueBetweenTenants() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "invoices")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	conn, err := nats.Embed(dir, nats.Store{})
	check(err)
	defer func() { check(conn.Close(ctx)) }()
	invoices, err := nats.NewInlet(ctx, conn, "invoices", nats.Options[string]{
		Fair:        func(tenant string) (key string, weight int) { return tenant, 1 },
		MaxInFlight: 16, // a few for each worker
		UntilEmpty:  true,
	})
	check(err)
	for n := range 500 {
		check(invoices.Publish(ctx, "flood "+strconv.Itoa(n), "flood"))
	}
	check(invoices.Publish(ctx, "small 1", "small"))

	before := 0
	render := stage.Sink("render", func(_ context.Context, tenant string) error {
		if tenant == "small" {
			fmt.Println("passed more than 400:", before < 100)
		}
		before++
		return nil
	}, stage.Fair(func(tenant string) string { return tenant }, nil, 0), stage.Workers(1, 1))
	check(run(pipeline.Feed("invoices", render, invoices.Feed)))
	fmt.Println(before)
	// Output:
	// passed more than 400: true
	// 501
}
