package cookbook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/golda-dev/golda/adapter/failsafe"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func Example_waitWhileAServiceIsDown() {
	calls := 0
	convert := func(_ context.Context, euros int) (int, error) {
		if calls++; calls <= 2 {
			return 0, errors.New("the service is down")
		}
		return euros * 117, nil
	}
	breaker := circuitbreaker.NewBuilder[int]().WithFailureThreshold(2).WithDelay(50 * time.Millisecond).Build()
	guarded := failsafe.Wrap(convert, breaker) // after two failures no call for 50 ms

	price := stage.Map("price", guarded.Call, stage.Workers(1, 1),
		stage.Retry(stage.RetryPolicy{Attempts: 20, Backoff: 10 * time.Millisecond})) // a command that waits holds no worker
	sum := 0
	add := stage.Sink("add", func(_ context.Context, cents int) error { sum += cents; return nil }, stage.Workers(1, 1))
	check(run(price.To(add), pipeline.Feed("orders", price, source.Slice([]int{1, 2, 3}))))

	fmt.Println(sum, "cents after", calls, "calls")
	fmt.Println("the breaker refused some:", guarded.Counts().Refused[failsafe.BreakerOpen] > 0)
	// Output:
	// 702 cents after 5 calls
	// the breaker refused some: true
}
