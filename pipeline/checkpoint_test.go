package pipeline_test

import (
	"context"
	"encoding/gob"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// span is the sum of some numbers, and how many there were.
type span struct{ First, Sum, N int }

func (s span) plus(n int) span {
	if s.N == 0 {
		s.First = n
	}
	return span{s.First, s.Sum + n, s.N + 1}
}

// progress is the state of a key: what has come by now.
type progress struct{ Sum, Spans int }

func init() { gob.Register(progress{}) }

// runner adds up the spans of a key.
type runner struct {
	key int
	at  progress
	out func(key int, at progress)
}

func (r *runner) HandleCommand(_ context.Context, w window.Window[int, span]) behaviour.Outcome {
	r.at.Sum += w.Value.Sum
	r.at.Spans++
	r.out(r.key, r.at)
	return behaviour.OK(nil)
}

func (r *runner) Snapshot() any { return r.at }

func (r *runner) Restore(state any) error { r.at = state.(progress); return nil }

// ledger is what sinks keep outside of the process: by key, so that what comes again replaces what there is.
type ledger struct {
	mu     sync.Mutex
	spans  map[[2]int]span
	totals map[int]progress
	groups map[int]string
}

func newLedger() *ledger {
	return &ledger{spans: map[[2]int]span{}, totals: map[int]progress{}, groups: map[int]string{}}
}

const keys = 5

// summing makes a pipeline of windows of two kinds and of states by key, for the numbers from 0 to before n. Gate is called before each.
func summing(t *testing.T, l *ledger, file string, n int, gate func(ctx context.Context, n int)) *pipeline.Pipeline {
	t.Helper()
	all := func(ctx context.Context, submit func(int) error) error {
		for i := int(source.Position(ctx)); i < n; i++ {
			gate(ctx, i)
			if err := submit(i); err != nil {
				return err
			}
		}
		return nil
	}
	read := stage.Map("read", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Workers(1, 1))
	sums := window.Aggregate("sums", func(n int) int { return n % keys }, span.plus, window.Bounds[int]{Count: 7})
	groups := window.By("groups", func(n int) int { return n % keys }, window.Bounds[int]{Count: 11})
	each := stage.Sink("each", func(_ context.Context, w window.Window[int, span]) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.spans[[2]int{w.Key, w.Value.First}] = w.Value
		return nil
	})
	list := stage.Sink("list", func(_ context.Context, w window.Window[int, []int]) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.groups[w.Value[0]] = fmt.Sprint(w.Key, w.Count, w.Value)
		return nil
	})
	total := stage.Keyed("total", func(w window.Window[int, span]) int { return w.Key }, func(key int) *runner {
		return &runner{key: key, out: func(key int, at progress) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.totals[key] = at
		}}
	})
	p, err := pipeline.New("summing", pipeline.Checkpoint(file, 10*time.Millisecond), pipeline.Feed("numbers", read, all),
		read.To(sums, groups), sums.To(each, total), groups.To(list), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	return p
}

// expected is the ledger of a run without kills, as a loop computes it.
func expected(n int) *ledger {
	l, open, lists := newLedger(), map[int]span{}, map[int][]int{}
	closeSpan := func(key int) {
		if s := open[key]; s.N > 0 {
			l.spans[[2]int{key, s.First}] = s
			l.totals[key] = progress{l.totals[key].Sum + s.Sum, l.totals[key].Spans + 1}
		}
		delete(open, key)
	}
	closeList := func(key int) {
		if all := lists[key]; len(all) > 0 {
			l.groups[all[0]] = fmt.Sprint(key, len(all), all)
		}
		delete(lists, key)
	}
	for i := range n {
		key := i % keys
		if open[key] = open[key].plus(i); open[key].N == 7 {
			closeSpan(key)
		}
		if lists[key] = append(lists[key], i); len(lists[key]) == 11 {
			closeList(key)
		}
	}
	for key := range keys {
		closeSpan(key)
		closeList(key)
	}
	return l
}

func (l *ledger) require(t *testing.T, n int) {
	t.Helper()
	want := expected(n)
	require.Equal(t, want.spans, l.spans)
	require.Equal(t, want.groups, l.groups)
	require.Equal(t, want.totals, l.totals)
}

// kill is what a kill leaves behind: the file as it was at that moment. The pipeline is stopped hard afterwards.
func kill(t *testing.T, p *pipeline.Pipeline, file string) {
	t.Helper()
	image, err := os.ReadFile(file)
	there := err == nil
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Stop(gone)
	<-p.Done()
	if there {
		require.NoError(t, os.WriteFile(file, image, 0o600))
	} else {
		_ = os.Remove(file)
	}
}

func TestAnAggregationThatIsKilledAgainAndAgainHasTheSameResults(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(uint64(round), 1))
			file, l := filepath.Join(t.TempDir(), "state"), newLedger()
			const n = 3000
			resumed := 0
			for range 4 {
				at, reached := random.IntN(n), make(chan struct{})
				var once sync.Once
				p := summing(t, l, file, n, func(_ context.Context, i int) {
					if i%20 == 0 {
						time.Sleep(200 * time.Microsecond) // so that there are some saves
					}
					if i >= at {
						once.Do(func() { close(reached) })
					}
				})
				require.NoError(t, p.Start(t.Context()))
				if p.Snapshot().Feeds[0].Checkpoint > 0 {
					resumed++
				}
				select {
				case <-reached:
				case <-p.Done():
				}
				kill(t, p, file)
			}
			p := summing(t, l, file, n, func(context.Context, int) {})
			require.NoError(t, p.Run(t.Context()))
			require.EqualValues(t, n, p.Snapshot().Feeds[0].Checkpoint)
			l.require(t, n)
			t.Log("resumed", resumed)

			again := newLedger() // nothing is left to do
			p = summing(t, again, file, n, func(context.Context, int) { t.Error("a command is read again") })
			require.NoError(t, p.Run(t.Context()))
			assert.Empty(t, again.spans)
		})
	}
}

func TestAStopKeepsOpenWindowsForTheNextProcess(t *testing.T) {
	file, l := filepath.Join(t.TempDir(), "state"), newLedger()
	const n = 203
	wait := make(chan struct{})
	p := summing(t, l, file, n, func(ctx context.Context, i int) {
		if i == 100 {
			close(wait)
			<-ctx.Done()
		}
	})
	stopped, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(stopped) }()
	<-wait
	cancel()
	require.NoError(t, <-done)
	for _, s := range l.spans {
		require.Equal(t, 7, s.N, "a window was passed on that is not full")
	}
	require.EqualValues(t, 100, p.Snapshot().Feeds[0].Checkpoint)
	require.NoError(t, summing(t, l, file, n, func(context.Context, int) {}).Run(t.Context()))
	l.require(t, n)
	require.True(t, maps.Equal(expected(n).totals, l.totals))
}

func TestACheckpointThatDoesNotFitIsAnError(t *testing.T) {
	sum := func(name string, opts ...stage.Option) *stage.Flow[int, window.Window[int, int]] {
		return led(window.Aggregate(name, func(n int) int { return n }, func(sum, n int) int { return sum + n },
			window.Bounds[int]{Count: 10}, opts...))
	}
	file := filepath.Join(t.TempDir(), "state")
	start := func(parts ...pipeline.Part) error {
		p, err := pipeline.New("test", append(parts, pipeline.Checkpoint(file, time.Hour), pipeline.Logger(slog.New(slog.DiscardHandler)))...)
		require.NoError(t, err)
		err = p.Start(t.Context())
		if err == nil {
			require.NoError(t, p.Stop(t.Context()))
		}
		return err
	}
	fed := func(feed, name string) pipeline.Part { return pipeline.Feed(feed, sum(name), few) }
	require.NoError(t, start(fed("numbers", "sum")))
	require.NoError(t, start(fed("numbers", "sum")))

	var fault *pipeline.CheckpointError
	require.ErrorAs(t, start(fed("others", "sum")), &fault)
	require.ErrorContains(t, fault, `it has no position of feed "others"`)
	require.ErrorAs(t, start(fed("numbers", "another")), &fault)
	require.Equal(t, "another", fault.Stage)
	require.ErrorContains(t, fault, `the state of stage "another": there is none`)
	wide := led(window.Aggregate("sum", func(n int) int { return n }, func(sum int64, n int) int64 { return sum + int64(n) },
		window.Bounds[int]{Count: 10}))
	require.ErrorAs(t, start(pipeline.Feed("numbers", wide, few)), &fault)
	require.Equal(t, "sum", fault.Stage)
	require.ErrorContains(t, fault, "it has sums of int by int, and the stage has sums of int64 by int")

	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	damage := func(data []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, data, 0o600))
		require.ErrorAs(t, start(fed("numbers", "sum")), &fault)
		require.Equal(t, file, fault.File)
	}
	for n := 0; n < len(whole); n += 17 {
		damage(whole[:n])
	}
	for n := 0; n < len(whole); n += 11 {
		one := append([]byte(nil), whole...)
		one[n] ^= 0x40
		damage(one)
	}
	require.NoError(t, os.WriteFile(file, whole, 0o600))
	require.NoError(t, start(fed("numbers", "sum")))
}

// few submits some numbers and waits until its context ends.
func few(ctx context.Context, submit func(int) error) error {
	if source.Position(ctx) == 0 {
		for n := range 5 {
			if err := submit(n); err != nil {
				return err
			}
		}
	}
	<-ctx.Done()
	return nil
}

// mark is a snapshot that nothing has registered with gob.
type mark struct{ N int }

type marker struct{ n int }

func (m *marker) HandleCommand(context.Context, int) behaviour.Outcome {
	m.n++
	return behaviour.OK(nil)
}
func (m *marker) Snapshot() any     { return mark{m.n} }
func (m *marker) Restore(any) error { return nil }

// New sees that instances have snapshots only if the factory returns their type.
func TestASnapshotterBehindAnInterfaceIsNoStateThatACheckpointLeavesOut(t *testing.T) {
	each := stage.Each("each", func() behaviour.Behaviour[int] { return &marker{} }, stage.Restart(stage.RestartPolicy{Limit: 1}))
	p, err := pipeline.New("test", pipeline.Feed("numbers", each, few), pipeline.Logger(slog.New(slog.DiscardHandler)),
		pipeline.Checkpoint(filepath.Join(t.TempDir(), "state"), time.Hour))
	require.NoError(t, err)
	require.ErrorContains(t, p.Run(t.Context()), `stage "each": start: the factory made a Snapshotter, whose state the Checkpoint of the pipeline cannot save`)

	gob.Register(sums(0))
	file := filepath.Join(t.TempDir(), "state")
	var last atomic.Int64
	for begun := range 3 {
		numbers := source.Source[int](func(ctx context.Context, submit func(int) error) error {
			for n := int(source.Position(ctx)); n < 10*(begun+1); n++ {
				if err := submit(n); err != nil {
					return err
				}
			}
			return nil
		})
		keyed := stage.Keyed("keyed", func(int) string { return "all" }, func(string) behaviour.Behaviour[int] { return &adder{last: &last} })
		p, err = pipeline.New("test", pipeline.Feed("numbers", keyed, numbers), pipeline.Logger(slog.New(slog.DiscardHandler)),
			pipeline.Checkpoint(file, time.Hour))
		require.NoError(t, err)
		require.NoError(t, p.Run(t.Context()))
		require.EqualValues(t, 10*(begun+1), last.Load(), "process %d begins with the state of the one before", begun)
	}
}

// An upgrade may come before the stage has a pipeline, while the pipeline starts, and when it runs.
func TestAnUpgradeToASnapshotterIsRefusedWithACheckpoint(t *testing.T) {
	const refusal = "the factory made a Snapshotter, whose state the Checkpoint of the pipeline cannot save"
	once := stage.Restart(stage.RestartPolicy{Limit: 1})
	plain := func() behaviour.Behaviour[int] {
		return behaviour.Func[int](func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
	}
	snapshotter := func() behaviour.Behaviour[int] { return &marker{} }
	waiting := func(ctx context.Context, _ func(int) error) error {
		<-ctx.Done()
		return nil
	}
	start := func(t *testing.T, each *stage.Stage[int]) (p *pipeline.Pipeline, err error) {
		t.Helper()
		p, err = pipeline.New("test", pipeline.Feed("numbers", each, waiting), pipeline.Logger(slog.New(slog.DiscardHandler)),
			pipeline.Checkpoint(filepath.Join(t.TempDir(), "state"), time.Hour))
		require.NoError(t, err)
		return p, p.Start(t.Context())
	}
	t.Run("before New", func(t *testing.T) {
		each := stage.Each("each", plain, once)
		_, err := each.Upgrade(t.Context(), snapshotter)
		require.NoError(t, err)
		p, err := start(t, each)
		if err == nil {
			_ = each.Submit(t.Context(), 1)
			<-p.Done()
			err = p.Err()
		}
		require.ErrorContains(t, err, refusal)
	})
	t.Run("of a stage that runs", func(t *testing.T) {
		each := stage.Each("each", plain, once)
		p, err := start(t, each)
		require.NoError(t, err)
		_, err = each.Upgrade(t.Context(), snapshotter)
		require.ErrorContains(t, err, refusal)
		require.NoError(t, each.Submit(t.Context(), 1))
		require.NoError(t, p.Stop(t.Context()))
	})
}

// sums is a snapshot of an adder.
type sums int64

// adder counts its commands.
type adder struct {
	n    sums
	last *atomic.Int64
}

func (a *adder) HandleCommand(context.Context, int) behaviour.Outcome {
	a.n++
	a.last.Store(int64(a.n))
	return behaviour.OK(nil)
}
func (a *adder) Snapshot() any { return a.n }

func (a *adder) Restore(state any) error {
	a.n = state.(sums)
	return nil
}

func TestASnapshotThatCannotBeSavedEndsThePipeline(t *testing.T) {
	marks := stage.Keyed("marks", func(n int) int { return n }, func(int) *marker { return &marker{} })
	p, err := pipeline.New("test", pipeline.Feed("numbers", marks, few), pipeline.Logger(slog.New(slog.DiscardHandler)),
		pipeline.Checkpoint(filepath.Join(t.TempDir(), "state"), 10*time.Millisecond))
	require.NoError(t, err)
	err = p.Run(t.Context())
	var fault *pipeline.CheckpointError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, "marks", fault.Stage)
	require.ErrorContains(t, err, "type not registered for interface")
}

func TestWhatNoCheckpointCanSaveIsRefused(t *testing.T) {
	type hidden struct{ n int }
	add := func(h hidden, n int) hidden { return hidden{h.n + n} }
	first := func(n int) int { return n }
	file := pipeline.Checkpoint("state", time.Second)
	bounds := window.Bounds[int]{Count: 10}
	keyless := stage.Each("each", func() *marker { return &marker{} })
	for want, parts := range map[string][]pipeline.Part{
		"has no positions to save": {file, led(window.Aggregate("sum", first, func(s, n int) int { return s + n }, bounds))},
		`cannot save stage "sum": its windows cannot be saved: the field n of pipeline_test.hidden is not exported`: {
			file, pipeline.Feed("numbers", led(window.Aggregate("sum", first, add, bounds)), few),
		},
		"a key that is or has a *int": {
			file, pipeline.Feed("numbers", led(window.By("by", func(n int) *int { return &n }, bounds)), few),
		},
		"its groups are of tickets": {
			file, pipeline.Feed("numbers", led(window.JoinTicket("join", window.Parts[int]{Count: 2, Limit: time.Minute})), few),
		},
		`cannot save stage "each": it has a state for each worker`: {file, pipeline.Feed("numbers", keyless, few)},
		"has a checkpoint of its own": {
			file, pipeline.Feed("numbers", led(window.By("by", first, bounds)),
				source.Checkpoint(few, 0, func(context.Context, int64) error { return nil })),
		},
		"the name of the file is empty": {pipeline.Checkpoint("", time.Second)},
		"must be at least 10ms":         {pipeline.Checkpoint("state", time.Millisecond)},
		"is given twice":                {file, file},
	} {
		_, err := pipeline.New("test", parts...)
		require.ErrorContains(t, err, want)
	}
}

func TestASourceThatHearsEndsCannotFeedAPipelineWithACheckpoint(t *testing.T) {
	hears := source.Ends(func(_ context.Context, submit func(int, func(error)) error) error {
		return submit(1, func(error) {})
	})
	p, err := pipeline.New("test", pipeline.Feed("numbers", stage.Sink("sink", func(context.Context, int) error { return nil }), hears),
		pipeline.Checkpoint(filepath.Join(t.TempDir(), "state"), time.Hour), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.ErrorContains(t, p.Run(t.Context()), "the source cannot hear of the end of each")
}
