package window_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// value is a command with a checksum: one that is read after its box is used again has another sum, or another's text.
type value struct {
	n    int
	text string
	sum  int
}

func newValue(n int) value { return value{n, strconv.Itoa(n), n * 31} }

func (v value) key() int { return v.n % 7 }

// flows makes stages, each of which does what results says of its kind, and notes what comes out in the end.
type flows struct {
	mu     sync.Mutex // guards all below
	got    map[int]int
	faults []string
}

func (f *flows) check(where string, v value) value {
	if v != newValue(v.n) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.faults = append(f.faults, fmt.Sprintf("%s: %+v", where, v))
	}
	return v
}

// results are the values that a stage of a kind sends on for one.
func results(kind string, n int) []int {
	switch {
	case kind == "filter" && n%4 == 0:
		return nil
	case kind == "flatmap":
		return []int{2 * n, 2*n + 1}
	case kind == "filter", kind == "window", kind == "keyed":
		return []int{n}
	default:
		return []int{n + 1}
	}
}

// stageOf makes a stage of a kind before a target.
func (f *flows) stageOf(kind, name string, to behaviour.Target[value]) (behaviour.Target[value], []pipeline.Part) {
	next := func(_ context.Context, v value) (value, error) {
		return newValue(results(kind, f.check(name, v).n)[0]), nil
	}
	flow := func(s *stage.Flow[value, value]) (behaviour.Target[value], []pipeline.Part) {
		return s, []pipeline.Part{s.To(to)}
	}
	switch kind {
	case "filter":
		return flow(stage.Filter(name, func(_ context.Context, v value) (bool, error) {
			return len(results(kind, f.check(name, v).n)) > 0, nil
		}))
	case "flatmap":
		return flow(stage.FlatMap(name, func(_ context.Context, v value, emit func(value) error) error {
			for _, n := range results(kind, f.check(name, v).n) {
				if err := emit(newValue(n)); err != nil {
					return err
				}
			}
			return nil
		}))
	case "keyed":
		s := stage.Keyed(name, value.key, func(key int) behaviour.Func[value] {
			return func(_ context.Context, v value) behaviour.Outcome {
				if f.check(name, v).key() != key {
					f.check(name, value{})
				}
				return behaviour.Forward(to, v)
			}
		})
		return s, []pipeline.Part{s}
	case "window":
		of := window.By(name, value.key, window.Bounds[value]{Count: 5, Time: time.Millisecond})
		open := stage.FlatMap(name+" open", func(_ context.Context, w window.Window[int, []value], emit func(value) error) error {
			for _, v := range w.Value {
				if err := emit(f.check(name, v)); err != nil {
					return err
				}
			}
			return nil
		})
		return of, []pipeline.Part{of.To(open), open.To(to)}
	case "ordered":
		return flow(stage.Map(name, next, stage.Ordered(), stage.Workers(3, 3)))
	case "rated":
		return flow(stage.Map(name, next, stage.Rate(50, time.Millisecond, 10)))
	default:
		return flow(stage.Map(name, next, stage.Batch(3), stage.Capacity(4)))
	}
}

func TestRandomFlowsDoToEachValueWhatASimpleModelDoes(t *testing.T) {
	kinds := []string{"map", "flatmap", "filter", "keyed", "ordered", "rated", "window"}
	rapid.Check(t, func(rt *rapid.T) {
		if rapid.Bool().Draw(rt, "retire") {
			defer command.Retire()() // so that a use of a box after its recycling is a panic
		}
		f := &flows{got: map[int]int{}}
		drawn := rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 5).Draw(rt, "flows")
		n := rapid.SampledFrom([]int{1, 10, 100}).Draw(rt, "values")
		sink := stage.Sink("sink", func(_ context.Context, v value) error {
			f.check("sink", v)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.got[v.n]++
			return nil
		})
		parts := []pipeline.Part{sink, pipeline.Logger(slog.New(slog.DiscardHandler))}
		var first behaviour.Target[value] = sink
		for i, kind := range slices.Backward(drawn) {
			var more []pipeline.Part
			first, more = f.stageOf(kind, fmt.Sprintf("%d %s", i, kind), first)
			parts = append(parts, more...)
		}
		p, err := pipeline.New("flows", parts...)
		require.NoError(rt, err)
		require.NoError(rt, p.Start(context.Background()))
		var callers sync.WaitGroup
		for c := range 2 {
			callers.Go(func() {
				for v := c; v < n; v += 2 {
					_ = first.Submit(context.Background(), newValue(v))
				}
			})
		}
		callers.Wait()
		require.NoError(rt, p.Stop(context.Background()))
		require.Empty(rt, f.faults)
		require.Equal(rt, wanted(drawn, n), f.got)
	})
}

// wanted is how often each value comes to the end.
func wanted(kinds []string, n int) map[int]int {
	now := make([]int, n)
	for i := range now {
		now[i] = i
	}
	for _, kind := range kinds {
		var next []int
		for _, v := range now {
			next = append(next, results(kind, v)...)
		}
		now = next
	}
	count := map[int]int{}
	for _, v := range now {
		count[v]++
	}
	return count
}
