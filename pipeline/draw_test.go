package pipeline_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/guard"
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
	all := p.Snapshot().Stages
	require.Len(t, all[0].Edges, 1)
	require.Len(t, all[1].Edges, 1)
	ahead, back := all[0].Edges[0], all[1].Edges[0]
	require.Equal(t, [2]string{all[1].Name, "out"}, [2]string{ahead.To, ahead.Port})
	require.Equal(t, [2]string{"a", ""}, [2]string{back.To, back.Port})
	require.Equal(t, [2]bool{false, true}, [2]bool{ahead.Back, back.Back})
	require.Equal(t, [2]uint64{2, 1}, [2]uint64{ahead.Moved, back.Moved})
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
	p, err := pipeline.New("test", a, pipeline.Group("both", 1, 2, b, c), pipeline.Assign("front", "a"), pipeline.Assign("back", "both"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "front", "both": "back"}, p.Assignments())
	require.Contains(t, p.Mermaid(), `subgraph g0["both @ back"]`)
	require.Contains(t, p.Mermaid(), `s0["a @ front"]`)
	require.Contains(t, p.DOT(), `label="both @ back"`)

	a, b = stage.Func("a", echo[int]), stage.Func("b", echo[int])
	_, err = pipeline.New("test", a, pipeline.Group("g", 1, 1, b), pipeline.Assign("", "a"), pipeline.Assign("x", "a", "b", "who"))
	for _, fault := range []string{
		`Assign(""): a process needs a name`, `Assign("x"): "a" is mapped to "" already`,
		`Assign("x"): "b" is in group "g", which is mapped as a whole`, `Assign("x"): "who" is neither a group nor a stage`,
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

func TestADrawingShowsGuards(t *testing.T) {
	a := stage.Func("a", echo[int], stage.Guard("int", func(func(string) guard.Counters) bool { return true }))
	p, err := pipeline.New("test", a, stage.Func("b", echo[int]))
	require.NoError(t, err)
	require.Equal(t, `flowchart LR
    s0["a (guards)"]
    s1["b"]
`, p.Mermaid())
	require.Contains(t, p.DOT(), `    s0 [label="a (guards)"]`)
}
