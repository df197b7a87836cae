package rpc_test

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
)

// fixedSizeBuffer is the class of figure 8: its guards are written apart from its methods, and read their counters.
func fixedSizeBuffer(size int) func(p *rpc.Process) error {
	return func(p *rpc.Process) error {
		var buffer []int
		rpc.Func(p, "put", func(_ coroutine.Context, e int) (none, error) {
			buffer = append(buffer, e)
			return none{}, nil
		})
		rpc.Func(p, "get", func(coroutine.Context, none) (int, error) {
			e := buffer[0]
			buffer = buffer[1:]
			return e, nil
		})
		p.Guard("put", func(count func(string) guard.Counters) bool {
			return count("put").Completed-count("get").Completed < size && count("put").Current == 0
		})
		p.Guard("get", func(count func(string) guard.Counters) bool {
			return count("get").Completed < count("put").Completed && count("get").Current == 0
		})
		rpc.Func(p, "counters", func(_ coroutine.Context, of string) (guard.Counters, error) { return p.Count(of), nil })
		return nil
	}
}

// Figure 8: of three puts into a buffer of two places the third waits for a get.
func Example_figure8() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	buffer, _ := node.Spawn(ctx, "buffer", fixedSizeBuffer(2))
	put, get := rpc.At[int, none](buffer, "put"), rpc.At[none, int](buffer, "get")
	c := coroutine.Blocking(ctx)
	show := func() {
		n, _ := rpc.At[string, guard.Counters](buffer, "counters").Call(c, "put")
		fmt.Printf("put: %d invoked, %d accepted, %d completed, %d pending\n", n.Invocations, n.Accepted, n.Completed, n.Pending)
	}
	var puts []*rpc.Future[none]
	for i := 1; i <= 3; i++ {
		puts = append(puts, put.Future(ctx, i))
	}
	show()
	fmt.Println(get.Call(c, none{}))
	_, _ = puts[2].Wait(c)
	show()
	// Output:
	// put: 3 invoked, 2 accepted, 2 completed, 1 pending
	// 1 <nil>
	// put: 3 invoked, 3 accepted, 3 completed, 0 pending
}

// Figure 10: Foo and Bar share a resource. A trigger notes that it is activated, and on is disabled meanwhile. A trigger for off runs when off
// has done its work, and not when it begins.
func Example_figure10() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	member := func(name string) rpc.Address {
		a, _ := node.Spawn(ctx, name, func(p *rpc.Process) error {
			rpc.Func(p, "on", func(coroutine.Context, none) (none, error) { return none{}, nil })
			rpc.Func(p, "off", func(coroutine.Context, none) (none, error) { return none{}, nil })
			return nil
		})
		return a
	}
	foo, bar := member("Foo"), member("Bar")
	_, err := node.Synchronize(ctx, "sharedResource", func(s *synchronizer.Synchronizer) {
		activated := false
		for _, m := range []rpc.Address{foo, bar} {
			s.Trigger(m, "on", synchronizer.Accepted, func(guard.Request) { activated = true })
			s.Trigger(m, "off", synchronizer.Completed, func(guard.Request) { activated = false })
			s.Constrain(m, "on", func(guard.Request) bool { return !activated })
		}
	})
	c := coroutine.Blocking(ctx)
	call := func(m rpc.Address, method string) {
		_, err := rpc.At[none, none](m, method).Call(c, none{})
		fmt.Println(m.Process(), method, err)
	}
	fmt.Println(err)
	call(foo, "on")
	waits := rpc.At[none, none](bar, "on").Future(ctx, none{})
	call(foo, "off")
	_, err = waits.Wait(c)
	fmt.Println("Bar on", err)
	// Output:
	// <nil>
	// Foo on <nil>
	// Foo off <nil>
	// Bar on <nil>
}

// callSync is sync of figure 16: an asynchronous call whose callback resumes the caller, which is suspended meanwhile.
func callSync[Req, Resp any](c coroutine.Context, p *rpc.Process, f rpc.Ref[Req, Resp], v Req) (resp Resp, err error) {
	stopped := c.Suspend(func(wake func()) {
		f.Async(p, v, func(_ coroutine.Context, r Resp, e error) {
			resp, err = r, e
			wake()
		})
	})
	if stopped != nil {
		return resp, stopped
	}
	return resp, err
}

// Figure 16: a synchronous call is an asynchronous one and a suspension. The queue of the figure is that of each process. While A waits, it
// serves other requests. Ref.Call does the same.
func Example_figure16() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	asked, answer := make(chan none), make(chan none)
	b, _ := node.Spawn(ctx, "B", func(p *rpc.Process) error {
		rpc.Func(p, "double", func(c coroutine.Context, v int) (int, error) {
			return coroutine.Await(c, func(context.Context) (int, error) {
				asked <- none{}
				<-answer
				return 2 * v, nil
			})
		})
		return nil
	})
	a, _ := node.Spawn(ctx, "A", func(p *rpc.Process) error {
		rpc.Func(p, "run", func(c coroutine.Context, v int) (int, error) {
			return callSync(c, p, rpc.At[int, int](b, "double"), v)
		})
		rpc.Func(p, "ping", func(coroutine.Context, none) (string, error) { return "A serves", nil })
		return nil
	})
	c := coroutine.Blocking(ctx)
	run := rpc.At[int, int](a, "run").Future(ctx, 21)
	<-asked
	fmt.Println(rpc.At[none, string](a, "ping").Call(c, none{}))
	answer <- none{}
	fmt.Println(run.Wait(c))
	// Output:
	// A serves <nil>
	// 42 <nil>
}

// Figure 18: a producer and a consumer, which need no synchronization of their own: the buffer has it.
func Example_figure18() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	buffer, _ := node.Spawn(ctx, "Buffer", fixedSizeBuffer(1))
	producer, _ := node.Spawn(ctx, "producer", func(p *rpc.Process) error {
		put := rpc.At[int, none](buffer, "put")
		rpc.Func(p, "run", func(c coroutine.Context, times int) (none, error) {
			for count := 1; count <= times; count++ {
				if _, err := put.Call(c, count); err != nil {
					return none{}, err
				}
			}
			return none{}, nil
		})
		return nil
	})
	consumer, _ := node.Spawn(ctx, "consumer", func(p *rpc.Process) error {
		get := rpc.At[none, int](buffer, "get")
		rpc.Func(p, "run", func(c coroutine.Context, times int) (none, error) {
			for range times {
				value, err := get.Call(c, none{})
				if err != nil {
					return none{}, err
				}
				fmt.Println(value)
			}
			return none{}, nil
		})
		return nil
	})
	c := coroutine.Blocking(ctx)
	consumed := rpc.At[int, none](consumer, "run").Future(ctx, 4)
	produced := rpc.At[int, none](producer, "run").Future(ctx, 4)
	_, err := produced.Wait(c)
	_, err2 := consumed.Wait(c)
	fmt.Println(err, err2)
	// Output:
	// 1
	// 2
	// 3
	// 4
	// <nil> <nil>
}
