package simulator_test

import (
	"testing"

	"github.com/golda-dev/golda/controller/simulator"
)

// How long ten million events take, of commands that pass three stages: each command has an event of its arrival and one of
// each handler.
func BenchmarkTenMillionEvents(b *testing.B) {
	for b.Loop() {
		m := network(100, simulator.Stage{Name: "a", Service: simulator.Exponential(8 * milli), Forward: []simulator.Edge{{"b", 1}}},
			simulator.Stage{Name: "b", Service: simulator.Exponential(16 * milli), Workers: 2, Forward: []simulator.Edge{{"c", 1}}},
			simulator.Stage{Name: "c", Service: simulator.Exponential(32 * milli), Workers: 4})
		m.Length, m.Warmup = 25_000*second, 0
		r, err := simulator.Run(b.Context(), m)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.Arrived+r.Stages[0].Handled+r.Stages[1].Handled+r.Stages[2].Handled), "events/op")
	}
}
