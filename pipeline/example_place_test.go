package pipeline_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// The same program makes the pipeline in each process. Which groups a process runs is a flag, "front" or "ocr" here. Both processes are in this
// program, and the broker between them is in memory; that of adapter/nats is not.
func ExampleRunsHere() {
	b, indexed := newBroker(), make(chan string)
	start := func(groups string) (p *pipeline.Pipeline, load *stage.Flow[int, int]) {
		load = stage.Map("load", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		read := stage.Map("read", func(_ context.Context, n int) (string, error) {
			return fmt.Sprintf("page %d, read by %s", n, groups), nil
		})
		index := stage.Func("index", func(_ context.Context, page string) behaviour.Outcome {
			indexed <- page + ", indexed by " + groups
			return behaviour.OK(nil)
		})
		p, err := pipeline.New("scans", load.To(read), read.To(index),
			pipeline.Assign("front", "load", "index"),
			pipeline.Assign("ocr", "read"),
			pipeline.RunsHere(b.process(), strings.Split(groups, ",")...),
		)
		orFail(err)
		orFail(p.Start(context.Background()))
		return p, load
	}
	front, load := start("front")
	ocr, _ := start("ocr")
	orFail(load.Submit(context.Background(), 41))
	fmt.Println(<-indexed)
	orFail(front.Stop(context.Background()))
	orFail(ocr.Stop(context.Background()))
	// Output: page 42, read by ocr, indexed by front
}

// orFail ends the example at an error.
func orFail(err error) {
	if err != nil {
		panic(err)
	}
}
