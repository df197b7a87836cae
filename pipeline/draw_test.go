package pipeline_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func ExamplePipeline_Mermaid() {
	words := behaviour.NewPort[string]("words")
	split := stage.Func("split", func(_ context.Context, line string) behaviour.Outcome {
		return behaviour.Forward(words, line)
	}, stage.Out(words))
	count := stage.Func("count", func(context.Context, string) behaviour.Outcome { return behaviour.OK(nil) })
	p, err := pipeline.New("words", split, count, pipeline.Wire(words, count))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(p.Mermaid())
	// Output:
	// flowchart LR
	//     s0["split"]
	//     s1["count"]
	//     s0 -->|"words"| s1
}

func TestADrawingShowsDeclaredEdgesTakenEdgesAndBackEdges(t *testing.T) {
	out := behaviour.NewPort[int]("out")
	var a, b *stage.Stage[int]
	a = stage.New("a", fn(func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(out, n) }), stage.Out(out))
	b = stage.New(`b "quoted" #1`, fn(func(_ context.Context, n int) behaviour.Outcome {
		if n == 0 {
			return behaviour.OK(nil)
		}
		return behaviour.Forward(a, n-1)
	}))
	p := run(t, a, b, pipeline.Wire(out, b))
	require.NotContains(t, p.Mermaid(), "s1 -", "the back edge was not taken yet")
	_, err := stage.Call[any](soon(t), a, 1)
	require.NoError(t, err)
	require.Equal(t, `flowchart LR
    s0["a"]
    s1["b #quot;quoted#quot; #35;1"]
    s0 -->|"out"| s1
    s1 -.->|"(back, MaxInFlight)"| s0
`, p.Mermaid())
	require.Equal(t, `digraph "test" {
    rankdir=LR
    node [shape=box]
    s0 [label="a"]
    s1 [label="b \"quoted\" #1"]
    s0 -> s1 [style=solid, label="out"]
    s1 -> s0 [style=dashed, label="(back, MaxInFlight)"]
}
`, p.DOT())
}

func TestAMappingIsCheckedReturnedAndDrawn(t *testing.T) {
	a, b, c := stage.Func("a", echo[int]), stage.Func("b", echo[int]), stage.Func("c", echo[int])
	p, err := pipeline.New("test", a, pipeline.Group("both", 1, 2, b, c), pipeline.Map("front", "a"), pipeline.Map("back", "both"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "front", "both": "back"}, p.Mapping())
	require.Contains(t, p.Mermaid(), `subgraph g0["both @ back"]`)
	require.Contains(t, p.Mermaid(), `s0["a @ front"]`)
	require.Contains(t, p.DOT(), `label="both @ back"`)

	a, b = stage.Func("a", echo[int]), stage.Func("b", echo[int])
	_, err = pipeline.New("test", a, pipeline.Group("g", 1, 1, b), pipeline.Map("", "a"), pipeline.Map("x", "a", "b", "who"))
	for _, fault := range []string{
		`Map(""): a process needs a name`, `Map("x"): "a" is mapped to "" already`,
		`Map("x"): "b" is in group "g", which is mapped as a whole`, `Map("x"): "who" is neither a group nor a stage`,
	} {
		require.ErrorContains(t, err, fault)
	}
}

func TestADrawingFramesStagesThatShareWorkers(t *testing.T) {
	out := behaviour.NewPort[int]("out")
	a := stage.New("a", fn(func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(out, n) }), stage.Out(out))
	b := stage.Func("b", echo[int])
	c := stage.Func("c", echo[int])
	p, err := pipeline.New("test", pipeline.System(system()), quiet, pipeline.Wire(out, b), c,
		pipeline.Group("both", 1, 2, a, b))
	require.NoError(t, err)
	require.Equal(t, `flowchart LR
    subgraph g0["both"]
        s1["a"]
        s2["b"]
    end
    s0["c"]
    s1 -->|"out"| s2
`, p.Mermaid(), "as declared")
	require.NoError(t, p.Start(t.Context()))
	require.Contains(t, p.DOT(), `    subgraph cluster0 {
        label="both"
        s1 [label="a"]
        s2 [label="b"]
    }
`, "as at present")
	require.NoError(t, p.Stop(soon(t)))
}

func TestADrawingShowsSynchronizersAndGuards(t *testing.T) {
	a := stage.Func("a", echo[sheet], stage.Guard("sheet", func(func(string) guard.Counters) bool { return true }))
	b, c, d := stage.Func("b", echo[sheet]), stage.Func("c", echo[any]), stage.Func("d", echo[any])
	p, err := pipeline.New("test", a, b, c, d,
		pipeline.Synchronize("printer", func(s *synchronizer.Synchronizer) {
			s.AtMost(1, on(a, "sheet"), on(b, "sheet"))
			s.OncePerRound(on(a, "sheet"), on(b, "sheet"))
			s.Atomic(on(d, "z"), on(c, "x"))
		}),
		pipeline.Synchronize("watch", func(s *synchronizer.Synchronizer) {
			s.Trigger(b, "sheet", synchronizer.Completed, func(guard.Request) {})
			s.Count(c, "y")
		}))
	require.NoError(t, err)
	require.Equal(t, `flowchart LR
    s0["a (guards)"]
    s1["b"]
    s2["c"]
    s3["d"]
    y0{{"printer"}}
    y0 -.-|"sheet: AtMost(1), OncePerRound"| s0
    y0 -.-|"sheet: AtMost(1), OncePerRound"| s1
    y0 -.-|"x: Atomic"| s2
    y0 -.-|"z: Atomic"| s3
    y1{{"watch"}}
    y1 -.-|"sheet: Trigger"| s1
    y1 -.-|"y: Count"| s2
`, p.Mermaid())
	require.Contains(t, p.DOT(), `    s3 [label="d"]
    y0 [label="printer", shape=hexagon]
    y0 -> s0 [style=dashed, dir=none, label="sheet: AtMost(1), OncePerRound"]
    y0 -> s1 [style=dashed, dir=none, label="sheet: AtMost(1), OncePerRound"]
    y0 -> s2 [style=dashed, dir=none, label="x: Atomic"]
`)
}
