package rpc_test

import (
	"context"
	"sync"
	"testing"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
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
