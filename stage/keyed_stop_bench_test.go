package stage_test

import (
	"context"
	"testing"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// stopping is an instance of a key that has a Stop.
type stopping struct{ stopped *int }

func (s stopping) HandleCommand(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }
func (s stopping) Stop()                                                { *s.stopped++ }

// BenchmarkStopOfKeys stops a keyed stage with ten thousand instances. Every stop of an instance is user code, which may panic or end
// its goroutine.
func BenchmarkStopOfKeys(b *testing.B) {
	const keys = 10_000
	var stops, busy time.Duration
	for range b.N {
		stopped := 0
		s := stage.Keyed("keys", func(n int) int { return n }, func(int) stopping { return stopping{&stopped} })
		p, err := pipeline.New("line", s)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		for n := range keys {
			if err := s.Submit(b.Context(), n); err != nil {
				b.Fatal(err)
			}
		}
		if err := p.Drain(b.Context()); err != nil {
			b.Fatal(err)
		}
		began, before := time.Now(), time.Duration(cpu())
		if err := p.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
		stops, busy = stops+time.Since(began), busy+time.Duration(cpu())-before
		if stopped != keys {
			b.Fatal(stopped)
		}
	}
	b.ReportMetric(float64(stops.Nanoseconds())/float64(b.N)/keys, "ns/stop")
	b.ReportMetric(float64(busy.Nanoseconds())/float64(b.N)/keys, "cpu-ns/stop")
}
