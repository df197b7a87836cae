package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// handlers that do not return when their pipeline stops hard. Each counts itself in, and returns when let is closed.
var neverReturning = map[string]func(name string, in *atomic.Int64, let chan struct{}) *stage.Stage[int]{
	"plain": func(name string, in *atomic.Int64, let chan struct{}) *stage.Stage[int] {
		return stage.Func(name, func(context.Context, int) behaviour.Outcome {
			in.Add(1)
			<-let
			return behaviour.OK(nil)
		})
	},
	"coroutine": func(name string, in *atomic.Int64, let chan struct{}) *stage.Stage[int] {
		return stage.Coroutine(name, func(coroutine.Context, int) behaviour.Outcome {
			in.Add(1)
			<-let
			return behaviour.OK(nil)
		})
	},
	"a coroutine that was suspended": func(name string, in *atomic.Int64, let chan struct{}) *stage.Stage[int] {
		return stage.Coroutine(name, func(c coroutine.Context, _ int) behaviour.Outcome {
			in.Add(1)
			_ = coroutine.Sleep(c, time.Hour)
			<-let
			return behaviour.OK(nil)
		})
	},
	"a coroutine that ends": func(name string, in *atomic.Int64, let chan struct{}) *stage.Stage[int] {
		return stage.Coroutine(name, func(c coroutine.Context, _ int) behaviour.Outcome {
			in.Add(1)
			return behaviour.Error(coroutine.Sleep(c, time.Hour))
		})
	},
}

func TestAfterAHardStopEachLetterWasHeardOrIsCountedAsUnheard(t *testing.T) {
	for _, first := range []string{"plain", "coroutine", "a coroutine that was suspended"} {
		for second := range neverReturning {
			for _, shared := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, shared %v", first, second, shared), func(t *testing.T) {
					t.Parallel() // most of the time is the grace
					hearsAll(t, first, second, shared)
				})
			}
		}
	}
}

func hearsAll(t *testing.T, first, second string, shared bool) {
	t.Helper()
	var in atomic.Int64
	var heard atomic.Uint64
	let := make(chan struct{})
	a, b := neverReturning[first]("a", &in, let), neverReturning[second]("b", &in, let)
	echoes := stage.Func("c", echo[int])
	part := pipeline.Subgraph(a, b, echoes)
	if shared {
		part = pipeline.Group("g", 2, 2, a, b, echoes)
	}
	p := start(t, part, pipeline.Grace(20*time.Millisecond), pipeline.DeadLetters(func(stage.DeadLetter) { heard.Add(1) }))
	for i := range 2 {
		require.NoError(t, a.Submit(t.Context(), i))
		require.NoError(t, b.Submit(t.Context(), i))
	}
	eventually(t, "handlers run", func() bool { return in.Load() >= 2 })
	require.NoError(t, echoes.Submit(t.Context(), 1))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	err := p.Stop(ctx)
	report, ok := errors.AsType[*pipeline.StopError](err)
	require.True(t, ok, err)
	before, told := p.Snapshot(), heard.Load()
	close(let)
	require.Equal(t, before.DeadLettered+before.Shed, told+uint64(report.Unheard), "%d heard, %d unheard: %s", told, report.Unheard, before.Law())
	require.Zero(t, before.InFlight, before.Law())
	time.Sleep(10 * time.Millisecond)
	after := p.Snapshot()
	require.Equal(t, after.DeadLettered+after.Shed, heard.Load()+uint64(report.Unheard), after.Law())
	require.Equal(t, before.Law(), after.Law())
}

// Eight submitters have a letter each, and wait for the subscriber, whose queue is full and which does not return.
func TestLettersWhoseGoroutinesWaitForASubscriberAtAHardStopAreUnheard(t *testing.T) {
	const queued, waiting = 1025, 8 // one letter is at the subscriber
	for range 5 {
		let := make(chan struct{})
		var heard atomic.Uint64
		s := stage.Func("s", echo[int], stage.Capacity(1), stage.Overflow(overflow.DropNewest))
		p := start(t, s, pipeline.Grace(5*time.Millisecond), pipeline.DeadLetters(func(stage.DeadLetter) { heard.Add(1); <-let }))
		require.NoError(t, p.Pause(s))
		for i := range 1 + queued {
			require.NoError(t, s.Submit(t.Context(), i))
		}
		var submitters sync.WaitGroup
		for range waiting {
			submitters.Go(func() { _ = s.Submit(t.Context(), 1) })
		}
		eventually(t, "all are shed", func() bool { return p.Snapshot().Shed == queued+waiting })
		report, ok := errors.AsType[*pipeline.StopError](p.Stop(gone()))
		require.True(t, ok)
		require.EqualValues(t, 1+queued+waiting, report.Unheard, "with the one that the subscriber has not returned from")
		close(let)
		submitters.Wait()
		require.EqualValues(t, 1, heard.Load())
	}
}
