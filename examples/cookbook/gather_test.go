package cookbook

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func Example_scatterAndGather() {
	price := stage.Map("price", func(_ context.Context, item string) (int, error) { return 3 * len(item), nil })
	stock := stage.Map("stock", func(_ context.Context, item string) (int, error) {
		if item == "coal" {
			return 0, errors.New("not sold")
		}
		return 40, nil
	})
	offer := stage.Coroutine("offer", func(c coroutine.Context, item string) behaviour.Outcome {
		ticket, err := price.Ask(c, item) // does not wait for the price
		if err != nil {
			return behaviour.Error(err)
		}
		pieces, err := stock.Call(c, item) // waits for both at once, and holds no worker
		if err != nil {
			return behaviour.Error(err)
		}
		each, err := ticket.Wait(c)
		if err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(fmt.Sprint(pieces, " at ", each))
	})
	p, err := pipeline.New("shop", offer, price, stock)
	check(err)
	ctx := context.Background()
	check(p.Start(ctx))
	fmt.Println(stage.Call[string](ctx, offer, "tea"))
	fmt.Println(stage.Call[string](ctx, offer, "coal"))
	check(p.Stop(ctx))
	// Output:
	// 40 at 9 <nil>
	//  stage "offer": stage "stock": not sold
}
