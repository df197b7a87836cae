package pipeline_test

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A stage is put between two others while the pipeline runs, and then taken out again.
func ExamplePipeline_Rewire() {
	show := stage.Map("show", func(_ context.Context, n int) (string, error) { return fmt.Sprintf("<%d>", n), nil })
	parse := stage.Map("parse", func(_ context.Context, s string) (int, error) { return len(s), nil })
	p, err := pipeline.New("example", parse.To(show))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer p.Stop(ctx)
	call := func() { fmt.Println(stage.Call[string](ctx, parse.Stage, "four")) }
	call()

	square := stage.Map("square", func(_ context.Context, n int) (int, error) { return n * n, nil })
	fmt.Println(p.Add(ctx, square.To(show)), p.Rewire(ctx, parse.To(square)))
	call()

	fmt.Println(p.Rewire(ctx, parse.To(show)), p.Remove(ctx, square))
	call()
	fmt.Println(p.Rewire(ctx, parse.To(square)))
	// Output:
	// <4> <nil>
	// <nil> <nil>
	// <16> <nil>
	// <nil> <nil>
	// <4> <nil>
	// pipeline "example": stage "parse": leads to stage "square", which is not part of this pipeline: it was removed
}

// The port of a behaviour is moved with a Wire.
func ExamplePipeline_Rewire_port() {
	out := behaviour.NewPort[string]("out")
	first := stage.Func("first", func(_ context.Context, s string) behaviour.Outcome { return behaviour.Forward(out, s) }, stage.Out(out))
	end := func(name string) *stage.Stage[string] {
		return stage.Func(name, func(_ context.Context, s string) behaviour.Outcome { return behaviour.OK(name + " got " + s) })
	}
	a, b := end("a"), end("b")
	p, err := pipeline.New("example", first, a, b, pipeline.Wire(out, a))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer p.Stop(ctx)
	fmt.Println(stage.Call[string](ctx, first, "x"))
	fmt.Println(p.Rewire(ctx, pipeline.Wire(out, b)))
	fmt.Println(stage.Call[string](ctx, first, "y"))
	// Output:
	// a got x <nil>
	// <nil>
	// b got y <nil>
}
