package monitor_test

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/monitor"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/supervisor"
)

// Two processes on different nodes are functions of one monitor (figure 15 of the paper): A has the lock, and sends it to B.
func Example_distributed() {
	ctx := context.Background()
	var hub transport.Hub // between programs, it is transport.Listen
	here, _ := rpc.NewNode(rpc.Config{Transport: hub.Join("here")})
	defer here.Close()
	there, _ := rpc.NewNode(rpc.Config{Transport: hub.Join("there")})
	defer there.Close()
	balance := 100 // an account that both use

	withdraw := func(l monitor.Lock) func(coroutine.Context, int) (int, error) {
		return monitor.DoWhenFree(l, func(c coroutine.Context, _ *monitor.Monitor, amount int) (int, error) {
			before := balance
			if err := coroutine.Yield(c); err != nil { // others run now, but none that is a function of the monitor
				return 0, err
			}
			balance = before - amount
			return balance, nil
		})
	}
	lock, _ := monitor.New(ctx, here, "account")
	_, _ = there.Spawn(ctx, "B", func(p *rpc.Process) error {
		rpc.Func(p, "use", func(_ coroutine.Context, l monitor.Lock) (struct{}, error) {
			rpc.Func(p, "bar", withdraw(l))
			return struct{}{}, nil
		})
		return nil
	})
	a, _ := here.Spawn(ctx, "A", func(p *rpc.Process) error {
		rpc.Func(p, "foo", withdraw(lock))
		return nil
	})

	c := coroutine.Blocking(ctx)
	b := here.Remote("there", "B")
	_, _ = rpc.At[monitor.Lock, struct{}](b, "use").Call(c, lock)
	foo := rpc.At[int, int](a, "foo").Future(ctx, 10)
	bar := rpc.At[int, int](b, "bar").Future(ctx, 20)
	_, err := foo.Wait(c)
	_, err2 := bar.Wait(c)
	fmt.Println(balance, err, err2)
	// Output: 70 <nil> <nil>
}

// A queue whose elements are taken when there are some.
func ExampleDoWhenFree() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	lock, err := monitor.New(ctx, node, "lock")
	if err != nil {
		fmt.Println(err)
		return
	}
	queue, _ := node.Spawn(ctx, "queue", func(p *rpc.Process) error {
		var elements []string
		rpc.Func(p, "get", monitor.DoWhenFree(lock, func(c coroutine.Context, m *monitor.Monitor, _ struct{}) (string, error) {
			for len(elements) == 0 {
				if err := m.Wait(c, "not empty"); err != nil {
					return "", err
				}
			}
			first := elements[0]
			elements = elements[1:]
			return first, nil
		}))
		rpc.Func(p, "put", monitor.DoWhenFree(lock, func(_ coroutine.Context, m *monitor.Monitor, e string) (struct{}, error) {
			elements = append(elements, e)
			m.Signal("not empty")
			return struct{}{}, nil
		}))
		return nil
	})
	get := rpc.At[struct{}, string](queue, "get").Future(ctx, struct{}{})
	c := coroutine.Blocking(ctx)
	_, _ = rpc.At[string, struct{}](queue, "put").Call(c, "hello")
	fmt.Println(get.Wait(c))
	// Output: hello <nil>
}

// A printer that remembers the largest token refuses a page by a function that has lost the lock.
func ExampleMonitor_Token() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	lock, _ := monitor.New(ctx, node, "printer")
	var largest uint64
	printer := func(token uint64, page string) {
		if token < largest {
			fmt.Println("refused")
			return
		}
		largest = token
		fmt.Println(page)
	}
	enter := monitor.DoWhenFree(lock, func(_ coroutine.Context, m *monitor.Monitor, page string) (uint64, error) {
		printer(m.Token(), page)
		return m.Token(), nil
	})
	c := coroutine.Blocking(ctx)
	old, _ := enter(c, "one")
	_, _ = enter(c, "two")
	printer(old, "late")
	// Output:
	// one
	// two
	// refused
}

// A supervisor restarts the process of a lock.
func ExampleChild() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	tree, err := supervisor.Start(ctx, nil, supervisor.Spec{Children: []supervisor.Child{monitor.Child(node, "lock")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tree.Stop()
	lock := monitor.Lock{Address: node.Address("lock")}
	double := monitor.DoWhenFree(lock, func(_ coroutine.Context, _ *monitor.Monitor, v int) (int, error) { return 2 * v, nil })
	fmt.Println(double(coroutine.Blocking(ctx), 21))
	// Output: 42 <nil>
}
