package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// system is made once, because that is slow.
var system = actor.NewSystem(slog.New(slog.DiscardHandler))

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

// bubble runs a test in which time stands still while any goroutine runs. So a stage measures its handlers as quick, and the
// sizes of its batches are 1, 2, 4, 8...
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t)
		time.Sleep(time.Minute) // protoactor's throttle of dead letters must wake up and end
	})
}

// run starts a pipeline without scaling.
func run(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	parts = append(parts, pipeline.Control(policy.Fixed{}), pipeline.System(system),
		pipeline.Logger(slog.New(slog.DiscardHandler)))
	p, err := pipeline.New("p", parts...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	time.Sleep(time.Second) // so that no reading of the clock is zero
	return p
}

// stop stops a pipeline softly and checks its accounts.
func stop(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	require.NoError(t, p.Stop(context.Background()))
	balanced(t, p)
}

func balanced(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	s := p.Snapshot()
	require.True(t, s.Balanced(), s.Law())
	require.Zero(t, s.InFlight, s.Law())
}

// ask submits a command with a ticket and does not wait.
func ask[C any](t *testing.T, s *stage.Stage[C], cmd C) *stage.Ticket {
	t.Helper()
	ticket, err := s.Ask(t.Context(), cmd)
	require.NoError(t, err)
	return ticket
}

// ended requires that a ticket has ended.
func ended(t *testing.T, ticket *stage.Ticket, what string) {
	t.Helper()
	select {
	case <-ticket.Done():
	default:
		require.Fail(t, "a ticket has not ended", what)
	}
}

// seen records what handlers were given, in order.
type seen struct {
	mu   sync.Mutex
	cmds []string
}

func (s *seen) note(cmd string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmds = append(s.cmds, cmd)
}

func (s *seen) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.cmds...)
}

// handler is a behaviour made of functions.
type handler struct {
	handle func(context.Context, string) behaviour.Outcome
	start  func(context.Context) error
	stop   func()
}

func (h *handler) HandleCommand(ctx context.Context, cmd string) behaviour.Outcome {
	return h.handle(ctx, cmd)
}

func (h *handler) Start(ctx context.Context) error {
	if h.start == nil {
		return nil
	}
	return h.start(ctx)
}

func (h *handler) Stop() {
	if h.stop != nil {
		h.stop()
	}
}

func each(f func(context.Context, string) behaviour.Outcome) behaviour.Factory[string] {
	return func() behaviour.Behaviour[string] { return &handler{handle: f} }
}

// one adds the option of one worker.
func one(opts ...stage.Option) []stage.Option {
	return append([]stage.Option{stage.Workers(1, 1)}, opts...)
}

// exit ends the goroutine, as a failing assertion in a test does.
func exit() { runtime.Goexit() }
