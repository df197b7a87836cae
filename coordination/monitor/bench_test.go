package monitor_test

import (
	"context"
	"sync"
	"testing"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/monitor"
	"github.com/golda-dev/golda/coordination/rpc"
)

// BenchmarkDoWhenFree measures an entry of a monitor on the same node, with its release: by one function at a time, and by
// 64 that contend. "call" is a call of a function without a monitor.
func BenchmarkDoWhenFree(b *testing.B) {
	n := nodeOn(b, nil)
	lock := lockOn(b, n)
	empty := func(coroutine.Context, none) (none, error) { return none{}, nil }
	target := must(n.Spawn(context.Background(), "target", func(p *rpc.Process) error {
		rpc.Func(p, "f", empty)
		return nil
	}))
	inside := monitor.DoWhenFree(lock, func(coroutine.Context, *monitor.Monitor, none) (none, error) { return none{}, nil })
	caller := must(n.Spawn(context.Background(), "caller", func(p *rpc.Process) error {
		repeat := func(f func(coroutine.Context, none) (none, error)) func(coroutine.Context, int) (none, error) {
			return func(c coroutine.Context, times int) (none, error) {
				for range times {
					if _, err := f(c, none{}); err != nil {
						return none{}, err
					}
				}
				return none{}, nil
			}
		}
		rpc.Func(p, "call", repeat(rpc.At[none, none](target, "f").Call))
		rpc.Func(p, "enter", repeat(inside))
		return nil
	}))
	for _, one := range []struct {
		name, method string
		callers      int
	}{{"call", "call", 1}, {"entry", "enter", 1}, {"64 contend", "enter", 64}} {
		b.Run(one.name, func(b *testing.B) {
			b.ReportAllocs()
			var wg sync.WaitGroup
			for range one.callers {
				wg.Go(func() {
					times := (b.N + one.callers - 1) / one.callers
					must(rpc.At[int, none](caller, one.method).Call(coroutine.Blocking(context.Background()), times))
				})
			}
			wg.Wait()
		})
	}
}
