package comingfrom

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func Example_channels() {
	numbers := make(chan int, 3)
	numbers <- 1
	numbers <- 2
	numbers <- 3
	close(numbers)

	square := stage.Map("square", func(_ context.Context, n int) (int, error) { return n * n, nil },
		stage.Workers(4, 4), // for range 4 { go func() { for n := range in { out <- n * n } }() }
		stage.Capacity(16))  // in := make(chan int, 16)
	sum := 0
	add := stage.Sink("add", func(_ context.Context, n int) error { sum += n; return nil },
		stage.Workers(1, 1)) // one goroutine: sum needs no lock
	err := run(square.To(add), pipeline.Feed("numbers", square, source.Chan(numbers)))
	fmt.Println(sum, err) // what g.Wait() returns
	// Output: 14 <nil>
}
