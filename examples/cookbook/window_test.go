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

func Example_sumUpEveryMinute() {
	perMinute := window.Aggregate("per minute",
		func(r request) string { return r.host },
		func(sum int, r request) int { return sum + r.bytes },
		window.Bounds[request]{Every: time.Minute}) // when the clock shows a full minute, and at the end

	report := stage.Sink("report", func(_ context.Context, w window.Window[string, int]) error {
		fmt.Println(w.Key, w.Count, "requests,", w.Value, "bytes") // w.Opened says since when
		return nil
	}, stage.Workers(1, 1))

	requests := source.Slice([]request{{"ann", 100}, {"bob", 7}, {"ann", 20}})
	fmt.Println(run(perMinute.To(report), pipeline.Feed("requests", perMinute, requests)))
	// Unordered output:
	// ann 2 requests, 120 bytes
	// bob 1 requests, 7 bytes
	// <nil>
}
