package cookbook

import (
	"context"
	"fmt"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// first lets the first of the payments with one ID pass. The other ones are done.
type first struct {
	next behaviour.Target[payment]
	seen bool
}

type payment struct {
	id     string
	amount int
}

func (f *first) HandleCommand(_ context.Context, p payment) behaviour.Outcome {
	if f.seen {
		return behaviour.OK(nil)
	}
	f.seen = true
	return behaviour.Forward(f.next, p)
}

func Example_handleDuplicatesOnce() {
	sum := 0
	book := stage.Sink("book", func(_ context.Context, p payment) error {
		sum += p.amount
		return nil
	}, stage.Workers(1, 1))
	dedup := stage.Keyed("dedup",
		func(p payment) string { return p.id },
		func(string) *first { return &first{next: book} },
		stage.Passivate(10*time.Minute, 1_000_000)) // an ID is forgotten after ten quiet minutes

	payments := source.Slice([]payment{{"a", 10}, {"b", 5}, {"a", 10}, {"a", 10}})
	fmt.Println(run(dedup, book, pipeline.Feed("payments", dedup, payments)))
	fmt.Println(sum)
	// Output:
	// <nil>
	// 15
}
