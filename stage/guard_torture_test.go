package stage_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/stacks"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

var (
	tortures    = flag.Int("tortures", 60, "how many random pipelines with guards are run")
	tortureSeed = flag.Uint64("torture", 0, "the seed of the first one; 0: a random one")
)

// errand is a command of one of some methods. How its tries end is drawn from its number.
type errand struct {
	n      int
	method string
}

func (e errand) Method() string { return e.method }

// torture is a random pipeline with a stage that has guards, and what its handlers do.
type torture struct {
	*rand.Rand

	seed                             uint64
	methods                          int
	kind                             string // of the stage with guards
	crash, fail, exit, yield, linger float64
	tries, done                      atomic.Int64
}

func newTorture(seed uint64) *torture {
	t := &torture{Rand: rand.New(rand.NewPCG(seed, 27)), seed: seed}
	t.methods = 1 + t.IntN(3)
	t.kind = []string{"func", "each", "coroutine", "batcher"}[t.IntN(4)]
	t.crash = []float64{0, 0.1, 0.6, 0.9}[t.IntN(4)]
	t.fail = []float64{0, 0.2}[t.IntN(2)]
	t.exit = []float64{0, 0, 0.02}[t.IntN(3)]
	t.yield = []float64{0.3, 0.9}[t.IntN(2)]
	return t
}

// errTorture is the error of handlers.
var errTorture = errors.New("torture")

// handle draws how a try ends, from the command and the number of tries so far.
func (t *torture) handle(e errand, wait func() error) behaviour.Outcome {
	r := rand.New(rand.NewPCG(t.seed+uint64(e.n), uint64(t.tries.Add(1)))) //nolint:gosec // numbers of commands
	if wait != nil && r.Float64() < t.yield {
		if err := wait(); err != nil {
			return behaviour.Error(err)
		}
	}
	switch p := r.Float64(); {
	case p < t.crash:
		panic("torture")
	case p < t.crash+t.exit:
		runtime.Goexit()
	case p < t.crash+t.exit+t.fail:
		return behaviour.Error(errTorture)
	}
	t.done.Add(1)
	return behaviour.OK(nil)
}

// tortured handles batches.
type tortured struct{ t *torture }

func (b tortured) HandleCommand(_ context.Context, e errand) behaviour.Outcome {
	return b.t.handle(e, nil)
}

func (b tortured) HandleBatch(_ context.Context, es []errand) (all []behaviour.Outcome) {
	for _, e := range es {
		all = append(all, b.t.handle(e, nil))
	}
	return all
}

// stage makes the stage with guards.
func (t *torture) stage() *stage.Stage[errand] {
	opts := []stage.Option{
		stage.Workers(1+t.IntN(4), 4), stage.Capacity(8 << t.IntN(6)), stage.Restart(stage.RestartPolicy{Limit: -1}),
		stage.Retry(stage.RetryPolicy{
			Attempts: 2 + t.IntN(3), Backoff: []time.Duration{0, time.Microsecond, 100 * time.Microsecond}[t.IntN(3)], Max: time.Millisecond,
		}),
	}
	for m := range t.methods {
		most, name := 1+t.IntN(4), fmt.Sprint("m", m)
		if t.IntN(2) == 0 {
			opts = append(opts, stage.Guard(name, func(n count) bool { return n(name).Current < most }))
		} else {
			opts = append(opts, stage.Guard(name, func(n count) bool {
				return n("m0").Current+n("m1").Current+n("m2").Current < most
			}))
		}
	}
	if t.IntN(3) == 0 {
		opts = append(opts, stage.TTL(time.Duration(1+t.IntN(5))*time.Millisecond))
	}
	if t.IntN(4) == 0 {
		opts = append(opts, stage.Timeout(time.Second))
	}
	switch t.kind {
	case "each":
		return stage.Each("s", func() behaviour.Behaviour[errand] {
			return behaviour.Func[errand](func(_ context.Context, e errand) behaviour.Outcome { return t.handle(e, nil) })
		}, opts...)
	case "coroutine":
		return stage.Coroutine("s", func(c coroutine.Context, e errand) behaviour.Outcome {
			return t.handle(e, func() error {
				if e.n%3 == 0 {
					return coroutine.Sleep(c, time.Duration(e.n%7)*10*time.Microsecond)
				}
				return coroutine.Yield(c)
			})
		}, opts...)
	case "batcher":
		return stage.New("s", behaviour.Behaviour[errand](tortured{t}), opts...)
	default:
		return stage.Func("s", func(_ context.Context, e errand) behaviour.Outcome { return t.handle(e, nil) }, opts...)
	}
}

// batches is a policy that has the workers take many commands at a time.
type batches struct{ controller.Batch }

func (batches) Name() string                 { return "batches" }
func (batches) Check() error                 { return nil }
func (b batches) New() controller.Controller { return b }

func (b batches) Control(_ controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	for _, st := range s.Stages {
		controller.KnobBatch.Set(d, st.ID, controller.Batch{Max: b.Max, Linger: b.Linger}, "torture")
	}
}

// parts returns the parts of the pipeline, and a function that submits a command.
func (t *torture) parts() ([]pipeline.Part, *stage.Stage[errand], func(context.Context, errand) error) {
	s := t.stage()
	parts := []pipeline.Part{s, quiet}
	submit := s.Submit
	if t.IntN(2) == 0 { // behind a window
		w := window.All("w", window.Bounds[errand]{Count: 1 + t.IntN(8), Time: time.Millisecond})
		split := stage.Func("split", func(ctx context.Context, w window.Window[struct{}, []errand]) behaviour.Outcome {
			for _, e := range w.Value {
				if err := behaviour.Emit(ctx, s, e); err != nil {
					return behaviour.Error(err)
				}
			}
			return behaviour.OK(nil)
		})
		parts = append(parts, w, split, w.To(split))
		submit = w.Submit
	}
	switch t.IntN(3) {
	case 0:
		parts = append(parts, pipeline.Control(batches{controller.Batch{Max: 2 + t.IntN(30), Linger: time.Duration(t.IntN(3)) * 50 * time.Microsecond}}))
	case 1:
		parts = append(parts, pipeline.Group("g", 1, 1+t.IntN(4), s))
	}
	return parts, s, submit
}

// run runs the pipeline.
func (t *torture) run(tb testing.TB) {
	parts, s, submit := t.parts()
	p, err := pipeline.New("torture", parts...)
	require.NoError(tb, err)
	require.NoError(tb, p.Start(context.Background()))
	for i := range 20 + t.IntN(300) {
		e := errand{i, fmt.Sprint("m", t.IntN(t.methods))}
		if t.IntN(4) > 0 {
			_ = submit(context.Background(), e) // many crashes may have ended the pipeline
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(t.IntN(2000))*time.Microsecond)
		defer cancel()
		_, _ = s.Ask(ctx, e)
	}
	stop := context.Background()
	if t.IntN(4) == 0 {
		ended, cancel := context.WithCancel(stop)
		cancel()
		stop = ended
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = p.Stop(stop) }()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		tb.Fatalf("Stop does not return: %+v\n%s", s.Snapshot(), stacks.All())
	}
	snap := s.Snapshot()
	require.True(tb, snap.Balanced(), "%+v", snap)
	for _, m := range snap.Methods {
		require.Zero(tb, m.Current, "%+v", m)
		require.Zero(tb, m.Pending, "%+v", m)
		require.Equal(tb, m.Accepted, m.Completed, "%+v", m)
		require.Equal(tb, m.Invocations, m.Completed, "%+v", m)
	}
}

func TestTheCountersOfGuardsBalanceWhateverHandlersDo(t *testing.T) {
	first := *tortureSeed
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	for seed := first; seed < first+uint64(*tortures); seed++ { //nolint:gosec // a flag
		torture := newTorture(seed)
		ok := t.Run(torture.kind, func(t *testing.T) { torture.run(t) })
		if !ok {
			t.Fatalf("seed %d: go test -run %s ./stage -tortures 1 -torture %d", seed, t.Name(), seed)
		}
	}
}
