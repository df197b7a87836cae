package cookbook

import (
	"context"
	"fmt"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window/event"
)

type sample struct {
	sensor string
	at     time.Time
	value  int
}

func (r sample) time() time.Time { return r.at }

func (r sample) of() string { return r.sensor }

func Example_sumUpByTheTimeOfTheEvents() {
	late := stage.Sink("late", func(_ context.Context, r sample) error {
		fmt.Println("late:", r.sensor, r.at.Format("15:04:05"))
		return nil
	})
	most := event.Tumbling("most per minute", time.Minute,
		event.Sum(sample.time, sample.of, func(most int, r sample) int { return max(most, r.value) }),
		event.Watermark[sample]{Disorder: 10 * time.Second, Late: late}) // samples are up to ten seconds late

	report := stage.Sink("report", func(_ context.Context, w event.Window[string, int]) error {
		fmt.Println(w.Start.Format("15:04"), w.Key, w.Value) // in a database, Key and Start are the key of a row
		return nil
	}, stage.Workers(1, 1))

	at := func(second int) time.Time { return time.Date(2026, 11, 28, 9, 0, second, 0, time.UTC) }
	samples := source.Slice([]sample{{"north", at(5), 7}, {"north", at(61), 3}, {"north", at(58), 9}, {"north", at(75), 4}, {"north", at(59), 8}})
	fmt.Println(run(most.To(report), late, pipeline.Feed("samples", most, samples)))
	// Unordered output:
	// late: north 09:00:59
	// 09:00 north 9
	// 09:01 north 4
	// <nil>
}
