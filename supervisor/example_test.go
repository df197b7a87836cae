package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/golda-dev/golda/supervisor"
)

var quiet = slog.New(slog.DiscardHandler)

// Two plain services. One crashes once and is restarted; the other is not affected.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	tries := 0
	poll := func(context.Context) error {
		if tries++; tries == 1 {
			panic("no connection")
		}
		fmt.Println("polling, at the second try")
		cancel()
		return nil
	}
	push := func(ctx context.Context, ready func()) error {
		fmt.Println("ready to push")
		ready()
		<-ctx.Done()
		fmt.Println("pushed the last")
		return nil
	}
	err := supervisor.Run(ctx, supervisor.Spec{
		Name:      "building",
		Strategy:  supervisor.OneForOne,
		Intensity: supervisor.Intensity{Restarts: 3, Within: time.Minute},
		Log:       quiet,
		Children: []supervisor.Child{
			{Name: "pusher", Serve: push},
			{Name: "poller", Run: poll, Restart: supervisor.Transient},
		},
	})
	fmt.Println("error:", err)
	// Output:
	// ready to push
	// polling, at the second try
	// pushed the last
	// error: <nil>
}

// A pool of connections that are added and removed.
func ExampleTree_Add() {
	ctx := context.Background()
	pool, err := supervisor.Start(ctx, nil, supervisor.Spec{
		Name: "pool", Strategy: supervisor.SimpleOneForOne, Intensity: supervisor.Intensity{Restarts: 1, Within: 5 * time.Second}, Most: 2, Log: quiet,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Stop()
	serve := func(ctx context.Context, ready func()) error {
		ready() // connected
		<-ctx.Done()
		return nil
	}
	conn := supervisor.Child{Name: "conn", Serve: serve, Restart: supervisor.Transient}
	for range 3 {
		id, err := pool.Add(ctx, conn)
		fmt.Println(id, err)
	}
	fmt.Println(pool.Terminate("conn-1"))
	fmt.Println(len(pool.Children()))
	// Output:
	// conn-1 <nil>
	// conn-2 <nil>
	//  pool: "conn-3": supervisor: too many children; see Spec.Most
	// <nil>
	// 1
}

// The right directive depends on the error: after a lost connection a restart may help, if a pause comes first; after a
// full disk it cannot.
func ExampleSpec_decide() {
	errLost, errFull := errors.New("connection lost"), errors.New("disk full")
	tries := 0
	err := supervisor.Run(context.Background(), supervisor.Spec{
		Name:      "building",
		Intensity: supervisor.Intensity{Restarts: 100, Within: time.Minute},
		Backoff:   supervisor.Backoff{First: time.Millisecond, Max: time.Second, Jitter: 0.5},
		Decide: func(_ string, reason error) supervisor.Directive {
			if errors.Is(reason, errFull) {
				return supervisor.DoEscalate
			}
			return supervisor.AsDeclared
		},
		Log: quiet,
		Children: []supervisor.Child{supervisor.Service("copy", func(context.Context) error {
			if tries++; tries < 3 {
				return errLost
			}
			return errFull
		})},
	})
	fmt.Println(err)
	// Output: building: "copy" failed after 2 restarts within 1m0s: disk full
}

// counter is an actor that ends by itself.
type counter struct{ left int }

func (c *counter) Receive(ctx supervisor.Context) {
	if _, ok := ctx.Message().(string); !ok {
		return // lifecycle messages, such as *actor.Started
	}
	if c.left--; c.left == 0 {
		supervisor.Fail(ctx, supervisor.ErrNormal)
	}
}

// A protoactor actor as a child. It has finished its work after two messages.
func ExampleSpawnActor() {
	ended := supervisor.Child{
		Name: "counter", Restart: supervisor.Transient, Significant: true,
		Spawn: func(by supervisor.Spawner, name string, ready func(error)) (*supervisor.PID, error) {
			pid, err := supervisor.SpawnActor(by, name, func() supervisor.Actor { return &counter{left: 2} })
			ready(err)
			return pid, err
		},
	}
	tree, err := supervisor.Start(context.Background(), system, supervisor.Spec{
		AutoShutdown: supervisor.AnySignificant, Log: quiet, Children: []supervisor.Child{ended},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pid := tree.Children()[0].PID
	system.Root.Send(pid, "one")
	system.Root.Send(pid, "two")
	fmt.Println(tree.Wait())
	// Output: <nil>
}

// A snapshot of a tree, as text.
func ExampleTree_Info() {
	idle := func(ctx context.Context) error { <-ctx.Done(); return nil }
	tree, err := supervisor.Start(context.Background(), nil, supervisor.Spec{
		Name: "building", Intensity: supervisor.Intensity{Restarts: 1, Within: 5 * time.Second}, Log: quiet,
		Children: []supervisor.Child{
			supervisor.Service("door", idle),
			{Name: "cellar", Supervisor: &supervisor.Spec{
				Strategy: supervisor.OneForOne, Children: []supervisor.Child{supervisor.Service("heating", idle)},
			}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = tree.Terminate("door")
	text := tree.Info().String()
	fmt.Print(regexp.MustCompile(" for [0-9][^ \n]*").ReplaceAllString(text, "")) // remove the durations
	tree.Stop()
	// Output:
	// building (rest_for_one, 0 of 1 restarts in 5s)
	// ├── door: down
	// └── cellar: running (one_for_one, no restarts)
	//     └── heating: running
}

// A supervisor that gives up returns its whole story, including that of the nested supervisor.
func ExampleEscalationError_Story() {
	disk := supervisor.Service("disk", func(context.Context) error { return errors.New("no space left") })
	err := supervisor.Run(context.Background(), supervisor.Spec{
		Name: "building", Log: quiet,
		Children: []supervisor.Child{{Name: "cellar", Supervisor: &supervisor.Spec{
			Intensity: supervisor.Intensity{Restarts: 1, Within: time.Minute},
			Children:  []supervisor.Child{disk},
		}}},
	})
	if e, ok := errors.AsType[*supervisor.EscalationError](err); ok {
		for line := range strings.Lines(e.Story()) {
			fmt.Print(timeless(line))
		}
	}
	// Output:
	// supervisor "building" (rest_for_one) gave up on "cellar" after 0 restarts within 0s
	//   1. "cellar" failed: building/cellar: "disk" failed after 1 restarts within 1m0s: no space left; one restart too many
	//      supervisor "building/cellar" (rest_for_one) gave up on "disk" after 1 restarts within 1m0s
	//        1. "disk" failed: no space left; restarted at once
	//        2. "disk" failed: no space left; one restart too many
}

// timeless removes the times from a line of a story.
func timeless(line string) string {
	for _, cut := range [][2]string{{" +", ` "`}, {" failed after ", ": "}} {
		head, tail, ok := strings.Cut(line, cut[0])
		if !ok {
			continue
		}
		if _, rest, ok := strings.Cut(tail, cut[1]); ok && !strings.HasPrefix(tail, "1 restarts") && !strings.HasPrefix(tail, "0 restarts") {
			line = head + map[string]string{" +": ` "`, " failed after ": " failed: "}[cut[0]] + rest
		}
	}
	return line
}
