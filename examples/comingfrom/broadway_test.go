package comingfrom

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// processors: [default: [concurrency: 1]], batchers: [rows: [batch_size: 2, batch_timeout: 1000]]
func Example_broadway() {
	parse := stage.Map("parse", func(_ context.Context, field string) (int, error) { return strconv.Atoi(field) }, // handle_message
		stage.Workers(1, 1))
	rows := window.All("rows", window.Bounds[int]{Count: 2, Time: time.Second})
	insert := stage.Sink("insert", func(_ context.Context, w window.Window[struct{}, []int]) error { // handle_batch
		fmt.Println("insert", w.Value)
		return nil
	}, stage.Workers(1, 1))
	fields := source.Slice([]string{"1", "2", "3", "4"}) // the producer
	fmt.Println(run(parse.To(rows), rows.To(insert), pipeline.Feed("fields", parse, fields)))
	// Output:
	// insert [1 2]
	// insert [3 4]
	// <nil>
}
