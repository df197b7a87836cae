package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// sink waits at the bottom of a recursion that is so deep that the runtime elides the middle of its stack.
//
//go:noinline
func sink(n int, in *atomic.Int32, let chan struct{}) {
	if n == 0 {
		in.Add(1)
		<-let
		return
	}
	sink(n-1, in, let)
}

// Each of many workers is found, whatever its handler does.
func TestEveryHandlerThatRunsIsFoundWithItsOwnStack(t *testing.T) {
	var in atomic.Int32 // how many handlers have reached the place where they wait
	let := make(chan struct{})
	deep := stage.Func("deep", func(_ context.Context, n int) behaviour.Outcome { sink(n, &in, let); return behaviour.OK(nil) }, stage.Workers(20, 20))
	timed := stage.Func("timed", func(context.Context, int) behaviour.Outcome { in.Add(1); <-let; return behaviour.OK(nil) },
		stage.Workers(3, 3), stage.Timeout(time.Hour))
	batch := stage.New("batch", batcher{&in, let}, stage.Workers(1, 1))
	full := stage.Func("full", func(context.Context, int) behaviour.Outcome { <-let; return behaviour.OK(nil) }, stage.Workers(1, 1), stage.Capacity(1))
	emits := stage.Func("emits", func(ctx context.Context, _ int) behaviour.Outcome {
		for range 300 { // with more than are held, Emit waits for a free slot
			if err := behaviour.Emit(ctx, full, 1); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(nil)
	}, stage.Workers(1, 1))
	p, err := pipeline.New("p", deep, timed, batch, emits, full)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	for i := range 20 {
		require.NoError(t, deep.Submit(t.Context(), 10*i))
	}
	for range 3 {
		require.NoError(t, timed.Submit(t.Context(), 1))
	}
	require.NoError(t, batch.Submit(t.Context(), 1))
	require.NoError(t, emits.Submit(t.Context(), 1))
	require.Eventually(t, func() bool {
		s := p.Snapshot().Stages
		return in.Load() == 20+3+1 && s[3].Workers.Busy == 1 && s[4].Workers.Busy == 1 && s[4].Queue.Queued == 1
	}, time.Minute, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var report *pipeline.DrainError
	require.ErrorAs(t, p.Drain(ctx), &report)
	at := map[string][]string{}
	goroutines := map[string]bool{}
	for _, u := range report.Where {
		for _, h := range u.Handlers {
			require.NotEmpty(t, h.Stack, h.Stage)
			head, _, _ := strings.Cut(string(h.Stack), "[")
			require.False(t, goroutines[head], "each handler has a goroutine of its own")
			goroutines[head] = true
			at[u.Name] = append(at[u.Name], h.At)
		}
	}
	require.Len(t, at["deep"], 20)
	for _, place := range at["deep"] {
		require.Contains(t, place, "worker_test.sink where_test.go:")
	}
	require.Len(t, at["timed"], 3)
	require.Contains(t, at["timed"][0], "worker_test.TestEveryHandler")
	require.Contains(t, fmt.Sprint(at["batch"]), "worker_test.batcher.HandleBatch where_test.go:")
	require.Contains(t, fmt.Sprint(at["emits"]), "worker_test.TestEveryHandler")
	close(let)
	require.NoError(t, p.Stop(t.Context()))
}

// batcher is a batch handler that waits.
type batcher struct {
	in  *atomic.Int32
	let chan struct{}
}

func (batcher) HandleCommand(context.Context, int) behaviour.Outcome { panic("it is a batcher") }

func (b batcher) HandleBatch(_ context.Context, cmds []int) []behaviour.Outcome {
	b.in.Add(1)
	<-b.let
	out := make([]behaviour.Outcome, len(cmds))
	for i := range out {
		out[i] = behaviour.OK(nil)
	}
	return out
}
