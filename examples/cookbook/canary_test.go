package cookbook

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func Example_tryANewVersionOnAPart() {
	price := func(of int) func(context.Context, string) (int, error) {
		return func(_ context.Context, item string) (int, error) { return of * len(item), nil }
	}
	order := stage.Map("order", func(_ context.Context, item string) (string, error) { return item, nil })
	v1, v2 := stage.Map("price v1", price(2)), stage.Map("price v2", price(3))
	var orders atomic.Int64
	tenth := func(string, int) int { return int(min(orders.Add(1)%10, 1)) } // 0, for v2, once in ten times
	p, err := pipeline.New("shop", order.Route(tenth, v2, v1))
	check(err)
	ctx := context.Background()
	check(p.Start(ctx))
	for range 100 {
		_, err := stage.Call[int](ctx, order.Stage, "tea")
		check(err)
	}
	trial := v2.Snapshot().Counts
	fmt.Println("the new version:", trial.Forwarded+trial.OK, "well,", trial.Errors, "errors,", trial.Crashes, "crashes")

	loses, wins := v1, v2
	if trial.Errors > 0 || trial.Crashes > 0 {
		loses, wins = v2, v1
	}
	check(p.Rewire(ctx, order.To(wins)))
	check(p.Remove(ctx, loses))
	fmt.Println(stage.Call[int](ctx, order.Stage, "tea"))
	check(p.Stop(ctx))
	// Output:
	// the new version: 10 well, 0 errors, 0 crashes
	// 9 <nil>
}
