package operate_test

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/operate"
	"github.com/golda-dev/golda/stage"
)

// Bound the workers of a stage, whatever its policy wants.
func ExampleNew() {
	ctx := context.Background()
	resize := stage.Map("resize", func(_ context.Context, n int) (int, error) { return n / 2, nil }, stage.Workers(1, 8))
	p, err := pipeline.New("images", resize)
	if err != nil {
		panic(err)
	}
	if err := p.Start(ctx); err != nil {
		panic(err)
	}
	op := operate.New(p, "ann")
	if _, err := op.Resize("resize", 2, 3); err != nil {
		panic(err)
	}
	for _, change := range p.Journal() {
		if change.Policy == "operator:ann" {
			fmt.Println(change.What, change.Before, "->", change.After)
		}
	}
	if err := p.Stop(ctx); err != nil {
		panic(err)
	}
	// Output: bounds 1 to 8 -> 2 to 3
}
