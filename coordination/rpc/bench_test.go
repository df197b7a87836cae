package rpc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
)

// BenchmarkCall measures a call of a function that adds one, on the same node: from a goroutine that blocks, from a function of another process,
// and from 64 functions of that process at once; and of a function of another node, over a socket. "plain" calls the function itself.
func BenchmarkCall(b *testing.B) {
	add := func(_ coroutine.Context, v int) (int, error) { return v + 1, nil }
	n := aNode(b)
	adder := rpc.At[int, int](spawn(b, n, "adder", func(p *rpc.Process) { rpc.Func(p, "add", add) }), "add")
	caller := spawn(b, n, "caller", func(p *rpc.Process) {
		rpc.Func(p, "run", func(c coroutine.Context, times int) (none, error) {
			for i := range times {
				if _, err := adder.Call(c, i); err != nil {
					return none{}, err
				}
			}
			return none{}, nil
		})
	})
	run := rpc.At[int, none](caller, "run")
	main := coroutine.Blocking(context.Background())
	b.Run("plain", func(b *testing.B) {
		for i := range b.N {
			_, _ = add(main, i)
		}
	})
	b.Run("blocking", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			must(adder.Call(main, i))
		}
	})
	b.Run("process", func(b *testing.B) {
		b.ReportAllocs()
		must(run.Call(main, b.N))
	})
	far, near := nodeOn(b, listen(b)), nodeOn(b, listen(b))
	spawn(b, far, "adder", func(p *rpc.Process) { rpc.Func(p, "add", add) })
	away := rpc.At[int, int](near.Remote(far.Name(), "adder"), "add")
	b.Run("socket", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			must(away.Call(main, i))
		}
	})
	b.Run("socket, 64 outstanding", func(b *testing.B) {
		b.ReportAllocs()
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for i := range (b.N + 63) / 64 {
					must(away.Call(main, i))
				}
			})
		}
		wg.Wait()
	})
	b.Run("64 outstanding", func(b *testing.B) {
		b.ReportAllocs()
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() { must(run.Call(main, (b.N+63)/64)) })
		}
		wg.Wait()
	})
}

// BenchmarkSynchronized measures what rules add to a request: of one resource with one synchronizer, of the five resources of figure 19, and of
// those of figures 19 and 20, each with its own client, on one node; and a meal of five philosophers, which is two requests to pick the
// forks up and two to put them down. "messages" are those of a request, with the request and its reply.
func BenchmarkSynchronized(b *testing.B) {
	rows := []struct {
		name      string
		resources int
		rules     []func([]synchronizer.Member) func(*synchronizer.Synchronizer)
	}{
		{"1 resource, no synchronizer", 1, nil},
		{"1 resource, 1 synchronizer", 1, figures[:1]},
		{"5 resources, no synchronizer", 5, nil},
		{"5 resources, figure 19", 5, figures[:1]},
		{"5 resources, figures 19 and 20", 5, figures},
	}
	for _, row := range rows {
		b.Run(row.name, func(b *testing.B) {
			n := aNode(b)
			rs := spawnResources(b, row.resources, n)
			for i, rules := range row.rules {
				must(n.Synchronize(b.Context(), fmt.Sprint("Sync", i), rules(rs.members())))
			}
			rs.switchAll(b, n, 10)
			before := rpc.Coordinated(n)
			times := (b.N + 2*row.resources - 1) / (2 * row.resources)
			b.ResetTimer()
			rs.switchAll(b, n, times)
			b.ReportMetric(2+float64(rpc.Coordinated(n)-before)/float64(2*row.resources*times), "messages/op")
		})
	}
	b.Run("5 philosophers, a meal", func(b *testing.B) {
		n := aNode(b)
		table := layTable(b, n)
		table.dine(b, 5)
		before := rpc.Coordinated(n)
		meals := (b.N + philosophers - 1) / philosophers
		b.ResetTimer()
		table.dine(b, meals)
		b.ReportMetric(8+float64(rpc.Coordinated(n)-before)/float64(philosophers*meals), "messages/op")
	})
}

var figures = []func([]synchronizer.Member) func(*synchronizer.Synchronizer){oneAtATime, oncePerRound}

// BenchmarkSynchronize measures the start and the stop of a synchronizer with one member.
func BenchmarkSynchronize(b *testing.B) {
	n := aNode(b)
	a := spawn(b, n, "A", func(p *rpc.Process) {
		rpc.Func(p, "m", func(coroutine.Context, none) (none, error) { return none{}, nil })
	})
	b.ReportAllocs()
	for range b.N {
		must(n.Synchronize(context.Background(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", always) }))
		if err := n.Stop("S"); err != nil {
			b.Fatal(err)
		}
	}
}
