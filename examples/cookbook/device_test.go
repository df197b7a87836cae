package cookbook

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// Page is what the printer prints.
type Page string

func Example_shareADeviceBetweenStages() {
	pages, jammed := 0, false
	printer := stage.Sink("printer", func(context.Context, Page) error {
		if pages++; pages >= 7 && !jammed {
			jammed = true
			panic("paper jam") // the next page is printed, and this one is tried again
		}
		return nil
	}, stage.Workers(1, 1), stage.Retry(stage.RetryPolicy{Attempts: 2}))
	invoices := stage.Map("invoices", func(_ context.Context, number int) (Page, error) { return "an invoice", nil })
	labels := stage.Map("labels", func(_ context.Context, address string) (Page, error) { return "a label", nil })

	fmt.Println(run(invoices.To(printer), labels.To(printer),
		pipeline.Feed("invoices", invoices, source.Slice(make([]int, 100))),
		pipeline.Feed("labels", labels, source.Slice(make([]string, 100)))))
	fmt.Println(pages, "pages")
	// Output:
	// <nil>
	// 201 pages
}
