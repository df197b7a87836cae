package cookbook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func Example_callAnAPIWithARateLimit() {
	geocode := stage.Sink("geocode", func(_ context.Context, _ string) error {
		return nil // ask the peer, which allows 100 calls a second, and ten at once
	},
		stage.Rate(100, time.Second, 10),
		stage.Blocking(), stage.Workers(4, 16), // calls wait for the peer; commands wait for the rate without a worker
		stage.Timeout(5*time.Second),
		stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Second, Jitter: 0.2})) // a retry counts for the rate, too

	begin := time.Now()
	cities := source.Slice(slices.Repeat([]string{"Oslo"}, 15))
	fmt.Println(run(geocode, pipeline.Feed("cities", geocode, cities)))
	fmt.Println("at least 50 ms:", time.Since(begin) >= 50*time.Millisecond)
	// Output:
	// <nil>
	// at least 50 ms: true
}
