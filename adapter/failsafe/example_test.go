package failsafe_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/golda-dev/golda/adapter/failsafe"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A stage that asks another service, at most ten times at once, and not at all for a minute after three failures.
func ExampleWrap() {
	fetch := func(context.Context, string) (int, error) { return 0, errors.New("the service is down") }
	breaker := circuitbreaker.NewBuilder[int]().WithFailureThreshold(3).WithDelay(time.Minute).Build()
	prices := failsafe.Wrap(fetch, breaker, bulkhead.New[int](10))
	price := stage.Map("price", prices.Call, stage.Blocking())

	ctx := context.Background()
	p, err := pipeline.New("shop", price)
	check(err)
	check(p.Start(ctx))
	for range 4 {
		_, err := price.Call(ctx, "tea")
		fmt.Println(err)
		if o, ok := stage.Overloaded(err); ok {
			fmt.Println(o.Reason)
		}
	}
	check(p.Stop(ctx))
	fmt.Println(prices.Counts().Tries, "tries,", prices.Counts().Refused[failsafe.BreakerOpen], "refused")
	// Output:
	// stage "price": the service is down
	// stage "price": the service is down
	// stage "price": the service is down
	// stage "price": circuit breaker open
	// breaker_open
	// 3 tries, 1 refused
}
