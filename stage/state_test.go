package stage_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// estate is what the instances of a stage have left: the last snapshot of each one that was not taken over.
type estate struct {
	mu     sync.Mutex
	left   map[*heir][]item
	taken  int // states that were restored
	faults []string
}

func newEstate() *estate { return &estate{left: map[*heir][]item{}} }

// heir is an instance that remembers the commands that it has handled, with those of the instances before it.
type heir struct {
	of   *estate
	key  int // of a keyed stage
	seen []item
}

// testament is a snapshot of an heir.
type testament struct {
	of   *heir
	seen []item
}

func (h *heir) Snapshot() any {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	s := testament{h, slices.Clone(h.seen)}
	h.of.left[h] = s.seen
	return s
}

func (h *heir) Restore(state any) error {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	s := state.(testament)
	if _, ok := h.of.left[s.of]; !ok {
		h.of.faults = append(h.of.faults, "a state was restored twice")
	}
	if s.of.key != h.key {
		h.of.faults = append(h.of.faults, "another key's state was restored")
	}
	delete(h.of.left, s.of)
	h.of.left[h] = s.seen // in the same step: a worker may start, and take a state over, while the states are checked
	h.seen = s.seen       // it may keep it
	h.of.taken++
	return nil
}

// HandleCommand crashes in the middle of some commands, and fails before it has changed anything in others.
func (h *heir) HandleCommand(ctx context.Context, i item) behaviour.Outcome {
	try := behaviour.Attempt(ctx)
	if i.oneIn(13) && try < 2 {
		return behaviour.Error(errors.New("not yet"))
	}
	h.seen = append(h.seen, i)
	if i.poison() || i.oneIn(7) && try < 3 {
		panic("crash")
	}
	return behaviour.OK(nil)
}

// poison reports whether a command crashes at each try.
func (i item) poison() bool { return i.n%50 == 49 }

// heirs is an heir that takes batches.
type heirs struct{ heir }

func (h *heirs) HandleBatch(_ context.Context, items []item) []behaviour.Outcome {
	outcomes := make([]behaviour.Outcome, len(items))
	for n, i := range items {
		h.seen = append(h.seen, i)
		if i.poison() {
			panic("crash")
		}
		outcomes[n] = behaviour.OK(nil)
	}
	return outcomes
}

// require checks that the states have each command that ended well once, and nothing else, and that there are no more states
// than there may be: otherwise some were left behind, one for each crash.
func (e *estate) require(t require.TestingT, keys, n, most int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Empty(t, e.faults)
	require.LessOrEqual(t, len(e.left), most, "states")
	byKey := map[int][]int{}
	for _, seen := range e.left {
		for _, i := range seen {
			byKey[i.key] = append(byKey[i.key], i.n)
		}
	}
	var want []int
	for i := range n {
		if !(item{0, i}).poison() {
			want = append(want, i)
		}
	}
	for k := range keys {
		slices.Sort(byKey[k])
		require.Equal(t, want, byKey[k], "key %d", k)
	}
}

// inOrder checks that the states of a keyed stage have the commands of their key in order.
func (e *estate) inOrder(t require.TestingT) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for h, seen := range e.left {
		require.True(t, slices.IsSortedFunc(seen, func(a, b item) int { return cmp.Compare(a.n, b.n) }), "key %d: %v", h.key, seen)
	}
}

// disturb swaps policies, and calls more, until it is ended.
func disturb(p *pipeline.Pipeline, more func()) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var disturbing sync.WaitGroup
	disturbing.Go(func() {
		for ctx.Err() == nil {
			for _, name := range admitting() {
				if pol, err := policy.ByName(name); err == nil {
					_ = p.SetPolicy(pol)
				}
				more()
				time.Sleep(200 * time.Microsecond)
			}
		}
	})
	return func() { stop(); disturbing.Wait() }
}

// Whatever happens to the instances, the states that they leave are those of the commands that ended well.
func TestTheStatesOfInstancesAreThoseOfTheCommandsThatEnded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const keys, n = 10, 60
		e := newEstate()
		batches := rapid.Bool().Draw(t, "batches")
		factory := func() behaviour.Behaviour[item] {
			if batches {
				return &heirs{heir{of: e}}
			}
			return &heir{of: e}
		}
		workers := rapid.IntRange(1, 8).Draw(t, "workers")
		opts := drawOptions(t, workers)
		kind := rapid.SampledFrom([]string{"each", "keyed", "keyed by a factory of an interface type"}).Draw(t, "kind")
		var s *stage.Stage[item]
		switch kind {
		case "each":
			s = stage.Each("s", factory, opts...)
		case "keyed":
			s = stage.Keyed("s", keyOf, func(k int) *heir { return &heir{of: e, key: k} },
				append(opts, stage.Passivate(0, rapid.IntRange(0, 12).Draw(t, "most")), stage.KeepStates(1000))...)
		default:
			s = stage.Keyed("s", keyOf, func(k int) behaviour.Behaviour[item] { return &heir{of: e, key: k} }, opts...)
		}
		parts := []pipeline.Part{s, quiet}
		if rapid.Bool().Draw(t, "in a group") {
			parts[0] = pipeline.Group("g", 3, 3, s)
		}
		p, err := pipeline.New("p", parts...)
		require.NoError(t, err)
		require.NoError(t, p.Start(context.Background()))
		upgrades := rapid.Bool().Draw(t, "upgrades")
		end := disturb(p, func() {
			if upgrades && kind == "each" {
				_, _ = s.Upgrade(context.Background(), factory)
			}
		})
		for i := range n {
			for k := range keys {
				require.NoError(t, s.Submit(context.Background(), item{k, i}))
			}
		}
		end()
		require.NoError(t, p.Drain(context.Background()))
		if kind == "each" {
			e.require(t, keys, n, 2*workers) // a worker that leaves has its instance beside that of the next worker
		} else {
			e.require(t, keys, n, keys)
			e.inOrder(t)
		}
		require.NoError(t, p.Stop(context.Background()))
	})
}

// crashBehind is a middleware that crashes after some handlers have returned.
func crashBehind(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
	o := next(ctx, cmd)
	if i, one := cmd.(item); one && i.oneIn(17) && behaviour.Attempt(ctx) < 3 {
		panic("crash")
	}
	return o
}

// drawOptions returns options of a stage.
func drawOptions(t *rapid.T, workers int) []stage.Option {
	opts := []stage.Option{
		stage.Workers(1, workers),
		stage.Retry(stage.RetryPolicy{Attempts: 4, Backoff: rapid.SampledFrom([]time.Duration{0, 100 * time.Microsecond}).Draw(t, "backoff")}),
		stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Backoff: time.Microsecond, Max: time.Microsecond}),
		stage.Batch(rapid.IntRange(1, 20).Draw(t, "batch")),
	}
	if rapid.Bool().Draw(t, "middleware") {
		opts = append(opts, stage.Middleware(crashBehind))
	}
	if rapid.Bool().Draw(t, "time limit") {
		opts = append(opts, stage.Timeout(time.Minute))
	}
	return opts
}
