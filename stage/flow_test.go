package stage_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/route"
)

func atoi(_ context.Context, s string) (int, error) { return strconv.Atoi(s) }

func half(_ context.Context, n int) (float64, error) { return float64(n) / 2, nil }

// run runs a pipeline until the end of the test, and returns it.
func run(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("test", append(parts, quiet)...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { assert.NoError(t, p.Stop(context.Background())) })
	return p
}

// collector is a sink that keeps what it gets.
type collector[T any] struct {
	mu  sync.Mutex
	got []T
}

func (c *collector[T]) stage(name string) *stage.Flow[T, struct{}] {
	return stage.Sink(name, func(_ context.Context, x T) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.got = append(c.got, x)
		return nil
	})
}

func TestAChainOfFlowsIsAFlowFromTheFirstTypeToTheLast(t *testing.T) {
	parse, halve := stage.Map("parse", atoi), stage.Map("halve", half)
	show := stage.Map("show", func(_ context.Context, f float64) (string, error) { return fmt.Sprint(f), nil })
	again := stage.Map("again", atoi)
	chain := stage.Chain(stage.Chain(stage.Chain(parse, halve), show), again)
	p := run(t, chain)

	got, err := chain.Call(t.Context(), "8")
	require.NoError(t, err)
	assert.Equal(t, 4, got)
	_, err = chain.Call(t.Context(), "3") // show makes it 1.5, which again cannot parse
	require.ErrorIs(t, err, strconv.ErrSyntax)
	require.ErrorContains(t, err, `"again"`)
	_, err = chain.Call(t.Context(), "eight")
	require.ErrorIs(t, err, strconv.ErrSyntax)
	require.ErrorContains(t, err, `"parse"`)

	s := p.Snapshot()
	assert.Equal(t, []uint64{3, 1, 2}, []uint64{s.Accepted, s.Replied, s.Failed})
	_, err = parse.Call(t.Context(), "8") // its result is another stage's, and an int too
	require.NoError(t, err)
	_, err = halve.Call(t.Context(), 8)
	var result *stage.TypeError
	require.ErrorAs(t, err, &result)
}

func TestAFilterEndsWhatItDoesNotKeep(t *testing.T) {
	var sink collector[int]
	keep := stage.Filter("even", func(_ context.Context, n int) (bool, error) {
		if n < 0 {
			return false, errors.New("negative")
		}
		return n%2 == 0, nil
	}, stage.Workers(1, 1))
	p := run(t, keep.To(sink.stage("sink")))
	for n := range 10 {
		_, err := keep.Call(t.Context(), n)
		require.NoError(t, err)
	}
	_, err := keep.Call(t.Context(), -1)
	require.ErrorContains(t, err, "negative")
	assert.Equal(t, []int{0, 2, 4, 6, 8}, sink.got)
	s := p.Snapshot()
	assert.Equal(t, []uint64{11, 10, 1}, []uint64{s.Accepted, s.Replied, s.Failed})
}

func TestAFlatMapSendsAnyNumberOfResults(t *testing.T) {
	var sink collector[string]
	split := stage.FlatMap("split", func(_ context.Context, line string, emit func(string) error) error {
		for word := range strings.FieldsSeq(line) {
			if err := emit(word); err != nil {
				return err
			}
		}
		if strings.HasSuffix(line, "!") {
			return errors.New("too loud")
		}
		return nil
	}, stage.Workers(1, 1))
	run(t, split.To(sink.stage("sink")))
	for _, line := range []string{"a b c", "", "d!", "e"} {
		_, err := split.Call(t.Context(), line)
		assert.Equal(t, line == "d!", err != nil, line)
	}
	assert.ElementsMatch(t, []string{"a", "b", "c", "e"}, sink.got, "a line that failed has no results")

	many := strings.Repeat("x ", 5000)
	_, err := split.Call(t.Context(), many)
	require.NoError(t, err)
	assert.Len(t, sink.got, 5004)
}

func TestToSeveralStagesSendsEachResultToAll(t *testing.T) {
	var a, b collector[int]
	fail := stage.Sink("fail", func(_ context.Context, n int) error {
		if n == 7 {
			return errors.New("seven")
		}
		return nil
	})
	parse := stage.Map("parse", atoi)
	p := run(t, parse.To(a.stage("a"), b.stage("b")), parse.To(fail))
	for n := range 10 {
		_, err := parse.Call(t.Context(), strconv.Itoa(n))
		assert.Equal(t, n == 7, err != nil, n)
	}
	assert.Len(t, a.got, 10, "the caller has waited for all")
	assert.Len(t, b.got, 10)
	assert.ElementsMatch(t, a.got, b.got)
	assert.Equal(t, uint64(30), p.Snapshot().Accepted, "each copy is a command")
}

func TestARoutePicksOneTarget(t *testing.T) {
	for name, c := range map[string]struct {
		pick func(out, n int) int
		want []int // how many of 0 to 8 each of three targets gets; nil: see the code
		err  bool
	}{
		"in turn":                  {pick: route.RoundRobin[int](), want: []int{3, 3, 3}},
		"by a function":            {pick: func(n, _ int) int { return min(n/4, 1) }, want: []int{4, 5, 0}},
		"by key, all of one key":   {pick: route.ByKey(func(int) string { return "k" })},
		"outside the targets":      {pick: func(_, n int) int { return n }, want: []int{0, 0, 0}, err: true},
		"below zero":               {pick: func(int, int) int { return -1 }, want: []int{0, 0, 0}, err: true},
		"a pick that panics fails": {pick: func(int, int) int { panic("pick") }, want: []int{0, 0, 0}, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			var sinks [3]collector[int]
			parse := stage.Map("parse", atoi)
			run(t, parse.Route(c.pick, sinks[0].stage("a"), sinks[1].stage("b"), sinks[2].stage("c")))
			for n := range 9 {
				_, err := parse.Call(t.Context(), strconv.Itoa(n))
				assert.Equal(t, c.err, err != nil, "%v", err)
			}
			var got []int
			for i := range sinks {
				got = append(got, len(sinks[i].got))
			}
			if c.want == nil {
				assert.ElementsMatch(t, []int{9, 0, 0}, got)
				return
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestAFlowHasTheOptionsOfAStage(t *testing.T) {
	var tries atomic.Int64
	parse := stage.Map("parse", func(ctx context.Context, s string) (int, error) {
		if tries.Add(1) < 3 {
			panic("not yet")
		}
		return atoi(ctx, s)
	}, stage.Retry(stage.RetryPolicy{Attempts: 3}))
	run(t, parse)
	got, err := parse.Call(t.Context(), "5")
	require.NoError(t, err)
	assert.Equal(t, 5, got)
	assert.Equal(t, int64(3), tries.Load())
}

func TestAGroupOfAChainHasAllItsStages(t *testing.T) {
	chain := stage.Chain(stage.Map("parse", atoi), stage.Map("halve", half))
	p := run(t, pipeline.Group("both", 1, 2, chain), pipeline.Entry(chain))
	got, err := chain.Call(t.Context(), "8")
	require.NoError(t, err)
	assert.InDelta(t, 4.0, got, 0)
	pools := p.Snapshot().Pools
	require.Len(t, pools, 1)
	assert.Equal(t, []string{"parse", "halve"}, pools[0].Stages)
}

func TestWhatIsWrongWithAFlowIsReportedWhenThePipelineIsMade(t *testing.T) {
	sink := func() *stage.Flow[int, struct{}] { return new(collector[int]).stage("sink") }
	for name, c := range map[string]struct {
		parts func() pipeline.Part
		want  string
	}{
		"a nil function": {func() pipeline.Part { return stage.Map[int, int]("f", nil) }, `stage "f": Map: the function is nil`},
		"a nil sink":     {func() pipeline.Part { return stage.Sink[int]("f", nil) }, `stage "f": Sink: the function is nil`},
		"a FlatMap to nowhere": {func() pipeline.Part {
			return stage.FlatMap[int, int]("f", func(context.Context, int, func(int) error) error { return nil })
		}, "leads nowhere"},
		"a nil target":            {func() pipeline.Part { return stage.Map("f", atoi).To(nil) }, "target 1 is nil"},
		"a nil flow as a target":  {func() pipeline.Part { return stage.Map("f", atoi).To((*stage.Flow[int, int])(nil)) }, "target 1 is nil"},
		"a nil flow as a part":    {func() pipeline.Part { return (*stage.Flow[int, int])(nil) }, "is nil"},
		"a Route without targets": {func() pipeline.Part { return stage.Map("f", atoi).Route(route.RoundRobin[int]()) }, "there is no target"},
		"a nil Pick":              {func() pipeline.Part { return stage.Map("f", atoi).Route(nil, sink()) }, "the function is nil"},
		"a nil key":               {func() pipeline.Part { return stage.Map("f", atoi).Route(route.ByKey[int, int](nil), sink()) }, "the function is nil"},
		"a Route beside a To": {func() pipeline.Part {
			f := stage.Map("f", atoi)
			return pipeline.Subgraph(f.To(sink()), f.Route(route.RoundRobin[int](), sink()))
		}, "one Route, or any number of To"},
		"a To of a stage that runs": {func() pipeline.Part {
			f := stage.Map("f", atoi)
			_, err := pipeline.New("other", f)
			require.NoError(t, err)
			return f.To(sink())
		}, "belongs to a pipeline already"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New("p", c.parts(), quiet)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Plain functions are enough for a pipeline. The compiler checks that they fit.
func ExampleMap() {
	parse := stage.Map("parse", func(_ context.Context, s string) (int, error) { return strconv.Atoi(s) })
	double := stage.Map("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	chain := stage.Chain(parse, double)
	defer must(chain)()

	fmt.Println(chain.Call(context.Background(), "21"))
	fmt.Println(chain.Call(context.Background(), "x"))
	// Output:
	// 42 <nil>
	// 0 stage "parse": strconv.Atoi: parsing "x": invalid syntax
}

// A FlatMap has any number of results for each command. Its caller waits for all that came of them.
func ExampleFlatMap() {
	var words atomic.Int64
	split := stage.FlatMap("split", func(_ context.Context, line string, emit func(string) error) error {
		for word := range strings.FieldsSeq(line) {
			if err := emit(word); err != nil {
				return err
			}
		}
		return nil
	})
	count := stage.Sink("count", func(context.Context, string) error {
		words.Add(1)
		return nil
	})
	defer must(split.To(count))()

	_, err := split.Call(context.Background(), "to be or not to be")
	fmt.Println(words.Load(), err)
	// Output: 6 <nil>
}

// Results of one key always go to the same stage.
func ExampleFlow_Route() {
	even := stage.Sink("even", func(_ context.Context, _ int) error { return nil })
	odd := stage.Sink("odd", func(_ context.Context, _ int) error { return nil })
	parse := stage.Map("parse", func(_ context.Context, s string) (int, error) { return strconv.Atoi(s) })
	defer must(parse.Route(func(n, _ int) int { return n % 2 }, even, odd))()

	for _, s := range []string{"1", "2", "3"} {
		if _, err := parse.Call(context.Background(), s); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(even.Snapshot().Counts.OK, odd.Snapshot().Counts.OK)
	// Output: 1 2
}
