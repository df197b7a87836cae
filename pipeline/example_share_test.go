package pipeline_test

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Two small stages share two workers instead of having one each.
func ExampleGroup() {
	double := stage.Func("double", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(2 * n) })
	square := stage.Func("square", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n * n) })

	p, err := pipeline.New("numbers", pipeline.Group("small", 2, 4, double, square))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	a, _ := stage.Call[int](ctx, double, 7)
	b, _ := stage.Call[int](ctx, square, 7)
	fmt.Println(a, b)
	for _, pool := range p.Snapshot().Pools {
		fmt.Println(pool.Name, pool.Stages, pool.Dispatch)
	}
	_ = p.Stop(ctx)
	// Output:
	// 14 49
	// small [double square] shared FIFO
}

// measure is a sub-graph; its parts are private.
func measure() (entry *stage.Stage[string], part pipeline.Part) {
	length := behaviour.NewPort[int]("length")
	odd := stage.Func("odd", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n%2 == 1) })
	entry = stage.Func("measure", func(_ context.Context, s string) behaviour.Outcome {
		return behaviour.Forward(length, len(s))
	}, stage.Out(length))
	return entry, pipeline.Subgraph(entry, odd, pipeline.Wire(length, odd))
}

// A function may return stages and wires as one part.
func ExampleSubgraph() {
	entry, words := measure()
	p, err := pipeline.New("words", words)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	odd, _ := stage.Call[bool](ctx, entry, "seven")
	fmt.Println(odd)
	_ = p.Stop(ctx)
	// Output:
	// true
}

// If the entries are declared, New finds stages that no port leads to.
func ExampleEntry() {
	ok := func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) }
	out := behaviour.NewPort[int]("out")
	first := stage.Func("first", ok, stage.Out(out))
	second, forgotten := stage.Func("second", ok), stage.Func("forgotten", ok)

	_, err := pipeline.New("line", pipeline.Entry(first), second, forgotten, pipeline.Wire(out, second))
	fmt.Println(err)
	// Output:
	// pipeline "line": stage "forgotten": is unreachable: no declared port leads to it from an entry; stage.Out declares ports and stages
}

// The policy of a pipeline is replaced while it runs. The journal has the change.
func ExamplePipeline_SetPolicy() {
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	p, err := pipeline.New("example", s, pipeline.Control(policy.Fixed{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	fmt.Println(p.SetPolicy(policy.ERLDA{}, policy.SEDA{}))
	fmt.Println(p.SetPolicy(policy.ERLDA{}))
	for _, c := range p.Journal() {
		fmt.Println(c.What, c.Before, "to", c.After)
	}
	_ = p.Stop(ctx)
	// Output:
	// pipeline "example": set policy: policies "erlda" and "seda" both turn the knob "workers"
	// <nil>
	// policy fixed to erlda
}

// A paused stage keeps its commands until it is resumed.
func ExamplePipeline_Pause() {
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	p, err := pipeline.New("example", s)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	_ = p.Pause(s)
	ticket, _ := s.Ask(ctx, 7)
	st := p.Snapshot().Stages[0]
	fmt.Println(st.Paused, st.Queue.Queued)
	_ = p.Resume(s)
	fmt.Println(ticket.Wait(ctx))
	_ = p.Stop(ctx)
	// Output:
	// true 1
	// 7 <nil>
}
