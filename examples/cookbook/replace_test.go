package cookbook

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func Example_replaceAStageUnderLoad() {
	var before, after atomic.Int64
	var replaced atomic.Bool
	parse := stage.Map("parse", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	save := stage.Sink("save", func(context.Context, int) error { before.Add(1); return nil })
	lines := func(ctx context.Context, submit func(int) error) error {
		for !replaced.Load() { // commands come all the time
			if err := submit(int(source.Position(ctx))); err != nil {
				return err
			}
		}
		return nil
	}
	p, err := pipeline.New("worker", parse.To(save), pipeline.Feed("lines", parse, lines))
	check(err)
	done := make(chan error)
	ctx := context.Background()
	go func() { done <- p.Run(ctx) }()
	<-p.Started()

	saveV2 := stage.Sink("save v2", func(context.Context, int) error { after.Add(1); return nil })
	check(p.Add(ctx, saveV2))
	check(p.Rewire(ctx, parse.To(saveV2))) // what was on its way to save has arrived there
	check(p.Remove(ctx, save))             // and now it is done
	replaced.Store(true)

	fmt.Println(<-done)
	s := p.Snapshot()
	fmt.Println("stages:", s.Stages[0].Name, s.Stages[1].Name)
	fmt.Println("each command was saved once:", s.Replied == s.Accepted, uint64(before.Load()+after.Load()) == s.Accepted)
	// Output:
	// <nil>
	// stages: parse save v2
	// each command was saved once: true true
}
