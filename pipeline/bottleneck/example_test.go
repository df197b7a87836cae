package bottleneck_test

import (
	"context"
	"fmt"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/bottleneck"
	"github.com/golda-dev/golda/stage"
)

// Ask a running pipeline what limits it.
func ExampleOf() {
	resize := stage.Map("resize", func(_ context.Context, n int) (int, error) { return n / 2, nil })
	p, err := pipeline.New("images", resize)
	if err != nil {
		panic(err)
	}
	if err := p.Start(context.Background()); err != nil {
		panic(err)
	}
	before := p.Snapshot()
	time.Sleep(10 * time.Millisecond) // some seconds, in a program
	fmt.Println(bottleneck.Of(before, p.Snapshot()))
	if err := p.Stop(context.Background()); err != nil {
		panic(err)
	}
	// Output: no stage limits the pipeline: commands arrive more slowly than the stages handle them
}
