package monitor_test

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/monitor"
	"github.com/golda-dev/golda/coordination/rpc"
)

// visits counts how many functions are inside at once.
type visits struct{ inside, most int }

func (v *visits) stay(c coroutine.Context) error {
	v.inside++
	v.most = max(v.most, v.inside)
	defer func() { v.inside-- }()
	return coroutine.Yield(c) // others of the process run now
}

// callEach calls foo and bar of a process five times each, at once.
func callEach(ctx context.Context, of rpc.Address) (err error) {
	var calls []*rpc.Future[struct{}]
	for range 5 {
		for _, f := range []string{"foo", "bar"} {
			calls = append(calls, rpc.At[struct{}, struct{}](of, f).Future(ctx, struct{}{}))
		}
	}
	for _, f := range calls {
		if _, failed := f.Wait(coroutine.Blocking(ctx)); failed != nil {
			err = failed
		}
	}
	return err
}

// Figures 12 and 13, written with what they use: a lock is a process with take and release, take suspends, and release hands the lock over to the
// function that has waited longest. A function that fails releases it, too, which in the figure it does not. Use New and DoWhenFree: they
// notice a holder that dies and a caller that gives up, and give each visit a token.
func Example_figures12And13() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	lock, _ := node.Spawn(ctx, "lock", func(p *rpc.Process) error {
		busy := false
		var waiting []func()
		rpc.Func(p, "take", func(c coroutine.Context, _ struct{}) (none struct{}, err error) {
			if busy {
				return none, c.Suspend(func(wake func()) { waiting = append(waiting, wake) }) // the lock stays busy
			}
			busy = true
			return none, nil
		})
		rpc.Func(p, "release", func(coroutine.Context, struct{}) (none struct{}, err error) {
			if len(waiting) == 0 {
				busy = false
				return none, nil
			}
			next := waiting[0]
			waiting = waiting[1:]
			next()
			return none, nil
		})
		return nil
	})
	take, release := rpc.At[struct{}, struct{}](lock, "take"), rpc.At[struct{}, struct{}](lock, "release")
	doWhenFree := func(f func(coroutine.Context) error) func(coroutine.Context, struct{}) (struct{}, error) {
		return func(c coroutine.Context, none struct{}) (struct{}, error) {
			if _, err := take.Call(c, none); err != nil {
				return none, err
			}
			defer func() { _ = release.Send(none) }()
			return none, f(c)
		}
	}
	var v visits
	a, _ := node.Spawn(ctx, "A", func(p *rpc.Process) error {
		rpc.Func(p, "foo", doWhenFree(v.stay))
		rpc.Func(p, "bar", doWhenFree(v.stay))
		return nil
	})
	err := callEach(ctx, a)
	fmt.Println(v.most, "inside at most", err)
	// Output: 1 inside at most <nil>
}

// Figure 14: one lock makes a monitor of two functions.
func Example_figure14() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	lock, _ := monitor.New(ctx, node, "lock")
	var v visits
	a, _ := node.Spawn(ctx, "A", func(p *rpc.Process) error {
		for _, name := range []string{"foo", "bar"} {
			rpc.Func(p, name, monitor.DoWhenFree(lock, func(c coroutine.Context, _ *monitor.Monitor, none struct{}) (struct{}, error) {
				return none, v.stay(c)
			}))
		}
		return nil
	})
	err := callEach(ctx, a)
	fmt.Println(v.most, "inside at most", err)
	// Output: 1 inside at most <nil>
}
