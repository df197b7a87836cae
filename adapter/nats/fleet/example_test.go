package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/fleet"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A process joins the others that run its pipeline. Here there are none, and the server is inside the process.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	conn, err := nats.Embed(dir, nats.Store{})
	check(err)
	orders, err := nats.NewInlet(ctx, conn, "orders", nats.Options[int]{})
	check(err)
	book := stage.Sink("book", func(context.Context, int) error { return nil })
	p, err := pipeline.New("shop", pipeline.Feed("orders", book, orders.Feed), quiet)
	check(err)
	check(p.Start(ctx))

	f, err := fleet.Join(ctx, conn, p, fleet.Options{Name: "one", Wait: time.Minute})
	check(err)
	s, err := f.Snapshot(ctx)
	check(err)
	for _, process := range s.Processes {
		fmt.Println(process.Name, process.State, process.Stages, process.Snapshot.Balanced())
	}
	fmt.Println(s.Balanced())

	check(p.Stop(ctx))
	check(f.Leave(ctx))
	check(conn.Close(ctx))
	// Output:
	// one alive [book] true
	// true
}

// The metrics for Prometheus and the JSON for KEDA, of a process that observes the others.
func ExampleNewExporter() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	conn, err := nats.Embed(dir, nats.Store{})
	check(err)

	f, err := fleet.Observe(ctx, conn, "shop", fleet.Options{})
	check(err)
	exporter := fleet.NewExporter(f)
	registry := prometheus.NewRegistry()
	registry.MustRegister(exporter)
	mux := http.NewServeMux()
	mux.Handle("GET /scaling", exporter)

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/scaling", nil))
	fmt.Println(answer.Code)
	check(f.Leave(ctx))
	check(conn.Close(ctx))
	// Output: 200
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
