package cookbook

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// table inserts many rows at once.
type table struct{}

func (t table) HandleBatch(_ context.Context, rows []int) []behaviour.Outcome {
	fmt.Println("insert", rows) // in one statement
	outcomes := make([]behaviour.Outcome, len(rows))
	for i := range rows {
		outcomes[i] = behaviour.OK(nil)
	}
	return outcomes
}

func (t table) HandleCommand(ctx context.Context, row int) behaviour.Outcome {
	return t.HandleBatch(ctx, []int{row})[0]
}

func Example_loadRowsInBatches() {
	transform := stage.Map("transform", func(_ context.Context, field string) (int, error) {
		return strconv.Atoi(field)
	}, stage.Workers(1, 1))
	load := stage.New("load", table{}, stage.Workers(1, 1),
		stage.Batch(3), stage.Linger(5*time.Second)) // three rows, or what there is after five seconds

	fields := source.Slice([]string{"1", "2", "3", "4", "5", "6"})
	fmt.Println(run(transform.To(load), pipeline.Feed("extract", transform, fields)))
	// Output:
	// insert [1 2 3]
	// insert [4 5 6]
	// <nil>
}
