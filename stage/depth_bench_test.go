package stage_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/cputime"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// What a hop costs in lines of different lengths. Commands pass the line before the time starts, so that it does not include
// what a stage allocates once.
//
//	go test -run '^$' -bench Depth -benchtime 20000x -count 10 ./stage
func BenchmarkDepth(b *testing.B) {
	for _, n := range []int{5, 50, 500} {
		b.Run(fmt.Sprintf("by=golda/stages=%d", n), func(b *testing.B) { deepStages(b, n) })
		b.Run(fmt.Sprintf("by=chan/stages=%d", n), func(b *testing.B) { deepChannels(b, n) })
	}
}

func deepStages(b *testing.B, n int) {
	var all sync.WaitGroup
	next, p := lineOf(b, n, func(context.Context, *parcel) behaviour.Outcome {
		all.Done()
		return behaviour.OK(nil)
	})
	deepRun(b, n, &all, func(p *parcel) {
		if err := next.Submit(context.Background(), p); err != nil {
			b.Fatal(err)
		}
	})
	if err := p.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

func deepChannels(b *testing.B, n int) {
	var all sync.WaitGroup
	in := make(chan *parcel, 1024)
	next := in
	for i := range n {
		from, to := next, make(chan *parcel, 1024)
		next = to
		go func() {
			defer close(to)
			for p := range from {
				if i == n-1 {
					all.Done()
					continue
				}
				to <- p
			}
		}()
	}
	deepRun(b, n, &all, func(p *parcel) { in <- p })
	close(in)
	for range next { // until all have ended
	}
}

func deepRun(b *testing.B, n int, all *sync.WaitGroup, send func(*parcel)) {
	cmd := &parcel{}
	walk := func(n int) {
		all.Add(n)
		for range n {
			send(cmd)
		}
		all.Wait()
	}
	walk(5000)
	b.ResetTimer()
	c := cpu()
	walk(b.N)
	b.StopTimer()
	b.ReportMetric(float64(cpu()-c)/float64(b.N)/float64(n), "cpu-ns/hop")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/hop")
}

func cpu() int64 {
	used, _ := cputime.Used()
	return used.Nanoseconds()
}

// lineOf starts n stages of one worker each, which forward commands to the last.
func lineOf(b *testing.B, n int, end func(context.Context, *parcel) behaviour.Outcome) (entry *stage.Stage[*parcel], p *pipeline.Pipeline) {
	b.Helper()
	entry = stage.Func("end", end, stage.Workers(1, 1))
	parts := []pipeline.Part{entry}
	for i := range n - 1 {
		to := entry
		entry = stage.Func(strconv.Itoa(i), func(_ context.Context, p *parcel) behaviour.Outcome {
			return behaviour.Forward(to, p)
		}, stage.Workers(1, 1))
		parts = append(parts, entry)
	}
	p, err := pipeline.New("line", parts...)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return entry, p
}
