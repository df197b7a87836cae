package stage_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/stage"
)

// long makes the load test of keyed stages a hundred times as long:
//
//	go test -run MillionsOfCommands ./stage -long -v
var long = flag.Bool("long", false, "a load test of ten million commands")

// customer is the instance of a key in the load test: it counts the commands that it has handled.
type customer struct {
	load *load
	key  int
	n    int64 // handled by this instance
}

// load is what the instances of the load test check.
type load struct {
	next    []int64        // the command of each key that is to be handled next; for its worker
	working []atomic.Int32 // handlers of each key
	wrong   atomic.Int64
	live    atomic.Int64
}

func (c *customer) Start(context.Context) error { c.load.live.Add(1); return nil }

func (c *customer) Stop() { c.load.live.Add(-1) }

func (c *customer) HandleCommand(ctx context.Context, i item) behaviour.Outcome {
	return c.handle(ctx, i, func() error { return nil })
}

// handle counts a command, and pauses while no other of its key may be handled.
func (c *customer) handle(ctx context.Context, i item, pause func() error) behaviour.Outcome {
	l := c.load
	if i.key != c.key || !l.working[i.key].CompareAndSwap(0, 1) {
		l.wrong.Add(1)
	}
	defer l.working[i.key].Store(0)
	if err := pause(); err != nil {
		return behaviour.Error(err)
	}
	if try := behaviour.Attempt(ctx); i.oneIn(5000) && try < 2 {
		if i.n%2 == 0 {
			panic("crash")
		}
		return behaviour.Error(errors.New("not yet"))
	}
	if l.next[i.key] != int64(i.n) || c.n > int64(i.n) {
		l.wrong.Add(1)
	}
	l.next[i.key]++
	c.n++
	return behaviour.OK(nil)
}

// peak samples the size of the heap until ctx ends, and returns the largest.
func peak(ctx context.Context) (most uint64) {
	for ctx.Err() == nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
		time.Sleep(50 * time.Millisecond)
	}
	return most
}

func TestAKeyedStageKeepsItsPromisesForMillionsOfCommands(t *testing.T) {
	testAKeyedStageUnderLoad(t, 100_000, 8, func(l *load, opts ...stage.Option) *stage.Stage[item] {
		return stage.Keyed("keyed", keyOf, func(k int) *customer { return &customer{load: l, key: k} }, opts...)
	})
}

// patient is a customer whose handler suspends.
type patient struct{ customer }

func (p *patient) HandleSuspending(c behaviour.Suspender, i item) behaviour.Outcome {
	return p.handle(c, i, func() error { return anyWait(c, i) })
}

func TestAKeyedStageThatSuspendsKeepsItsPromisesForMillionsOfCommands(t *testing.T) {
	const underWay = 200
	testAKeyedStageUnderLoad(t, 20_000, underWay, func(l *load, opts ...stage.Option) *stage.Stage[item] {
		return stage.Keyed("keyed", keyOf, func(k int) *patient { return &patient{customer{load: l, key: k}} },
			append(opts, stage.Instances(underWay))...)
	})
}

// testAKeyedStageUnderLoad has a stage handle n commands, at most so many at once.
func testAKeyedStageUnderLoad(t *testing.T, n, underWay int, build func(l *load, opts ...stage.Option) *stage.Stage[item]) {
	t.Helper()
	keys := 1000
	if *long {
		keys, n = 100*keys, 100*n
	}
	l := &load{next: make([]int64, keys), working: make([]atomic.Int32, keys)}
	s := build(l, stage.Retry(stage.RetryPolicy{Attempts: 3}), stage.Workers(4, 8), stage.Passivate(time.Second, keys/5))
	p := run(t, s)

	ctx, stop := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	swaps, heap := 0, uint64(0)
	beside.Go(func() { heap = peak(ctx) })
	beside.Go(func() {
		for ; ctx.Err() == nil; swaps++ {
			pol, err := policy.ByName(admitting()[swaps%len(admitting())])
			assert.NoError(t, err)
			_ = p.SetPolicy(pol)
			time.Sleep(20 * time.Millisecond)
		}
	})
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, uint64(keys-1))
	submitted := make([]int, keys)
	began := time.Now()
	for range n {
		k := int(zipf.Uint64())
		submitUnder(t, s, item{k, submitted[k]})
		submitted[k]++
	}
	require.NoError(t, p.Drain(t.Context()))
	took := time.Since(began)
	stop()
	beside.Wait()

	snap := s.Snapshot()
	require.Zero(t, l.wrong.Load(), "commands out of order, two at once, or with the state of another key")
	require.EqualValues(t, n, snap.Counts.OK)
	for k, want := range submitted {
		require.EqualValues(t, want, l.next[k], "key %d", k)
	}
	require.LessOrEqual(t, snap.Workers.Keys, keys/5+keys/50+underWay)
	require.Less(t, heap, uint64(256<<20))
	require.NoError(t, p.Stop(t.Context()))
	require.Zero(t, l.live.Load(), "each instance is stopped once")
	t.Logf("%d commands of %d keys in %v: %d crashes, %d retries, %d swaps, %d passivated; at most %d MB of heap",
		n, keys, took.Round(time.Millisecond), snap.Counts.Crashes, snap.Counts.Retries, swaps, snap.Counts.Passivated, heap>>20)
}
