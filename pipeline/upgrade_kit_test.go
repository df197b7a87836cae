package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// registry knows every instance of every version, and checks that each is used as the contract says.
type registry struct {
	mu     sync.Mutex
	all    []*being
	busy   map[string]int // handlers that run, by version
	most   map[string]int
	alive  map[string]int // instances that are started and not stopped
	crowd  map[string]int // the highest number of them so far
	faults []string

	suspends bool // the instances of further versions suspend
}

func newRegistry() *registry {
	return &registry{busy: map[string]int{}, most: map[string]int{}, alive: map[string]int{}, crowd: map[string]int{}}
}

// being is an instance of a version.
type being struct {
	in      *registry
	version string
	do      func(ctx context.Context, b *being, n int) behaviour.Outcome
	begin   func(ctx context.Context) error
	shared  bool

	started, stopped int
	handling         int
	count            int // commands handled, state of its own
}

// herd is a being that takes batches.
type herd struct{ *being }

func (h herd) HandleBatch(ctx context.Context, ns []int) []behaviour.Outcome {
	var out []behaviour.Outcome
	for _, n := range ns {
		out = append(out, h.HandleCommand(ctx, n))
	}
	return out
}

// waiter is a being that suspends before it answers.
type waiter struct{ *being }

func (w waiter) HandleSuspending(c behaviour.Suspender, n int) behaviour.Outcome {
	w.enter()
	defer w.leave()
	o := w.do(c, w.being, n)
	if err := coroutine.Yield(c); err != nil {
		return behaviour.Error(err)
	}
	return o
}

// said is the answer of a version: its name, and which of its commands it was.
type said struct {
	version  string
	n, count int
}

func answer(_ context.Context, b *being, n int) behaviour.Outcome {
	b.in.mu.Lock()
	defer b.in.mu.Unlock()
	return behaviour.OK(said{b.version, n, b.count})
}

func (r *registry) make(version string, do func(ctx context.Context, b *being, n int) behaviour.Outcome) *being {
	if do == nil {
		do = answer
	}
	b := &being{in: r, version: version, do: do}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, b)
	return b
}

// factory returns a factory of instances of a version.
func (r *registry) factory(version string, do func(ctx context.Context, b *being, n int) behaviour.Outcome) behaviour.Factory[int] {
	return func() behaviour.Behaviour[int] { return r.make(version, do) }
}

// herds returns a factory of instances that take batches.
func (r *registry) herds(version string, do func(ctx context.Context, b *being, n int) behaviour.Outcome) behaviour.Factory[int] {
	return func() behaviour.Behaviour[int] { return herd{r.make(version, do)} }
}

func (b *being) Version() string { return b.version }

func (b *being) faultf(format string, args ...any) {
	b.in.faults = append(b.in.faults, b.version+": "+fmt.Sprintf(format, args...))
}

func (b *being) Start(ctx context.Context) error {
	if b.begin != nil {
		if err := b.begin(ctx); err != nil {
			return err
		}
	}
	b.in.mu.Lock()
	defer b.in.mu.Unlock()
	b.started++
	if b.started > 1 && !b.shared {
		b.faultf("started twice")
	}
	b.in.alive[b.version]++
	b.in.crowd[b.version] = max(b.in.crowd[b.version], b.in.alive[b.version])
	return nil
}

func (b *being) Stop() {
	b.in.mu.Lock()
	defer b.in.mu.Unlock()
	b.stopped++
	if b.stopped > b.started {
		b.faultf("stopped more often than started")
	}
	if b.handling > 0 {
		b.faultf("stopped while it handles a command")
	}
	b.in.alive[b.version]--
}

func (b *being) enter() int {
	b.in.mu.Lock()
	defer b.in.mu.Unlock()
	if b.started == b.stopped {
		b.faultf("handles a command while it is not started")
	}
	b.handling++
	if b.handling > 1 && !b.shared {
		b.faultf("used by two at once")
	}
	b.in.busy[b.version]++
	b.in.most[b.version] = max(b.in.most[b.version], b.in.busy[b.version])
	b.count++
	return b.count
}

func (b *being) leave() {
	b.in.mu.Lock()
	defer b.in.mu.Unlock()
	b.handling--
	b.in.busy[b.version]--
}

func (b *being) HandleCommand(ctx context.Context, n int) behaviour.Outcome {
	b.enter()
	defer b.leave()
	return b.do(ctx, b, n)
}

// living returns how many instances of a version are started and not stopped.
func (r *registry) living(version string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alive[version]
}

// quit requires that all started instances were stopped, and that no check failed.
func (r *registry) quit(t require.TestingT) {
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.faults)
	for _, b := range r.all {
		require.Equal(t, b.started, b.stopped, "an instance of %s is started as often as it is stopped", b.version)
	}
}

// asked calls a stage and returns the answer.
func asked(t *testing.T, s *stage.Stage[int], n int) said {
	t.Helper()
	got, err := stage.Call[said](soon(t), s, n)
	require.NoError(t, err)
	return got
}

// kinds makes a stage of either kind.
func kinds(r *registry) map[string]func(opts ...stage.Option) *stage.Stage[int] {
	return map[string]func(opts ...stage.Option) *stage.Stage[int]{
		"each": func(opts ...stage.Option) *stage.Stage[int] {
			return stage.Each("s", r.factory("v1", nil), opts...)
		},
		"shared": func(opts ...stage.Option) *stage.Stage[int] {
			b := r.make("v1", nil)
			b.shared = true
			return stage.New("s", b, opts...)
		},
		"suspending": func(opts ...stage.Option) *stage.Stage[int] {
			r.suspends = true
			return stage.New("s", r.next("v1", nil)(), opts...)
		},
	}
}

// next returns a factory of instances of a version for a stage of any kind.
func (r *registry) next(version string, do func(ctx context.Context, b *being, n int) behaviour.Outcome) behaviour.Factory[int] {
	return func() behaviour.Behaviour[int] {
		b := r.make(version, do)
		b.shared = true
		return r.shaped(b)
	}
}

// shaped returns a being of the kind that the stage needs.
func (r *registry) shaped(b *being) behaviour.Behaviour[int] {
	if r.suspends {
		return waiter{b}
	}
	return b
}

// everyWay runs a check in a bubble for stages of each kind, run with their own workers or with shared ones.
func everyWay(t *testing.T, check func(t *testing.T, r *registry, s func(opts ...stage.Option) *stage.Stage[int], way pipeline.Part)) {
	t.Helper()
	for kind := range kinds(newRegistry()) {
		t.Run(kind, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				r := newRegistry()
				check(t, r, kinds(r)[kind], way)
				r.quit(t)
			})
		})
	}
}

var errBad = errors.New("bad")

// await waits until all instances of the version before an upgrade have been stopped.
func await(t *testing.T, replaced <-chan struct{}) {
	t.Helper()
	select {
	case <-replaced:
	case <-soon(t).Done():
		require.FailNow(t, "an instance of the old version has not been stopped")
	}
}
