package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/flight"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// flaky is a behaviour that crashes until it has been started anew.
type flaky struct{ starts int }

func (f *flaky) Start(context.Context) error { f.starts++; return nil }

func (f *flaky) HandleCommand(context.Context, string) behaviour.Outcome {
	if f.starts < 2 {
		panic("the connection is lost")
	}
	return behaviour.OK(nil)
}

// A pipeline with an Intensity restarts a stage that failed, at most so many times within a period, and with Supervise also
// other stages. Here the stage fails at its second crash in a row.
func ExampleIntensity() {
	load := stage.New("load", &flaky{}, stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: -1}))
	p, err := pipeline.New("loading", load, pipeline.Feed("rows", load, source.Slice([]string{"a", "b", "c", "d"})),
		pipeline.Intensity(3, time.Minute),
		pipeline.Supervise(supervisor.OneForOne),
		pipeline.Backoff(supervisor.Backoff{First: time.Millisecond, Max: time.Second}),
		pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = p.Run(context.Background())
	fmt.Println(err, p.Ending(), p.Snapshot().Replied, "done")
	// Output: <nil> exhausted 2 done
}

// If the stage hangs for a minute, or if of a hundred commands more than one take longer than a second, a file shows what the
// process has done before. Here nothing is wrong.
func ExampleFlight() {
	dir, err := os.MkdirTemp("", "traces")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ship := stage.Sink("ship", func(context.Context, string) error { return nil })
	p, err := pipeline.New("shop", ship, pipeline.Feed("orders", ship, source.Slice([]string{"a book", "a pen"})),
		pipeline.Flight(flight.Options{Dir: dir, Files: 3, Within: map[string]time.Duration{"ship": time.Second}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = p.Run(context.Background())
	traces, _ := os.ReadDir(dir)
	fmt.Println(err, len(traces), "traces")
	// Output: <nil> 0 traces
}

// A function is called with each command that failed and has no waiting caller. The commands are kept, here up to ten of them.
func ExampleFailures() {
	send := stage.Sink("send", func(_ context.Context, mail string) error {
		if mail == "to the moon" {
			return errors.New("no such address")
		}
		return nil
	})
	p, err := pipeline.New("mail", send, pipeline.Feed("outbox", send, source.Slice([]string{"to ann", "to the moon"})),
		pipeline.KeepLetters(letters.Options{Most: 10, Bytes: 1 << 20}),
		pipeline.ShowCommands(), // for the log
		pipeline.Failures(func(l stage.DeadLetter) { fmt.Println(l.Stage, l.Command, l.Err) }))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Run(context.Background()), p.Failures().Len())
	// Output:
	// send to the moon no such address
	// <nil> 1
}

// A group with a controller of its own, which keeps its workers as they are, and the process that is meant to run it.
func ExampleControlFor() {
	ocr := stage.Map("ocr", func(_ context.Context, page string) (string, error) { return "text of " + page, nil })
	store := stage.Sink("store", func(context.Context, string) error { return nil })
	p, err := pipeline.New("scans",
		pipeline.Group("heavy", 2, 2, ocr), ocr.To(store),
		pipeline.ControlFor("heavy", policy.Fixed{}), pipeline.Assign("big-machine", "heavy"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Assignments())
	// Output: map[heavy:big-machine]
}

// How long a run may drain when it is asked to end, and how long handlers may then take until their workers are abandoned.
func ExampleDrainTimeout() {
	ctx, cancel := context.WithCancel(context.Background())
	wait := stage.Sink("wait", func(ctx context.Context, _ string) error {
		cancel() // as a signal does
		<-ctx.Done()
		return context.Cause(ctx)
	})
	p, err := pipeline.New("draining", wait, pipeline.Feed("jobs", wait, source.Slice([]string{"one that never ends"})),
		pipeline.DrainTimeout(20*time.Millisecond), pipeline.Grace(time.Second),
		pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = p.Run(ctx)
	fmt.Println("not all was done:", errors.As(err, new(*pipeline.DrainError)))
	// Output: not all was done: true
}

// Each page links to two more. The bound keeps those that are found from filling the memory.
func ExampleMaxInFlight() {
	ctx, cancel := context.WithCancel(context.Background())
	links := behaviour.NewPort[int]("links")
	crawl := stage.Func("crawl", func(handling context.Context, page int) behaviour.Outcome {
		for next := 2 * page; next <= 2*page+1 && ctx.Err() == nil; next++ {
			err := behaviour.Emit(handling, links, next)
			if errors.Is(err, stage.ErrMaxInFlight) {
				cancel() // it is enough
			}
		}
		return behaviour.OK(nil)
	}, stage.Workers(1, 1), stage.Out(links), stage.Capacity(10))
	p, err := pipeline.New("crawler", crawl, pipeline.Wire(links, crawl), pipeline.MaxInFlight(1000),
		pipeline.Feed("home page", crawl, source.Slice([]int{1})), pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = p.Run(ctx)
	fmt.Println(err, p.Snapshot().Accepted > 1000)
	// Output: <nil> true
}

// The stages of a pipeline in an existing protoactor system are actors of that system.
func ExampleSystem() {
	double := stage.Map("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	p, err := pipeline.New("doubling", double, pipeline.System(system())) // an *actor.ActorSystem of protoactor-go
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	fmt.Println(double.Call(ctx, 21))
	_ = p.Stop(ctx)
	// Output: 42 <nil>
}
