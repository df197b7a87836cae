package cookbook

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

type (
	Invoice int
	Label   int
)

func Example_shareADeviceBetweenStages() {
	pages, jammed := 0, false // of the printer, which takes one job at a time
	invoices := stage.Sink("invoices", func(context.Context, Invoice) error {
		if pages++; pages >= 7 && !jammed {
			jammed = true
			panic("paper jam") // the next job is printed, and this one is tried again
		}
		return nil
	}, stage.Retry(stage.RetryPolicy{Attempts: 2}))
	labels := stage.Sink("labels", func(context.Context, Label) error { pages++; return nil })

	fmt.Println(run(invoices, labels,
		pipeline.Feed("invoices", invoices, source.Slice(make([]Invoice, 100))),
		pipeline.Feed("labels", labels, source.Slice(make([]Label, 100))),
		pipeline.Synchronize("printer", func(s *synchronizer.Synchronizer) {
			s.AtMost(1,
				synchronizer.Event{Of: invoices, Method: "Invoice"}, // the methods are the types of the commands
				synchronizer.Event{Of: labels, Method: "Label"})
		})))
	fmt.Println(pages, "pages")
	// Output:
	// <nil>
	// 201 pages
}
