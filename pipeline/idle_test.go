package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// memory is what an idle program holds.
type memory struct{ bytes, goroutines int }

// memoryHeld returns the lowest of several readings: a policy that takes snapshots meanwhile leaves garbage until the next
// collection.
func memoryHeld() memory {
	least := memory{math.MaxInt, math.MaxInt}
	for range 6 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		least.bytes = min(least.bytes, int(m.HeapAlloc+m.StackInuse))
		least.goroutines = min(least.goroutines, runtime.NumGoroutine())
	}
	return least
}

func (m memory) since(before memory, stages int) (bytesEach, goroutines int) {
	return (m.bytes - before.bytes) / stages, m.goroutines - before.goroutines
}

// idle makes stages that never get a command.
var idle = map[string]func(name string) pipeline.Part{
	"with a shared behaviour": func(name string) pipeline.Part {
		return stage.Func(name, fn(echo[int]), stage.Workers(1, 1))
	},
	"with an instance for each worker": func(name string) pipeline.Part {
		return stage.Each(name, func() behaviour.Behaviour[int] { return fn(echo[int]) }, stage.Workers(1, 1))
	},
	"with an instance for each of two workers": func(name string) pipeline.Part {
		return stage.Each(name, func() behaviour.Behaviour[int] { return fn(echo[int]) }, stage.Workers(2, 2))
	},
}

// mostRunningOf is the bound where it differs from mostRunning: two workers that have made their instances are started.
var mostRunningOf = map[string]int{"with an instance for each of two workers": 9300}

// descriptor is about how many bytes the runtime keeps for each goroutine that there was at once. With one CPU the workers of all stages are
// started before the first of them has run, and with two that have other work some are.
const descriptor = 500

// The bounds, in bytes, include a tenth of slack, where they are no target.
const (
	mostMade    = 3150 // 64 of them say where the stage was made
	mostRunning = 5300
	mostWorked  = 10_000 // the target: histograms take 64 bytes for each doubling of the times that were seen
)

// An idle stage costs only memory. To measure it with ten thousand stages:
//
//	go test -v -run AnIdleStageCosts ./pipeline -long
func TestAnIdleStageCostsFewBytesAndNoGoroutine(t *testing.T) {
	n := 2000
	if *long {
		n = 10_000
	}
	for name, make := range idle {
		t.Run(name, func(t *testing.T) {
			alone := memoryHeld()
			own := pipeline.System(actor.NewSystem(slog.New(slog.DiscardHandler)))
			before := memoryHeld()
			home := before.bytes - alone.bytes // a system allocates for many actors at its start
			parts := []pipeline.Part{own, quiet}
			for i := range n {
				parts = append(parts, make(fmt.Sprintf("stage-%d", i)))
			}
			made, _ := memoryHeld().since(before, n)
			p, err := pipeline.New("idle", parts...)
			require.NoError(t, err)
			require.NoError(t, p.Start(context.Background()))
			running, goroutines := memoryHeld().since(before, n)
			t.Logf("%d stages: made %d B each, running %d B each, with their part of the system %d B; %d goroutines",
				n, made, running, running+home/n, goroutines)
			profile(t)
			if !raced {
				require.LessOrEqual(t, made, mostMade)
				most := max(mostRunning, mostRunningOf[name])
				switch {
				case runtime.GOMAXPROCS(0) == 1:
					most += 2 * descriptor
				case mostRunningOf[name] > 0:
					most += descriptor / 2
				}
				require.LessOrEqual(t, running, most)
			}
			require.LessOrEqual(t, goroutines, 4)
			require.NoError(t, p.Stop(context.Background())) // with the race detector, beside other tests, thousands of stages take their time
			runtime.KeepAlive(parts)
		})
	}
}

// profile writes a heap profile, if the environment names a file:
//
//	GOLDA_HEAP=/tmp/heap go test -run AnIdleStageCosts -memprofilerate 512 ./pipeline
//	go tool pprof -sample_index inuse_space -top /tmp/heap
func profile(t *testing.T) {
	name := os.Getenv("GOLDA_HEAP")
	if name == "" {
		return
	}
	f, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, pprof.WriteHeapProfile(f))
	require.NoError(t, f.Close())
}

// A stage that has worked has a worker, its actor, and small queues and histograms. These stages have ports and wires, too, unlike
// those of the test above.
//
//	go test -v -run StageThatHasWorked ./pipeline -long
func TestAStageThatHasWorkedCostsFewBytesAndNoGoroutine(t *testing.T) {
	n := 2000
	if *long {
		n = 10_000
	}
	own := pipeline.System(actor.NewSystem(slog.New(slog.DiscardHandler)))
	before := memoryHeld()
	parts := []pipeline.Part{own, quiet}
	last := stage.Func("last", fn(echo[int]), stage.Workers(1, 1))
	first := last
	parts = append(parts, last)
	for i := range n - 1 {
		out := behaviour.NewPort[int]("out")
		s := stage.Func(fmt.Sprintf("stage-%d", i), fn(func(_ context.Context, v int) behaviour.Outcome {
			return behaviour.Forward(out, v)
		}), stage.Workers(1, 1), stage.Out(out))
		parts = append(parts, s, pipeline.Wire(out, first))
		first = s
	}
	p, err := pipeline.New("idle", parts...)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background()))
	fresh, _ := memoryHeld().since(before, n)
	for round := range 2 {
		got, err := stage.Call[int](context.Background(), first, 7)
		require.NoError(t, err)
		require.Equal(t, 7, got)
		worked, goroutines := memoryHeld().since(before, n)
		t.Logf("%d stages: fresh %d B each, after command %d %d B each; %d goroutines", n, fresh, round+1, worked, goroutines)
		if !raced {
			require.LessOrEqual(t, worked, mostWorked)
		}
		require.LessOrEqual(t, goroutines, 4)
	}
	profile(t)
	if err := p.Stop(soon(t)); !*long { // on a busy machine ten thousand stages may take longer than the usual time limit
		require.NoError(t, err)
	}
	runtime.KeepAlive(parts)
}
