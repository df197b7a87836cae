package cookbook

import (
	"context"
	"fmt"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// part is one half of a sale: the order, or its payment.
type part struct {
	sale, what string
}

func Example_joinWithATimeLimit() {
	type sale = window.Window[string, []part]
	join := window.Join("join", func(p part) string { return p.sale },
		window.Parts[part]{Count: 2, Limit: 10 * time.Minute})
	show := func(name string) *stage.Flow[sale, struct{}] {
		return stage.Sink(name, func(_ context.Context, s sale) error {
			fmt.Println(name, s.Value)
			return nil
		})
	}
	route := join.Route(func(s sale, _ int) int {
		if s.Why == window.Full {
			return 0
		}
		return 1 // the other half has not come in time
	}, show("ship"), show("remind"))

	parts := source.Slice([]part{{"17", "order"}, {"18", "order"}, {"17", "payment"}})
	fmt.Println(run(route, pipeline.Feed("parts", join, parts)))
	// Unordered output:
	// ship [{17 order} {17 payment}]
	// remind [{18 order}]
	// <nil>
}
