package stage_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// ranking takes words in batches, and sends on each with its place in the alphabet.
type ranking struct {
	send func(ctx context.Context, text string) behaviour.Outcome
}

func (r *ranking) HandleCommand(ctx context.Context, word string) behaviour.Outcome {
	return r.HandleBatch(ctx, []string{word})[0]
}

func (r *ranking) HandleBatch(ctx context.Context, words []string) (all []behaviour.Outcome) {
	sorted := slices.Sorted(slices.Values(words))
	for _, w := range words {
		all = append(all, r.send(ctx, fmt.Sprint(w, " ", slices.Index(sorted, w)+1)))
	}
	return all
}

// A behaviour that takes batches is a flow like those of plain functions.
func ExampleFlowOf() {
	rank := stage.FlowOf("rank", func(send func(context.Context, string) behaviour.Outcome) (behaviour.Behaviour[string], error) {
		return &ranking{send}, nil
	}, stage.Workers(1, 1), stage.Batch(3), stage.Linger(5e9))
	show := stage.Sink("show", func(_ context.Context, text string) error { fmt.Println(text); return nil }, stage.Workers(1, 1))

	words := pipeline.Feed("words", rank, source.Slice([]string{"pear", "apple", "fig"}))
	p, err := pipeline.New("example", rank.To(show), words)
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Run(context.Background()))
	// Output:
	// pear 3
	// apple 1
	// fig 2
	// <nil>
}
