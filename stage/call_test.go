package stage_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A call costs one allocation, its ticket, if the answer is there when the caller has yielded. Otherwise it costs one more,
// to wait. If the caller's context can end or has values, the context of the handler is another allocation.
func TestAllocsPerRunOfACallAreOne(t *testing.T) {
	if raced {
		t.Skip("it takes long with the race detector, and counts the same")
	}
	s := stage.Func("echo", func(_ context.Context, p *parcel) behaviour.Outcome { return behaviour.OK(p) }, stage.Workers(1, 1))
	p, err := pipeline.New("call", s, pipeline.Control(policy.Fixed{}))
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background()))
	cmd := &parcel{}
	for _, test := range []struct {
		name string
		ctx  context.Context
		most float64
	}{
		{"a context without values and end", context.Background(), 1},
		{"a context with values", context.WithValue(context.Background(), parcel{}, 1), 2},
		{"a context that can end", t.Context(), 2},
		{"a context that can end, with values", context.WithValue(t.Context(), parcel{}, 1), 2},
	} {
		calls := func() {
			for range 1000 {
				if got, err := stage.Call[*parcel](test.ctx, s, cmd); err != nil || got != cmd {
					t.Error(got, err)
				}
			}
		}
		calls() // starts the worker
		// The tenth allows for late answers and for goroutines that start: the machine may be busy.
		require.LessOrEqual(t, leastAllocs(calls), (test.most+0.1)*1000, test.name)
	}
	require.NoError(t, p.Stop(context.Background()))
}

// leastAllocs returns the lowest of a few counts.
func leastAllocs(f func()) float64 {
	least := testing.AllocsPerRun(1, f)
	for range 9 {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

// Callers give up while their answers are on the way. Each gets the answer to its own command or none. Every command ends
// once, whether or not its caller gets the answer. A command that was not started by then is never started.
func TestCallersThatGiveUpHearNoneOfEachOthersAnswers(t *testing.T) {
	const callers = 8
	rounds := 300
	if testing.Short() {
		rounds = 60
	}
	var handled atomic.Uint64
	s := stage.Func("echo", func(_ context.Context, n int) behaviour.Outcome {
		handled.Add(1)
		if n%3 == 0 {
			runtime.Gosched()
		}
		if n%7 == 0 {
			time.Sleep(time.Duration(n%50) * time.Microsecond)
		}
		if n%5 == 0 {
			return behaviour.Error(errOdd)
		}
		return behaviour.OK(n)
	}, stage.Workers(2, 2))
	p, err := pipeline.New("late", s, pipeline.Control(policy.Fixed{}))
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background()))
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for round := range rounds {
				n := caller*rounds + round
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(round%100)*time.Microsecond)
				got, err := stage.Call[int](ctx, s, n)
				cancel()
				switch {
				case errors.Is(err, context.DeadlineExceeded):
				case n%5 == 0:
					if !errors.Is(err, errOdd) {
						t.Errorf("command %d: got %d, %v", n, got, err)
					}
				case err != nil || got != n:
					t.Errorf("command %d: got %d, %v", n, got, err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, p.Stop(context.Background()))
	end := p.Snapshot()
	require.True(t, end.Balanced())
	require.Zero(t, end.InFlight)
	require.Equal(t, end.Accepted, end.Replied+end.Failed)
	require.GreaterOrEqual(t, end.Accepted, handled.Load())
	require.GreaterOrEqual(t, handled.Load(), end.Replied)
}

var errOdd = errors.New("odd")
