package pipeline_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// blocker hangs with the command 1, even when its context ends, until it is released, and records its commands.
type blocker struct {
	let     chan struct{}
	stopped *atomic.Int32
	mu      *sync.Mutex
	handled *[]int
}

func newBlocker() blocker {
	return blocker{make(chan struct{}), new(atomic.Int32), new(sync.Mutex), new([]int)}
}

func (b blocker) HandleCommand(_ context.Context, n int) behaviour.Outcome {
	b.mu.Lock()
	*b.handled = append(*b.handled, n)
	b.mu.Unlock()
	if n == 1 {
		<-b.let
	}
	return behaviour.OK(n)
}

func (b blocker) Stop() { b.stopped.Add(1) }

func (b blocker) seen() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]int(nil), *b.handled...)
}

// blockers is a blocker that takes batches.
type blockers struct{ blocker }

func (b blockers) HandleBatch(ctx context.Context, ns []int) (out []behaviour.Outcome) {
	for _, n := range ns {
		out = append(out, b.HandleCommand(ctx, n))
	}
	return out
}

// gone returns a context that has ended, so that a Stop is hard at once.
func gone() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// four makes a worker take four commands at once.
func four(opts ...stage.Option) []stage.Option {
	return append([]stage.Option{stage.Workers(1, 1), stage.Batch(4), stage.Linger(time.Hour)}, opts...)
}

// hangs submits the commands 0 to 3, and waits until the handler hangs.
func hangs(t *testing.T, s *stage.Stage[int]) (tickets []*stage.Ticket) {
	t.Helper()
	for i := range 4 {
		ticket, err := s.Ask(t.Context(), i)
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	synctest.Wait()
	return tickets
}

func TestAfterAHardStopAWorkerStartsNoFurtherCommandOfItsBatch(t *testing.T) {
	suspending := func(b blocker) behaviour.Behaviour[int] {
		return behaviour.Coroutine[int](func(c behaviour.Suspender, n int) behaviour.Outcome { return b.HandleCommand(c, n) })
	}
	for name, kind := range map[string]struct {
		of   func(b blocker) behaviour.Behaviour[int]
		opts []stage.Option
		done int
	}{
		"plain":          {of: func(b blocker) behaviour.Behaviour[int] { return b }, done: 2},
		"with a timeout": {of: func(b blocker) behaviour.Behaviour[int] { return b }, opts: []stage.Option{stage.Timeout(time.Hour)}, done: 2},
		"a batcher":      {of: func(b blocker) behaviour.Behaviour[int] { return blockers{b} }, done: 4},
		"suspending":     {of: suspending, done: 2},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				b := newBlocker()
				s := stage.New("s", kind.of(b), four(kind.opts...)...)
				p := bubble(t, s, way, pipeline.Grace(time.Minute))
				tickets := hangs(t, s)
				stopped := make(chan error, 1)
				go func() { stopped <- p.Stop(gone()) }()
				synctest.Wait()
				close(b.let)
				require.Error(t, <-stopped)
				require.Len(t, b.seen(), kind.done)
				for i, ticket := range tickets {
					_, err := ticket.Wait(soon(t))
					if i < kind.done {
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, stage.ErrStopped)
					}
				}
				sum := p.Snapshot()
				require.EqualValues(t, 4-kind.done, sum.DeadLettered)
				require.EqualValues(t, 4-kind.done, sum.Stages[0].Counts.DeadLettered)
				require.Len(t, p.DeadLetters().List(letters.Filter{}), 4-kind.done)
				atRest(t, p)
			})
		})
	}
}
