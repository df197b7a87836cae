package cookbook

import (
	"context"
	"fmt"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func Example_doSomethingEveryPeriod() {
	ctx, cancel := context.WithCancel(context.Background())
	ticks := 0
	sample := stage.Sink("sample", func(context.Context, time.Time) error {
		if ticks++; ticks == 3 {
			cancel() // ends the run; a service runs on
		}
		return nil
	}, stage.Workers(1, 1), stage.Capacity(1)) // ticks that come while it is busy are left out

	p, err := pipeline.New("sampler", pipeline.Feed("clock", sample, source.Every(time.Millisecond)))
	check(err)
	fmt.Println(p.Run(ctx), p.Ending())
	fmt.Println("at least 3:", ticks >= 3)
	// Output:
	// <nil> stopped
	// at least 3: true
}
