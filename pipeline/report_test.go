package pipeline_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/queue"
)

// clog is a handler that hangs in a function of its own.
type clog struct{ mu sync.Mutex }

func (c *clog) HandleCommand(_ context.Context, n int) behaviour.Outcome {
	if n == 0 {
		c.lockForever()
	}
	return behaviour.OK(n)
}

// lockForever waits in the standard library, as most stuck handlers do.
func (c *clog) lockForever() { c.mu.Lock(); defer c.mu.Unlock() }

// isStuck waits until a handler is in lockForever and waits for the lock.
func isStuck(t *testing.T) {
	t.Helper()
	eventually(t, "it is stuck", func() bool {
		var all bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
		for stack := range strings.SplitSeq(all.String(), "\n\n") {
			if strings.Contains(stack, "sync.(*Mutex).Lock") && strings.Contains(stack, "lockForever") {
				return true
			}
		}
		return false
	})
}

func TestADrainReportsWhereAHandlerIsStuckWithoutATimeout(t *testing.T) {
	for name, way := range map[string]func(...pipeline.Part) pipeline.Part{
		"own workers": pipeline.Subgraph,
		"shared":      func(parts ...pipeline.Part) pipeline.Part { return pipeline.Group("g", 2, 2, parts...) },
	} {
		t.Run(name, func(t *testing.T) {
			c := &clog{}
			c.mu.Lock()
			s := stage.New("s", c, stage.Workers(1, 1), stage.Batch(1))
			idle := stage.Func("idle", echo[int])
			p := run(t, way(s, idle))
			for range 3 {
				_, err := s.Ask(t.Context(), 0)
				require.NoError(t, err)
				require.NoError(t, s.Submit(t.Context(), 1))
			}
			isStuck(t)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := p.Drain(ctx)
			var report *pipeline.DrainError
			require.ErrorAs(t, err, &report)
			require.EqualValues(t, 6, report.InFlight)
			require.Len(t, report.Where, 1, "the idle stage is not in the report")
			at := report.Where[0]
			require.Equal(t, "s", at.Name)
			require.False(t, at.Paused)
			require.Equal(t, 6, at.Queue.Queued+at.Queue.InHand)
			require.Positive(t, at.Tickets)
			require.NotEmpty(t, at.Handlers)
			require.Equal(t, "int", at.Handlers[0].Command)
			require.Positive(t, at.Handlers[0].For)
			require.Contains(t, at.Handlers[0].At, "pipeline_test.(*clog).lockForever report_test.go:")
			require.ErrorContains(t, err, "in pipeline_test.(*clog).lockForever report_test.go:")
			require.NotContains(t, err.Error(), "goroutine", "the stack is for the report")
			require.Contains(t, report.Report(), "sync.(*Mutex).Lock")
			require.Contains(t, report.Report(), "lockForever")
			c.mu.Unlock()
		})
	}
}

func TestAHardStopReportsWhereAHandlerIsStuck(t *testing.T) {
	c := &clog{}
	c.mu.Lock()
	s := stage.New("s", c, stage.Workers(1, 1))
	p := start(t, s, pipeline.Grace(0))
	require.NoError(t, s.Submit(t.Context(), 0))
	isStuck(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := p.Stop(ctx)
	var report *pipeline.StopError
	require.ErrorAs(t, err, &report)
	require.Len(t, report.Stuck, 1)
	require.Contains(t, report.Stuck[0].At, "lockForever")
	require.Contains(t, report.Report(), "sync.(*Mutex).Lock")
	require.Contains(t, report.Report(), `"s" did not stop and was abandoned`)
	c.mu.Unlock()
	eventually(t, "it has come back", func() bool { return p.Snapshot().InFlight == 0 })
}

func TestADrainReportsAPausedStageAndItsTickets(t *testing.T) {
	for name, order := range map[string]stage.Option{"fifo": stage.Batch(8), "lifo": stage.Discipline(queue.LIFO{}), "deadline": stage.Discipline(queue.Deadline{})} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s := stage.Func("s", func(context.Context, int) behaviour.Outcome { return behaviour.Error(errNo) },
					order, stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Hour, Max: time.Hour}))
				p := bubble(t, s)
				_, err := s.Ask(t.Context(), 1)
				require.NoError(t, err)
				synctest.Wait() // the command waits for its retry
				require.NoError(t, p.Pause(s))
				for range 2 {
					_, err := s.Ask(t.Context(), 1)
					require.NoError(t, err)
				}
				require.NoError(t, s.Submit(t.Context(), 1))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err = p.Drain(ctx)
				var report *pipeline.DrainError
				require.ErrorAs(t, err, &report)
				at := report.Where[0]
				require.True(t, at.Paused)
				require.Equal(t, []int{3, 0, 1, 3}, []int{at.Queue.Queued, at.Queue.InHand, at.Queue.Delayed, at.Tickets})
				require.Empty(t, at.Handlers)
				require.ErrorContains(t, err, "s (paused, 3 queued, 0 in hand, 1 waiting for a retry)")
				require.NoError(t, p.Resume(s))
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

func TestAReportNamesTheStageThatAHandlerWaitsFor(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		let := make(chan struct{})
		leaf := stage.Func("leaf", func(_ context.Context, n int) behaviour.Outcome { <-let; return behaviour.OK(n) }, stage.Workers(1, 1))
		call := func(ctx context.Context, n int) behaviour.Outcome {
			got, err := stage.Call[int](ctx, leaf, n)
			if err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(got)
		}
		plain := stage.Func("plain", call, stage.Workers(1, 1))
		aside := stage.Coroutine("aside", func(c coroutine.Context, n int) behaviour.Outcome { return call(c, n) }, stage.Workers(1, 1))
		p := bubble(t, plain, aside, leaf)
		require.NoError(t, plain.Submit(t.Context(), 1))
		require.NoError(t, aside.Submit(t.Context(), 1))
		synctest.Wait()
		waits := map[string]string{}
		for _, h := range p.Handlers() {
			require.Equal(t, h.Stage == "aside", h.Suspended, h.Stage)
			waits[h.Stage] = h.Waits
		}
		require.Equal(t, map[string]string{
			"plain": `the answer to a command at stage "leaf"`, "aside": `the answer to a command at stage "leaf"`, "leaf": "",
		}, waits)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := p.Drain(ctx)
		require.ErrorContains(t, err, `where it waits for the answer to a command at stage "leaf"`)
		close(let)
		require.NoError(t, p.Drain(t.Context()))
		require.NoError(t, p.Stop(t.Context()))
	})
}
