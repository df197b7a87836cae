package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A stage is drained while the others run, for example to replace the file that it writes to. The stages before it keep their commands
// for it until it is reopened.
func ExamplePipeline_Drain() {
	save := stage.Func("save", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	parse := stage.Func("parse", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(save, n) })
	p, err := pipeline.New("shop", parse, save)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	fmt.Println("drained:", p.Drain(ctx, save))
	fmt.Println("from outside:", save.Submit(ctx, 1))
	ticket, err := parse.Ask(ctx, 2)
	fmt.Println("to a stage before it:", err)
	fmt.Println("nothing came:", p.Snapshot().Stages[1].Drained)
	_ = p.Reopen(save)
	fmt.Println(ticket.Wait(ctx))
	_ = p.Stop(ctx)
	// Output:
	// drained: <nil>
	// from outside: stage "save": closed: draining
	// to a stage before it: <nil>
	// nothing came: true
	// 2 <nil>
}

// A drain that does not end in time reports which handlers hold it up, and where.
func ExampleDrainError() {
	let := make(chan struct{})
	slow := stage.Func("slow", func(context.Context, string) behaviour.Outcome {
		<-let
		return behaviour.OK(nil)
	}, stage.Workers(1, 1))
	p, err := pipeline.New("shop", slow)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = p.Start(context.Background())
	for _, cmd := range []string{"a", "b", "c"} {
		_ = slow.Submit(context.Background(), cmd)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	report, _ := errors.AsType[*pipeline.DrainError](p.Drain(ctx))
	for _, at := range report.Where {
		fmt.Println(at.Name, "queued:", at.Queue.Queued, "in hand:", at.Queue.InHand, "paused:", at.Paused)
		for _, h := range at.Handlers { // h.Stack is the goroutine's
			call, line, _ := strings.Cut(h.At, " ")
			fmt.Println("a handler of a", h.Command, "is in", call, line != "")
		}
	}
	close(let)
	_ = p.Stop(context.Background())
	// Output:
	// slow queued: 2 in hand: 1 paused: false
	// a handler of a string is in pipeline_test.ExampleDrainError.func1 true
}
