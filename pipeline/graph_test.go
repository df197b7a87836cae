package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// drawn makes the stages of a graph. Stages have names of one letter, and edges are written as the names of the stages that they
// join: "ab", "bc" for a line of three.
func drawn(order string, ways ...string) (stages map[string]*stage.Stage[int], parts []pipeline.Part) {
	stages, ports := map[string]*stage.Stage[int]{}, map[string]*behaviour.Port[int]{}
	for _, name := range order {
		var outs []behaviour.Outlet
		for _, way := range ways {
			if way[:1] == string(name) {
				ports[way] = behaviour.NewPort[int](way)
				outs = append(outs, ports[way])
			}
		}
		s := stage.New(string(name), fn(echo[int]), stage.Out(outs...))
		stages[string(name)], parts = s, append(parts, s)
	}
	for _, way := range ways {
		parts = append(parts, pipeline.Wire(ports[way], stages[way[1:]]))
	}
	return stages, parts
}

// seen returns what a policy sees of the graph, a word for each stage: its name, its rank, a star if it is in a loop, and the next
// stages: "b1*cd".
func seen(s *controller.Snapshot) (words []string) {
	for _, st := range s.Stages {
		word := fmt.Sprintf("%s%d", st.Name, st.Rank)
		if st.Cyclic {
			word += "*"
		}
		for _, id := range st.Next {
			word = fmt.Sprint(word, s.Stages[id].Name)
		}
		words = append(words, word)
	}
	return words
}

func TestAPolicySeesTheGraph(t *testing.T) {
	rows := map[string]struct {
		order string
		ways  []string
		want  []string
	}{
		"a line":                         {"abc", []string{"ab", "bc"}, []string{"a0b", "b1c", "c2"}},
		"a line, declared backwards":     {"cba", []string{"ab", "bc"}, []string{"c2", "b1c", "a0b"}},
		"alone":                          {"ab", nil, []string{"a0", "b0"}},
		"fan out":                        {"abcd", []string{"ab", "ac", "ad"}, []string{"a0bcd", "b1", "c1", "d1"}},
		"fan in":                         {"abcd", []string{"ad", "bd", "cd"}, []string{"a0d", "b0d", "c0d", "d1"}},
		"a diamond":                      {"abcd", []string{"ab", "ac", "bd", "cd"}, []string{"a0bc", "b1d", "c1d", "d2"}},
		"a diamond with a longer side":   {"abcde", []string{"ab", "ad", "bc", "ce", "de"}, []string{"a0bd", "b1c", "c2e", "d1e", "e3"}},
		"a short cut":                    {"abc", []string{"ac", "ab", "bc"}, []string{"a0bc", "b1c", "c2"}},
		"to itself":                      {"abc", []string{"ab", "bb", "bc"}, []string{"a0b", "b1*c", "c2"}},
		"a loop":                         {"abcd", []string{"ab", "bc", "cb", "cd"}, []string{"a0b", "b1*c", "c2*d", "d3"}},
		"a long loop":                    {"abcde", []string{"ab", "bc", "cd", "da", "de"}, []string{"a0*b", "b1*c", "c2*d", "d3*e", "e4"}},
		"a loop around a diamond":        {"abcd", []string{"ab", "ac", "bd", "cd", "da"}, []string{"a0*bc", "b1*d", "c1*d", "d2*"}},
		"a loop with a side edge":        {"abcd", []string{"ab", "ac", "ba", "cd"}, []string{"a0*bc", "b1*", "c1d", "d2"}},
		"two loops that share a stage":   {"abc", []string{"ab", "ba", "bc", "cb"}, []string{"a0*b", "b1*c", "c2*"}},
		"two loops with an edge between": {"abcd", []string{"ab", "ba", "bc", "cd", "dc"}, []string{"a0*b", "b1*c", "c2*d", "d3*"}},
		"a loop that needs two back edges": {
			"vzxuy",
			[]string{"vu", "vy", "zy", "zx", "xu", "uv", "yz"},
			[]string{"v0*uy", "z0*xy", "x1*u", "u2*", "y1*"},
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var words []string
				_, parts := drawn(row.order, row.ways...)
				p := bubble(t, append(parts, pipeline.Control(once(func(s *controller.Snapshot, _ *controller.Decisions) { words = seen(s) })))...)
				require.Equal(t, row.want, words)
				end(t, p)
			})
		})
	}
}

// look returns what a policy would see now.
func look(t *testing.T, p *pipeline.Pipeline) (words []string) {
	t.Helper()
	require.NoError(t, p.SetPolicy(once(func(s *controller.Snapshot, _ *controller.Decisions) { words = seen(s) })))
	return words
}

func TestAPolicySeesEdgesOnceTheyWereTaken(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var a, b *stage.Stage[int]
		a = stage.Func("a", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(b, n) })
		b = stage.Func("b", func(_ context.Context, n int) behaviour.Outcome {
			if n == 0 {
				return behaviour.OK(nil)
			}
			return behaviour.Forward(a, n-1)
		})
		p := bubble(t, a, b)
		require.Equal(t, []string{"a0", "b0"}, look(t, p))
		submit(t, a, 0)
		synctest.Wait()
		require.Equal(t, []string{"a0b", "b1"}, look(t, p))
		submit(t, a, 1)
		synctest.Wait()
		require.Equal(t, []string{"a0*b", "b1*"}, look(t, p))
		end(t, p)
	})
}

func TestAPolicySeesStagesThatAreAddedAndRemoved(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		stages, parts := drawn("abc", "ab", "bc")
		p := bubble(t, parts...)
		out := behaviour.NewPort[int]("out")
		require.NoError(t, p.Add(t.Context(), stage.New("x", fn(echo[int]), stage.Out(out)), pipeline.Wire(out, stages["b"])))
		require.Equal(t, []string{"a0b", "b1c", "c2", "x0b"}, look(t, p))
		require.NoError(t, p.Remove(t.Context(), stages["a"]))
		require.Equal(t, []string{"b1c", "c2", "x0b"}, look(t, p), "the edges of the other stages lead to the same stages")
		require.NoError(t, p.Remove(t.Context(), stages["b"]))
		require.Equal(t, []string{"c0", "x0"}, look(t, p))
		end(t, p)
	})
}

// When a removal breaks a loop, its back edge becomes a forward edge.
func TestABackEdgeBecomesAForwardEdgeWhenItsLoopIsGone(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		stages, parts := drawn("abc", "ab", "bc", "ca")
		p := bubble(t, parts...)
		require.Equal(t, []string{"a0*b", "b1*c", "c2*"}, look(t, p))
		require.NoError(t, p.Remove(t.Context(), stages["b"]))
		require.Equal(t, []string{"a1", "c0a"}, look(t, p))
		end(t, p)
	})
}

// Workers keep what they know of an edge from its first use, so a removal must not turn a forward edge into a back edge: stages of the
// loop could wait for one another.
func TestARemovalDoesNotMakeAForwardEdgeABackEdge(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		gate := make(chan struct{})
		stages := map[string]*stage.Stage[int]{}
		node := func(name, next string) *stage.Stage[int] {
			return stage.Func(name, func(_ context.Context, hops int) behaviour.Outcome {
				if hops < 0 {
					<-gate
				}
				if hops <= 0 {
					return behaviour.OK(hops)
				}
				return behaviour.Forward(stages[next], hops-1)
			}, stage.Capacity(1))
		}
		stages["a"], stages["b"], stages["c"] = node("a", "b"), node("b", "a"), node("c", "c")
		p := bubble(t, stages["a"], stages["b"], stages["c"], pipeline.Group("loop", 1, 1, stages["a"], stages["b"]))
		_, err := stage.Call[int](t.Context(), stages["b"], 1) // b → a is known first, so a → b is the back edge
		require.NoError(t, err)
		_, err = stage.Call[int](t.Context(), stages["a"], 1)
		require.NoError(t, err)
		require.NoError(t, p.Remove(t.Context(), stages["c"]))
		require.Equal(t, []string{"a1*", "b0*a"}, look(t, p))

		require.NoError(t, stages["a"].Submit(t.Context(), -1))
		synctest.Wait()
		first, err := stages["a"].Ask(t.Context(), 3)
		require.NoError(t, err)
		second, err := stages["b"].Ask(t.Context(), 3)
		require.NoError(t, err)
		close(gate)
		_, err = first.Wait(t.Context())
		require.NoError(t, err)
		_, err = second.Wait(t.Context())
		require.NoError(t, err)
		end(t, p)
	})
}

// The snapshot has all pools: in the order of the stages, then the groups, then those that policies made.
func TestAPolicySeesThePools(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var pools []string
		see := func(s *controller.Snapshot) {
			pools = nil
			for _, pool := range s.Pools {
				pools = append(pools, fmt.Sprintf("%s %v %v %v %d", pool.Name, pool.Own, pool.Group, pool.Stages, pool.Workers))
			}
		}
		a, b := stage.New("a", fn(echo[int]), stage.Workers(2, 3)), stage.New("b", fn(echo[int]))
		p := bubble(t, pipeline.Group("g", 1, 4, b), a, pipeline.Control(once(func(s *controller.Snapshot, d *controller.Decisions) {
			see(s)
			controller.KnobWorkers.SetPool(d, "made", 3, "test")
			controller.KnobPool.Set(d, 1, "made", "test")
		})))
		require.Equal(t, []string{"b true false [] 0", "a true false [1] 2", "g false true [0] 1"}, pools)
		require.NoError(t, p.SetPolicy(once(func(s *controller.Snapshot, _ *controller.Decisions) { see(s) })))
		require.Equal(t, []string{"b true false [] 0", "a true false [1] 2", "g false true [0] 1", "made false false [] 1"}, pools)
		end(t, p)
	})
}

func TestADrawingShowsGroups(t *testing.T) {
	_, parts := drawn("ab", "ab")
	p, err := pipeline.New("p", pipeline.Group("g", 1, 1, parts...))
	require.NoError(t, err)
	require.Contains(t, p.Mermaid(), "subgraph")
	require.Contains(t, p.DOT(), "subgraph")
}

func TestADrawingShowsThePresentStages(t *testing.T) {
	stages, parts := drawn("abc", "ab", "bc", "ca")
	p := run(t, parts...)
	require.Equal(t, `flowchart LR
    s0["a"]
    s1["b"]
    s2["c"]
    s0 -->|"ab"| s1
    s1 -->|"bc"| s2
    s2 -->|"ca (back, MaxInFlight)"| s0
`, p.Mermaid())
	require.NoError(t, p.Remove(soon(t), stages["b"]))
	require.NoError(t, p.Add(soon(t), stage.New("d", fn(echo[int]))))
	require.Equal(t, `flowchart LR
    s0["a"]
    s2["c"]
    s3["d"]
    s2 -->|"ca"| s0
`, p.Mermaid())
}

// In every graph following Next ends, and ranks grow along it.
func TestFollowingNextEnds(t *testing.T) {
	order := "abcdef"
	for seed := range 200 {
		var ways []string
		for i := range 9 {
			from, to := (seed*7+i*i*3+i)%6, (seed*5+i*11+seed/6)%6
			if way := order[from:from+1] + order[to:to+1]; !slices.Contains(ways, way) {
				ways = append(ways, way)
			}
		}
		_, parts := drawn(order, ways...)
		p, err := pipeline.New("p", append(parts, pipeline.System(system()), quiet, pipeline.Control(once(func(s *controller.Snapshot, _ *controller.Decisions) {
			for _, st := range s.Stages {
				for _, id := range st.Next {
					if s.Stages[id].Rank <= st.Rank {
						t.Errorf("%v: %v", ways, seen(s))
					}
				}
				wants := slices.Contains(loops(ways), st.Name)
				if st.Cyclic && !wants {
					t.Errorf("%v: %s is in no loop: %v", ways, st.Name, seen(s))
				}
			}
		})))...)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		require.NoError(t, p.Stop(soon(t)))
	}
}

// loops returns the stages that are in a loop, found by a simple algorithm.
func loops(ways []string) (names []string) {
	for _, way := range ways {
		reached := []string{way[1:]}
		for i := 0; i < len(reached); i++ {
			for _, next := range ways {
				if next[:1] == reached[i] && !slices.Contains(reached, next[1:]) {
					reached = append(reached, next[1:])
				}
			}
		}
		if slices.Contains(reached, way[:1]) {
			names = append(names, way[:1])
		}
	}
	return names
}
