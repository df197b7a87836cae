package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sourcegraph/conc/stream"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// orderedWorkers is how many workers handle commands at once.
const orderedWorkers = 4

// An ordered stage, conc's stream and a pool by hand do the same: several workers handle commands, and the results arrive in the
// order of the commands.
//
//	go test -run - -bench OrderedResults
func BenchmarkOrderedResults(b *testing.B) {
	rounds := calibrate()
	for _, work := range []struct {
		name   string
		rounds int
	}{{"none", 0}, {"2us", rounds}, {"20us", 10 * rounds}} {
		for _, by := range []struct {
			name string
			run  func(b *testing.B, work func(n int) int, end func(n int))
		}{{"golda", orderedGolda}, {"golda-unordered", unorderedGolda}, {"conc", orderedConc}, {"channels", orderedChannels}} {
			b.Run(fmt.Sprintf("work=%s/by=%s", work.name, by.name), func(b *testing.B) {
				last, disorder := -1, 0
				b.ReportAllocs()
				by.run(b, func(n int) int { spin(work.rounds); return n }, func(n int) {
					if n < last {
						disorder++
					}
					last = max(last, n)
				})
				require.Equal(b, b.N-1, last)
				if by.name != "golda-unordered" {
					require.Zero(b, disorder)
				}
			})
		}
	}
}

func orderedGolda(b *testing.B, work func(n int) int, end func(n int)) {
	b.Helper()
	orderedLine(b, work, end, stage.Ordered())
}

func unorderedGolda(b *testing.B, work func(n int) int, end func(n int)) {
	b.Helper()
	orderedLine(b, work, end)
}

func orderedLine(b *testing.B, work func(n int) int, end func(n int), opts ...stage.Option) {
	b.Helper()
	sink := stage.Func("sink", func(_ context.Context, n int) behaviour.Outcome {
		end(n)
		return behaviour.OK(nil)
	}, stage.Workers(1, 1))
	st := stage.Func("work", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(sink, work(n)) },
		append([]stage.Option{stage.Defaults(stage.Workers(orderedWorkers, orderedWorkers))}, opts...)...)
	p, err := pipeline.New("ordered", st, sink)
	require.NoError(b, err)
	require.NoError(b, p.Start(b.Context()))
	b.ResetTimer()
	for i := range b.N {
		_ = st.Submit(context.Background(), i)
	}
	require.NoError(b, p.Stop(b.Context()))
}

func orderedConc(b *testing.B, work func(n int) int, end func(n int)) {
	b.Helper()
	s := stream.New().WithMaxGoroutines(orderedWorkers)
	b.ResetTimer()
	for i := range b.N {
		s.Go(func() stream.Callback {
			n := work(i)
			return func() { end(n) }
		})
	}
	s.Wait()
}

// orderedChannels is the pool by hand: the submitter queues a channel for each result, in order, and the reader of that queue
// waits for one after the other.
func orderedChannels(b *testing.B, work func(n int) int, end func(n int)) {
	b.Helper()
	type job struct {
		n      int
		result chan int
	}
	jobs, results := make(chan job, 1024), make(chan chan int, 1024)
	var workers, reader sync.WaitGroup
	for range orderedWorkers {
		workers.Go(func() {
			for j := range jobs {
				j.result <- work(j.n)
			}
		})
	}
	reader.Go(func() {
		for r := range results {
			end(<-r)
		}
	})
	b.ResetTimer()
	for i := range b.N {
		j := job{i, make(chan int, 1)}
		results <- j.result
		jobs <- j
	}
	close(jobs)
	close(results)
	workers.Wait()
	reader.Wait()
}

// A slow command now and then is what order costs most: the results behind it wait.
func BenchmarkOrderedResultsBehindSlowCommands(b *testing.B) {
	for _, by := range []struct {
		name string
		run  func(b *testing.B, work func(n int) int, end func(n int))
	}{{"golda", orderedGolda}, {"conc", orderedConc}, {"channels", orderedChannels}} {
		b.Run("by="+by.name, func(b *testing.B) {
			by.run(b, func(n int) int {
				if n%1000 == 0 {
					time.Sleep(time.Millisecond)
				}
				return n
			}, func(int) {})
		})
	}
}
