package stage_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// One command at a time through three stages, and its answer back: what a hop costs when no other command shares its wake-ups.
// With a gap between the calls all workers are idle before each, and the caches are cold. Without a gap the calls follow one
// another so fast that a worker has not gone idle before the next.
//
//	go test -run '^$' -bench Alone -count 10 ./stage
func BenchmarkAlone(b *testing.B) {
	for _, gap := range []time.Duration{0, 100 * time.Microsecond} {
		b.Run(fmt.Sprintf("by=golda/gap=%v", gap), func(b *testing.B) { aloneInStages(b, gap) })
		b.Run(fmt.Sprintf("by=chan/gap=%v", gap), func(b *testing.B) { aloneInChannels(b, gap) })
	}
}

const aloneHops = 3

func aloneInStages(b *testing.B, gap time.Duration) {
	next, p := lineOf(b, aloneHops, func(_ context.Context, p *parcel) behaviour.Outcome { return behaviour.OK(p) })
	alone(b, gap, func(p *parcel) {
		if _, err := stage.Call[*parcel](context.Background(), next, p); err != nil {
			b.Fatal(err)
		}
	})
	if err := p.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

func aloneInChannels(b *testing.B, gap time.Duration) {
	type request struct {
		cmd    *parcel
		answer chan *parcel
	}
	in := make(chan request, 1024)
	next := in
	for i := range aloneHops {
		from, to := next, make(chan request, 1024)
		next = to
		go func() {
			for r := range from {
				if i < aloneHops-1 {
					to <- r
					continue
				}
				r.answer <- r.cmd
			}
			close(to)
		}()
	}
	alone(b, gap, func(p *parcel) {
		r := request{p, make(chan *parcel, 1)}
		in <- r
		<-r.answer
	})
	close(in)
}

func alone(b *testing.B, gap time.Duration, ask func(*parcel)) {
	cmd := &parcel{}
	took := make([]time.Duration, 0, b.N)
	ask(cmd)
	b.ReportAllocs()
	b.ResetTimer()
	c := cpu()
	for range b.N {
		if gap > 0 {
			time.Sleep(gap)
		}
		begin := time.Now()
		ask(cmd)
		took = append(took, time.Since(begin))
	}
	b.StopTimer()
	b.ReportMetric(float64(cpu()-c)/float64(b.N), "cpu-ns/op")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/5]), "p20-ns")
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
}
