package pipeline_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// fork is a stage with one worker that forwards even numbers to a stuck stage, and odd ones to a healthy stage.
type fork struct {
	p                   *pipeline.Pipeline
	split, stuck, sound *stage.Stage[int]
	gate                chan struct{}

	mu   sync.Mutex // guards all below
	seen map[string][]int
}

func newFork(t *testing.T, opts []stage.Option, parts ...pipeline.Part) *fork {
	t.Helper()
	f := &fork{gate: make(chan struct{}), seen: map[string][]int{}}
	note := func(name string, n int) behaviour.Outcome {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.seen[name] = append(f.seen[name], n)
		return behaviour.OK(n)
	}
	one := []stage.Option{stage.Workers(1, 1), stage.Capacity(1)}
	f.stuck = stage.Func("stuck", func(_ context.Context, n int) behaviour.Outcome {
		<-f.gate
		return note("stuck", n)
	}, one...)
	f.sound = stage.Func("sound", func(_ context.Context, n int) behaviour.Outcome { return note("sound", n) }, one...)
	f.split = stage.Func("split", func(_ context.Context, n int) behaviour.Outcome {
		if n%2 == 0 {
			return behaviour.Forward(f.stuck, n)
		}
		return behaviour.Forward(f.sound, n)
	}, append([]stage.Option{stage.Defaults(stage.Workers(1, 1))}, opts...)...)
	parts = append([]pipeline.Part{f.split, f.stuck, f.sound}, parts...)
	f.p = startAlone(t, parts...)
	return f
}

func (f *fork) handled(name string) []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen[name])
}

// count returns n numbers from first on, in steps of two.
func count(first, n int) (all []int) {
	for i := range n {
		all = append(all, first+2*i)
	}
	return all
}

func TestAStuckTargetDoesNotStopItsHealthySibling(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		f := newFork(t, nil)
		for n := range 500 {
			require.NoError(t, f.split.Submit(t.Context(), n))
		}
		synctest.Wait()
		require.Equal(t, count(1, 250), f.handled("sound"), "in order")
		require.Empty(t, f.handled("stuck"))
		close(f.gate)
		require.NoError(t, f.p.Stop(t.Context()))
		atRest(t, f.p)
		require.Equal(t, count(0, 250), f.handled("stuck"), "in order")
	})
}

// Commands that wait for the stuck stage keep their slots, so the capacity of the stage that forwards them is their bound.
func TestCommandsThatWaitForAStuckTargetCountAgainstTheCapacity(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		f := newFork(t, []stage.Option{stage.Capacity(10), stage.Overflow(overflow.Reject)})
		require.NoError(t, f.split.Submit(t.Context(), 1))
		synctest.Wait()
		accepted := 0
		for n := range 500 {
			if f.split.Submit(t.Context(), 2*n) == nil {
				accepted++
			}
			synctest.Wait()
		}
		require.Equal(t, 12, accepted, "ten slots, one in the queue of the stuck stage, one with its worker")
		close(f.gate)
		require.NoError(t, f.p.Stop(t.Context()))
		atRest(t, f.p)
		require.Len(t, f.handled("stuck"), accepted)
	})
}

// An idle worker with commands for a full stage hands them over as soon as that has a free slot.
func TestAnIdleWorkerHandsOverWhenTheTargetHasAFreeSlot(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		f := newFork(t, nil)
		for n := range 20 {
			require.NoError(t, f.split.Submit(t.Context(), n))
		}
		synctest.Wait()
		require.Len(t, f.handled("sound"), 10)
		for range 10 {
			f.gate <- struct{}{}
			synctest.Wait()
		}
		require.Equal(t, count(0, 10), f.handled("stuck"))
		require.NoError(t, f.split.Submit(t.Context(), 21))
		synctest.Wait()
		require.Equal(t, count(1, 11), f.handled("sound"))
		close(f.gate)
		require.NoError(t, f.p.Stop(t.Context()))
		atRest(t, f.p)
	})
}

// A hard stop ends the commands that a worker holds for a full stage whose handler is stuck.
func TestAHardStopEndsCommandsThatWaitForAStuckTarget(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		f := newFork(t, nil)
		for n := range 100 {
			require.NoError(t, f.split.Submit(t.Context(), n))
		}
		synctest.Wait()
		now, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, f.p.Stop(now))
		atRest(t, f.p)
		require.Len(t, f.handled("sound"), 50)
		require.EqualValues(t, 50, f.p.Snapshot().DeadLettered)
		close(f.gate)
	})
}
