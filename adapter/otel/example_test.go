package otel_test

import (
	"context"
	"fmt"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/golda-dev/golda/adapter/otel"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/headers"
)

func ExampleMiddleware() {
	ctx := context.Background()
	kept := tracetest.NewInMemoryExporter() // in the place of an exporter to a collector
	provider := sdk.NewTracerProvider(sdk.WithSyncer(kept))
	headers.Use(otel.Headers(nil)) // the trace goes on in the headers of messages and requests
	defer headers.Use()

	save := stage.Sink("save", func(context.Context, string) error { return nil })
	take := stage.Map("take", func(_ context.Context, order string) (string, error) { return order, nil })
	p, err := pipeline.New("shop", take.To(save), save,
		pipeline.Middleware(otel.Middleware(otel.Options{Provider: provider, Roots: []string{"take"}, Every: 2})))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Start(ctx), take.Submit(ctx, "a cup"), take.Submit(ctx, "a plate"), p.Drain(ctx), p.Stop(ctx))
	spans := kept.GetSpans()
	for _, s := range spans {
		fmt.Println(s.Name, s.Parent.SpanID() == spans[0].SpanContext.SpanID())
	}
	// Output:
	// <nil> <nil> <nil> <nil> <nil>
	// take false
	// save true
}
