package cookbook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func Example_scatterAndGather() {
	supplier := func(name string, price int) *stage.Flow[string, int] {
		return stage.Map(name, func(_ context.Context, item string) (int, error) {
			if item == "coal" {
				return 0, errors.New("not sold")
			}
			return price, nil
		})
	}
	north, south := supplier("north", 9), supplier("south", 7)
	best := stage.Coroutine("best", func(c coroutine.Context, item string) behaviour.Outcome {
		ctx, cancel := context.WithTimeout(c, time.Second) // for both
		defer cancel()
		prices, err := coroutine.Gather(coroutine.WithContext(ctx, c), // asks both at once, and holds no worker
			func(ctx context.Context) (int, error) { return north.Call(ctx, item) },
			func(ctx context.Context) (int, error) { return south.Call(ctx, item) })
		if err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(slices.Min(prices))
	})
	p, err := pipeline.New("shop", best, north, south)
	check(err)
	ctx := context.Background()
	check(p.Start(ctx))
	fmt.Println(stage.Call[int](ctx, best, "tea"))
	_, err = stage.Call[int](ctx, best, "coal")
	fmt.Println(err)
	check(p.Stop(ctx))
	// Output:
	// 7 <nil>
	// stage "best": coroutine: 2 of 2 functions failed; 0: stage "north": not sold; 1: stage "south": not sold
}
