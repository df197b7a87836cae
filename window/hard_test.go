package window_test

import (
	"context"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

type hardTest = struct {
	part    pipeline.Part
	submit  func(context.Context, word) error
	before  *stage.Stage[word]
	letters int
}

// hard returns a row of the test of hard stops, with a stage before the windows whose handler blocks.
func hard[T any](of *stage.Flow[word, T], letters int) hardTest {
	blocked := stage.Filter("blocked", func(ctx context.Context, _ word) (bool, error) { <-ctx.Done(); return false, nil })
	sink := stage.Sink("sink", func(context.Context, T) error { return nil })
	return hardTest{stage.Chain(stage.Chain(blocked, of), sink), of.Submit, blocked.Stage, letters}
}
