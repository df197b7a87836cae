package pipeline_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// long makes the load tests run as long as for the published figures: ten seconds of swaps, a minute of loops.
//
//	go test -race -run 'Swapped|EveryPolicyKeepsALoop' ./pipeline -long
var long = flag.Bool("long", false, "load tests of ten seconds and of a minute")

// enough is how long a test waits for a thing that must happen. No test that passes waits so long, on any machine: it only says how
// soon a thing that never happens is reported.
const enough = 2 * time.Minute

// fewer returns how often a load test repeats its load: n times, and less often
// in the short tests with the race detector, which makes each time several
// times slower and finds the same races.
func fewer(n int) int {
	if raced && testing.Short() {
		return max(n/10, 1)
	}
	return n
}

// unraced skips a test of minutes in virtual time, or of many combinations, in
// the short tests with the race detector: it computes for long, and other tests
// run the same code.
func unraced(t *testing.T) {
	t.Helper()
	if raced && testing.Short() {
		t.Skip("it runs without -race, or without -short")
	}
}

// lasting returns how long a load test lasts.
func lasting(normal, ifLong time.Duration) time.Duration {
	switch {
	case *long:
		return ifLong
	case testing.Short():
		return normal / 5
	default:
		return normal
	}
}

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// system is shared by the tests, since a system takes three megabytes.
var system = sync.OnceValue(func() *actor.System { return actor.NewSystem(slog.New(slog.DiscardHandler)) })

// quiet discards the log of the crashes that a test causes on purpose.
var quiet = pipeline.Logger(slog.New(slog.DiscardHandler))

var errNo = errors.New("no")

// fn is short for a behaviour without state.
func fn[C any](f func(ctx context.Context, cmd C) behaviour.Outcome) behaviour.Func[C] { return f }

// led has the results of a flow answer the callers, by a last stage.
func led[In, Out any](of *stage.Flow[In, Out]) *stage.Flow[In, Out] {
	return stage.Chain(of, stage.Map("end", func(_ context.Context, out Out) (Out, error) { return out, nil }))
}

// echo answers a command with itself.
func echo[C any](_ context.Context, cmd C) behaviour.Outcome { return behaviour.OK(cmd) }

// run makes and starts a pipeline. When the test ends, it requires that the pipeline drains and is balanced.
func run(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p := start(t, parts...)
	t.Cleanup(func() {
		require.NoError(t, p.Stop(soon(t)))
		atRest(t, p)
	})
	return p
}

// start makes and starts a pipeline that the test stops itself. No policy scales it unless the parts have one.
func start(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	return startAlone(t, append([]pipeline.Part{part.Defaults{pipeline.System(system())}}, parts...)...)
}

// startAlone is start with a system of the pipeline's own, or one among the parts. It is for synctest bubbles, which the goroutines of
// the shared system do not belong to.
func startAlone(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	parts = unscaled(parts)
	if testing.Verbose() && os.Getenv("GOLDA_LOG") != "" {
		parts = append(parts, pipeline.Logger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	}
	p, err := pipeline.New("test", parts...)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background()))
	return p
}

// unscaled adds the options of most tests: nothing is logged or scaled, unless the parts say otherwise.
func unscaled(parts []pipeline.Part) []pipeline.Part {
	parts = append([]pipeline.Part{part.Defaults{quiet}}, parts...)
	if !pipeline.Controlled(parts) {
		parts = append(parts, pipeline.Control(policy.Fixed{}))
	}
	return parts
}

// soon returns a context that outlives any test that is not stuck.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	t.Cleanup(cancel)
	return ctx
}

// submitUntilTaken submits a command again while a policy turns it away: a policy may discard commands while too many wait.
func submitUntilTaken(t *testing.T, s *stage.Stage[int], n int) {
	t.Helper()
	err := s.Submit(soon(t), n)
	for ; errors.Is(err, stage.ErrPolicy); err = s.Submit(soon(t), n) {
		time.Sleep(100 * time.Microsecond)
	}
	require.NoError(t, err)
}

// atRest requires that the law holds and nothing is in flight.
func atRest(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	s := p.Snapshot()
	require.True(t, s.Balanced(), s.Law())
	require.Zero(t, s.InFlight, s.Law())
	for _, st := range s.Stages {
		require.Zero(t, st.Queue.Load(), st.Name)
	}
}

// eventually waits for something that happens soon after an answer, and that the answer does not wait for.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, enough, time.Millisecond, what)
}

// until calls look repeatedly until over is closed. It pauses in between, because on one core the goroutines under test would
// hardly run otherwise.
func until(over <-chan struct{}, look func()) {
	rest := time.NewTicker(100 * time.Microsecond)
	defer rest.Stop()
	for {
		look()
		select {
		case <-over:
			return
		case <-rest.C:
		}
	}
}

// rules is a policy made of a function, which is called at each tick.
type rules struct {
	every time.Duration
	rule  func(s *controller.Snapshot, d *controller.Decisions)
}

func (r rules) Name() string               { return "rules" }
func (r rules) Check() error               { return nil }
func (r rules) New() controller.Controller { return r }
func (r rules) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	d.Every(r.every)
	if ev.Kind == controller.EventTick {
		r.rule(s, d)
	}
}

func workers(p *pipeline.Pipeline, i int) int { return p.Snapshot().Stages[i].Workers.Live }
