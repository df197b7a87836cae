package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// BenchmarkMaking measures what it costs to check, wire, start and stop a stage in pipelines of different lengths. It should cost the
// same in all of them, whichever end is given first.
//
//	go test -run '^$' -bench Making ./pipeline
func BenchmarkMaking(b *testing.B) {
	for _, n := range []int{500, 1000, 2000, 4000} {
		for _, order := range []struct {
			name string
			of   func([]pipeline.Part)
		}{
			{"first", func([]pipeline.Part) {}},
			{"last", slices.Reverse[[]pipeline.Part]},
		} {
			b.Run(fmt.Sprintf("stages=%d/from=%s", n, order.name), func(b *testing.B) { benchMaking(b, n, order.of) })
		}
	}
}

func benchMaking(b *testing.B, n int, order func([]pipeline.Part)) {
	for b.Loop() {
		parts := wiredLine(n)
		order(parts)
		p, err := pipeline.New("line", parts...)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := p.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/stage")
}

// wiredLine returns a line of stages that are connected by ports and wires.
func wiredLine(n int) (parts []pipeline.Part) {
	var in *behaviour.Port[int]
	for i := range n {
		out := behaviour.NewPort[int](strconv.Itoa(i))
		outs := []behaviour.Outlet{out}
		do := func(_ context.Context, c int) behaviour.Outcome { return behaviour.Forward(out, c) }
		if i == n-1 {
			outs = nil
			do = func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }
		}
		s := stage.Func(strconv.Itoa(i), do, stage.Out(outs...), stage.Workers(1, 1))
		parts = append(parts, s)
		if in != nil {
			parts = append(parts, pipeline.Wire(in, s))
		}
		in = out
	}
	return parts
}
