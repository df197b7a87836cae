package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/golda-dev/golda/supervisor"
)

var quiet = slog.New(slog.DiscardHandler)

// Two plain services. One crashes once and is started afresh; the other does not notice.
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
		Name:      "house",
		Strategy:  supervisor.OneForOne,
		Intensity: supervisor.Intensity{Restarts: 3, Within: time.Minute},
		Log:       quiet,
		Children: []supervisor.Child{
			supervisor.ReadyService("pusher", push),
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

// A pool of connections that come and go.
func ExampleTree_Add() {
	ctx := context.Background()
	pool, err := supervisor.Start(ctx, nil, supervisor.Spec{
		Name: "pool", Strategy: supervisor.SimpleOneForOne, Intensity: supervisor.DefaultIntensity, Most: 2, Log: quiet,
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
	fmt.Printf("%+v\n", pool.Count())
	// Output:
	// conn-1 <nil>
	// conn-2 <nil>
	//  pool: "conn-3": supervisor: no room for another child
	// <nil>
	// {Specs:1 Active:1 Supervisors:0 Workers:1}
}

// A supervisor that cannot help tells the whole story: its own, and that of the one below.
func ExampleEscalationError_Story() {
	disk := supervisor.Service("disk", func(context.Context) error { return errors.New("no space left") })
	err := supervisor.Run(context.Background(), supervisor.Spec{
		Name: "house", Log: quiet,
		Children: []supervisor.Child{supervisor.Nested(supervisor.Spec{
			Name: "cellar", Intensity: supervisor.Intensity{Restarts: 1, Within: time.Minute},
			Children: []supervisor.Child{disk},
		})},
	})
	if e, ok := errors.AsType[*supervisor.EscalationError](err); ok {
		for line := range strings.Lines(e.Story()) {
			fmt.Print(timeless(line))
		}
	}
	// Output:
	// supervisor "house" (rest_for_one) gave up on "cellar" after 0 restarts within 0s
	//   1. "cellar" failed: house/cellar: "disk" failed after 1 restarts within 1m0s: no space left; one restart too many
	//      supervisor "house/cellar" (rest_for_one) gave up on "disk" after 1 restarts within 1m0s
	//        1. "disk" failed: no space left; restarted at once
	//        2. "disk" failed: no space left; one restart too many
}

// timeless takes the times out of a line of a story.
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
