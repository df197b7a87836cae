package pipeline_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

type (
	invoice string
	waybill string
)

// Two stages share a printer, which takes one job at a time, and nothing in them says so.
func ExampleSynchronize() {
	var jobs int // of the printer, which no lock guards
	invoices := stage.Func("invoices", func(context.Context, invoice) behaviour.Outcome { jobs++; return behaviour.OK(nil) })
	waybills := stage.Func("waybills", func(context.Context, waybill) behaviour.Outcome { jobs++; return behaviour.OK(nil) })
	p, err := pipeline.New("office", invoices, waybills,
		pipeline.Synchronize("printer", func(s *synchronizer.Synchronizer) {
			s.AtMost(1,
				synchronizer.Event{Of: invoices, Method: "invoice"},
				synchronizer.Event{Of: waybills, Method: "waybill"})
		}))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := p.Start(ctx); err != nil {
		panic(err)
	}
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() { _ = invoices.Submit(ctx, "i") })
		callers.Go(func() { _ = waybills.Submit(ctx, "p") })
	}
	callers.Wait()
	fmt.Println(p.Stop(ctx), jobs)
	// Output: <nil> 200
}
