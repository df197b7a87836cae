package cookbook

import (
	"context"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

type invoice struct{ tenant string }

func (i invoice) Tenant() string { return i.tenant }

func Example_shareAStageBetweenTenants() {
	var order []string
	weight := func(tenant string) int {
		if tenant == "paying" {
			return 2
		}
		return 1 // of any other, known or not
	}
	render := stage.Sink("render", func(_ context.Context, i invoice) error {
		order = append(order, i.tenant) // there is one worker; of more, two at most would have invoices of one tenant
		return nil
	},
		stage.Fair(invoice.Tenant, weight, 2),
		stage.Overflow(overflow.Reject), // of a tenant that has a quarter of the slots, see stage.KeyCapacity
		stage.Workers(1, 1))

	p, err := pipeline.New("invoices", render)
	check(err)
	check(p.Start(context.Background()))
	check(p.Pause(render)) // so that all wait
	accepted, err := render.SubmitAll(context.Background(), slices.Repeat([]invoice{{"flood"}}, 1000)...)
	fmt.Println(accepted, err)
	_, err = render.SubmitAll(context.Background(), invoice{"paying"}, invoice{"paying"}, invoice{"small"})
	check(err)
	check(p.Resume(render))
	check(p.Stop(context.Background()))
	fmt.Println(order[:5])
	// Output:
	// 256 stage "render": full for its key: 256 of its commands wait, as many as KeyCapacity allows
	// [flood paying paying small flood]
}
