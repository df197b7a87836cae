package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// A process has state that only its functions use.
func ExampleFunc() {
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	counter, err := node.Spawn(context.Background(), "counter", func(p *rpc.Process) error {
		n := 0
		rpc.Func(p, "add", func(_ coroutine.Context, by int) (int, error) {
			n += by
			return n, nil
		})
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	add := rpc.At[int, int](counter, "add")
	c := coroutine.Blocking(context.Background())
	fmt.Println(add.Call(c, 3))
	fmt.Println(add.Call(c, 4))
	// Output:
	// 3 <nil>
	// 7 <nil>
}

// Bar is a text, and a function that is called back.
type Bar struct {
	Text string
	Func rpc.Ref[int, int]
}

// A process passes one of its functions to another process, which calls it back (figure 6 of the paper).
func ExampleRef_Call() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	b, _ := node.Spawn(ctx, "B", func(p *rpc.Process) error {
		rpc.Func(p, "bar", func(c coroutine.Context, in Bar) (int, error) {
			fmt.Println(in.Text)
			return in.Func.Call(c, 123) // a call back to A
		})
		return nil
	})
	a, _ := node.Spawn(ctx, "A", func(p *rpc.Process) error {
		sum := rpc.Func(p, "", func(_ coroutine.Context, v int) (int, error) { return v + 1, nil })
		rpc.Func(p, "run", func(c coroutine.Context, _ struct{}) (int, error) {
			return rpc.At[Bar, int](b, "bar").Call(c, Bar{"Hello World", sum})
		})
		return nil
	})
	fmt.Println(rpc.At[struct{}, int](a, "run").Call(coroutine.Blocking(ctx), struct{}{}))
	// Output:
	// Hello World
	// 124 <nil>
}

// A callback runs as a coroutine of the process that has made the call, so it needs no lock.
func ExampleRef_Async() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	square, _ := node.Spawn(ctx, "square", func(p *rpc.Process) error {
		rpc.Func(p, "of", func(_ coroutine.Context, v int) (int, error) { return v * v, nil })
		return nil
	})
	done := make(chan struct{})
	_, _ = node.Spawn(ctx, "sum", func(p *rpc.Process) error {
		sum, left := 0, 3
		for v := 1; v <= 3; v++ {
			rpc.At[int, int](square, "of").Async(p, v, func(_ coroutine.Context, resp int, err error) {
				sum += resp
				if left--; left == 0 {
					fmt.Println(sum, err)
					close(done)
				}
			})
		}
		return nil
	})
	<-done
	// Output: 14 <nil>
}

// Several calls are under way at once.
func ExampleRef_Future() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	slow, _ := node.Spawn(ctx, "slow", func(p *rpc.Process) error {
		rpc.Func(p, "double", func(c coroutine.Context, v int) (int, error) { return 2 * v, coroutine.Sleep(c, time.Millisecond) })
		return nil
	})
	double := rpc.At[int, int](slow, "double")
	one, two := double.Future(ctx, 1), double.Future(ctx, 2)
	c := coroutine.Blocking(ctx)
	fmt.Println(one.Wait(c))
	fmt.Println(two.Wait(c))
	// Output:
	// 2 <nil>
	// 4 <nil>
}

// A guard holds requests back until they can be served.
func ExampleProcess_Guard() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	slot, _ := node.Spawn(ctx, "slot", func(p *rpc.Process) error {
		value, full := "", false
		rpc.Func(p, "put", func(_ coroutine.Context, v string) (struct{}, error) {
			value, full = v, true
			return struct{}{}, nil
		})
		rpc.Func(p, "get", func(coroutine.Context, struct{}) (string, error) {
			full = false
			return value, nil
		})
		p.Guard("put", func(func(string) guard.Counters) bool { return !full })
		p.Guard("get", func(func(string) guard.Counters) bool { return full })
		return nil
	})
	get := rpc.At[struct{}, string](slot, "get").Future(ctx, struct{}{}) // there is nothing yet
	_ = rpc.At[string, struct{}](slot, "put").Send("hello")
	fmt.Println(get.Wait(coroutine.Blocking(ctx)))
	// Output: hello <nil>
}

// A stage of a running pipeline is called like a function.
func ExampleStage() {
	ctx := context.Background()
	double := stage.Map("double", func(_ context.Context, v int) (int, error) { return 2 * v, nil })
	p, err := pipeline.New("numbers", double)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = p.Start(ctx)
	defer func() { _ = p.Stop(ctx) }()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	_, _ = node.Spawn(ctx, "numbers", func(p *rpc.Process) error {
		rpc.Stage[int](p, "double", double.Stage)
		return nil
	})
	fmt.Println(rpc.At[int, int](node.Address("numbers"), "double").Call(coroutine.Blocking(ctx), 21))
	// Output: 42 <nil>
}

// A supervisor restarts a process. Its address stays the same.
func ExampleNode_Child() {
	ctx := context.Background()
	node, _ := rpc.NewNode(rpc.Config{})
	defer node.Close()
	tree, err := supervisor.Start(ctx, nil, supervisor.Spec{Children: []supervisor.Child{
		node.Child("greeter", func(p *rpc.Process) error {
			rpc.Func(p, "greet", func(_ coroutine.Context, name string) (string, error) { return "hello " + name, nil })
			return nil
		}),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tree.Stop()
	greet := rpc.At[string, string](node.Address("greeter"), "greet")
	c := coroutine.Blocking(ctx)
	_ = tree.Terminate("greeter")
	_, err = greet.Call(c, "world")
	fmt.Println(errors.Is(err, rpc.ErrUnreachable))
	_ = tree.Restart(ctx, "greeter")
	fmt.Println(greet.Call(c, "world"))
	// Output:
	// true
	// hello world <nil>
}

// Two nodes of one program, for tests.
func ExampleConfig() {
	var hub transport.Hub
	north, _ := rpc.NewNode(rpc.Config{Transport: hub.Join("north")})
	defer north.Close()
	south, _ := rpc.NewNode(rpc.Config{Transport: hub.Join("south")})
	defer south.Close()
	_, _ = south.Spawn(context.Background(), "echo", func(p *rpc.Process) error {
		rpc.Func(p, "say", func(_ coroutine.Context, text string) (string, error) { return text, nil })
		return nil
	})
	say := rpc.At[string, string](north.Remote("south", "echo"), "say")
	fmt.Println(say.Call(coroutine.Blocking(context.Background()), "hello"))
	// Output: hello <nil>
}

// Figures 19 to 21: at most one lamp is on, and each is turned on once in a round. The two rules know nothing of each other.
func ExampleNode_Synchronize() {
	node, err := rpc.NewNode(rpc.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()
	var lamps []rpc.Address
	for _, name := range []string{"red", "green"} {
		lamp, _ := node.Spawn(ctx, name, func(p *rpc.Process) error {
			rpc.Func(p, "on", func(coroutine.Context, none) (none, error) { fmt.Println(name, "on"); return none{}, nil })
			rpc.Func(p, "off", func(coroutine.Context, none) (none, error) { fmt.Println(name, "off"); return none{}, nil })
			return nil
		})
		lamps = append(lamps, lamp)
	}
	oneOn := func(s *synchronizer.Synchronizer) {
		for _, lamp := range lamps {
			s.Constrain(lamp, "on", func(guard.Request) bool {
				on := 0
				for _, lamp := range lamps {
					on += s.Count(lamp, "on").Accepted - s.Count(lamp, "off").Completed
				}
				return on == 0
			})
		}
	}
	inTurn := func(s *synchronizer.Synchronizer) {
		s.OncePerRound(synchronizer.Event{Of: lamps[0], Method: "on"}, synchronizer.Event{Of: lamps[1], Method: "on"})
	}
	for name, rules := range map[string]func(*synchronizer.Synchronizer){"one on": oneOn, "in turn": inTurn} {
		if _, err := node.Synchronize(ctx, name, rules); err != nil {
			fmt.Println(err)
		}
	}
	c := coroutine.Blocking(ctx)
	_, _ = rpc.At[none, none](lamps[0], "on").Call(c, none{})
	again := rpc.At[none, none](lamps[0], "on").Future(ctx, none{}) // waits: the next is green
	green := rpc.At[none, none](lamps[1], "on").Future(ctx, none{}) // waits: red is on
	_, _ = rpc.At[none, none](lamps[0], "off").Call(c, none{})
	_, _ = green.Wait(c)
	_, _ = rpc.At[none, none](lamps[1], "off").Call(c, none{})
	_, _ = again.Wait(c)
	// Output:
	// red on
	// red off
	// green on
	// green off
	// red on
}

// Figure 21: a process is told, by calls, which resources its synchronizer is to coordinate. The figure calls "init" once; here it may be
// called again, with other resources, while the synchronizer runs.
func ExampleNode_Resynchronize() {
	var hub transport.Hub
	ctx := context.Background()
	syncs, _ := rpc.NewNode(rpc.Config{Transport: hub.Join("syncs")})
	defer syncs.Close()
	main, _ := rpc.NewNode(rpc.Config{Transport: hub.Join("main")})
	defer main.Close()

	oneOn := func(resources []rpc.Address) func(*synchronizer.Synchronizer) {
		return func(s *synchronizer.Synchronizer) {
			var events []synchronizer.Event
			for _, r := range resources {
				events = append(events, synchronizer.Event{Of: syncs.Remote(r.Node(), r.Process()), Method: "use"})
			}
			s.AtMost(1, events...)
		}
	}
	_, _ = syncs.Spawn(ctx, "Sync_A", func(p *rpc.Process) error {
		runs := false
		rpc.Func(p, "init", func(c coroutine.Context, resources []rpc.Address) (none, error) {
			return coroutine.Await(c, func(ctx context.Context) (none, error) {
				if runs {
					return none{}, syncs.Resynchronize(ctx, "one on", oneOn(resources))
				}
				runs = true
				_, err := syncs.Synchronize(ctx, "one on", oneOn(resources))
				return none{}, err
			})
		})
		return nil
	})

	var resources []rpc.Address
	for _, name := range []string{"Res_A", "Res_B"} {
		r, _ := main.Spawn(ctx, name, func(p *rpc.Process) error {
			rpc.Func(p, "use", func(c coroutine.Context, end rpc.Ref[none, none]) (none, error) {
				return end.Call(c, none{})
			})
			return nil
		})
		resources = append(resources, r)
	}
	used, release := make(chan none), make(chan none)
	var end rpc.Ref[none, none]
	_, _ = main.Spawn(ctx, "user", func(p *rpc.Process) error {
		end = rpc.Func(p, "end", func(c coroutine.Context, _ none) (none, error) {
			return coroutine.Await(c, func(context.Context) (none, error) {
				used <- none{}
				return <-release, nil
			})
		})
		return nil
	})

	c := coroutine.Blocking(ctx)
	initA := rpc.At[[]rpc.Address, none](main.Remote("syncs", "Sync_A"), "init")
	_, err := initA.Call(c, resources)
	fmt.Println("both have the rule:", err)
	use := func(r rpc.Address) *rpc.Future[none] {
		return rpc.At[rpc.Ref[none, none], none](r, "use").Future(ctx, end)
	}
	first := use(resources[0])
	<-used
	second := use(resources[1]) // waits
	_, err = initA.Call(c, resources[:1])
	fmt.Println("one has it:", err)
	<-used
	fmt.Println("both are used")
	release <- none{}
	release <- none{}
	_, _ = first.Wait(c)
	_, _ = second.Wait(c)
	// Output:
	// both have the rule: <nil>
	// one has it: <nil>
	// both are used
}

// A process is started at another node, as alua.spawn does in figures 3 and 21. Which processes may be is said there, and how many.
func ExampleSpawnAt() {
	var hub transport.Hub
	ctx := context.Background()
	worker, _ := rpc.NewNode(rpc.Config{Transport: hub.Join("worker")})
	defer worker.Close()
	main, _ := rpc.NewNode(rpc.Config{Transport: hub.Join("main")})
	defer main.Close()

	err := rpc.Factory(ctx, worker, "counter", 10, func(p *rpc.Process, n int) error {
		rpc.Func(p, "add", func(_ coroutine.Context, by int) (int, error) {
			n += by
			return n, nil
		})
		return nil
	})
	fmt.Println(err)

	c := coroutine.Blocking(ctx)
	counter, err := rpc.SpawnAt(c, main, "worker", "counter", "one", 40)
	fmt.Println(counter, err)
	ended := make(chan none)
	counter.Watch(func(error) { close(ended) })
	fmt.Println(rpc.At[int, int](counter, "add").Call(c, 2))
	fmt.Println(rpc.StopAt(c, counter))
	<-ended
	_, err = rpc.SpawnAt(c, main, "worker", "clock", "", 0)
	fmt.Println(err)
	// Output:
	// <nil>
	// worker#counter/one <nil>
	// 42 <nil>
	// <nil>
	// rpc: no such function: node "worker" has no factory "clock"
}

// Figure 11: two forks are picked up together or not at all.
func ExampleNode_Synchronize_bothOrNone() {
	node, err := rpc.NewNode(rpc.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()
	var forks []rpc.Address
	for _, name := range []string{"left", "right"} {
		fork, _ := node.Spawn(ctx, name, func(p *rpc.Process) error {
			rpc.Func(p, "pickup", func(_ coroutine.Context, philosopher int) (int, error) { return philosopher, nil })
			return nil
		})
		forks = append(forks, fork)
	}
	_, err = node.Synchronize(ctx, "philosopher 1", func(s *synchronizer.Synchronizer) {
		mine := func(r guard.Request) bool { return synchronizer.Args[int](r) == 1 }
		s.Atomic(synchronizer.Event{Of: forks[0], Method: "pickup", If: mine}, synchronizer.Event{Of: forks[1], Method: "pickup", If: mine})
	})
	if err != nil {
		fmt.Println(err)
	}
	left := rpc.At[int, int](forks[0], "pickup").Future(ctx, 1)
	fmt.Println("with one request:", left.Done())
	_, _ = rpc.At[int, int](forks[1], "pickup").Call(coroutine.Blocking(ctx), 1)
	_, _ = left.Wait(coroutine.Blocking(ctx))
	fmt.Println("with both:", left.Done())
	// Output:
	// with one request: false
	// with both: true
}
