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
	"github.com/golda-dev/golda/internal/stacks"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestThePlaceIsTheInnermostCallOfUserCode(t *testing.T) {
	const engine = `
github.com/golda-dev/golda/behaviour.Func[...].HandleCommand(0x1?, {0x2?, 0x3?}, 0x4?)
	/src/behaviour/behaviour.go:40 +0x1d
github.com/golda-dev/golda/stage.(*single[...]).Handle(0x1, {0x2, 0x3})
	/src/stage/instance.go:50 +0x1d
github.com/golda-dev/golda/worker.(*Worker).handleEach(0xc000000001, 0x1)
	/src/worker/worker.go:400 +0x1d
github.com/golda-dev/golda/worker.(*Worker).work(0xc000000001, 0x1)
	/src/worker/worker.go:380 +0x1d
created by github.com/asynkron/protoactor-go/actor.goroutineDispatcher.Schedule in goroutine 1
	/mod/dispatcher.go:10 +0x1d
`
	for name, row := range map[string]struct{ stack, want string }{
		"a program's own": {"main.(*till).HandleCommand(0x1)\n\t/home/shop/till.go:31 +0x1d", "main.(*till).HandleCommand till.go:31"},
		"beneath the standard library": {"sync.(*Mutex).Lock(...)\n\t/go/sync/mutex.go:46\nmain.sum(0x1)\n\t/home/shop/sum.go:7 +0x1d\n" +
			"main.f.func1()\n\t/home/shop/till.go:31 +0x1d", "main.sum sum.go:7"},
		"a library": {"internal/poll.runtime_pollWait(0x1)\n\t/go/netpoll.go:1 +0x1d\ngithub.com/lib/pq.(*conn).recv(0x1)\n\t/mod/conn.go:9 +0x1d\n" +
			"example.com/shop/till.Handle(0x1)\n\t/home/shop/till.go:31 +0x1d", "pq.(*conn).recv conn.go:9"},
		"a module without a host": {"time.Sleep(0x1)\n\t/go/time.go:1 +0x1d\nshop/sums.Add(0x1)\n\t/home/shop/sums/add.go:3 +0x1d\n" +
			"shop/till.Handle(0x1)\n\t/home/shop/till.go:31 +0x1d", "sums.Add add.go:3"},
		"in a call to the engine": {"github.com/golda-dev/golda/internal/inbox.(*Inbox).await(0x1)\n\t/src/admit.go:150 +0x1d\n" +
			"github.com/golda-dev/golda/stage.(*Stage[...]).Submit(0x1)\n\t/src/stage.go:150 +0x1d\nmain.f(0x1)\n\t/home/shop/till.go:31 +0x1d", "main.f till.go:31"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, stacks.Place([]byte("goroutine 7 [select]:\n"+row.stack+engine)))
		})
	}
	require.Empty(t, stacks.Place(nil))
	require.Empty(t, stacks.Place([]byte("goroutine 7 [select]:"+engine)), "no user code")
}

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
		return in.Load() == 20+3+1 && s[3].Busy == 1 && s[4].Busy == 1 && s[4].Queued == 1
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
