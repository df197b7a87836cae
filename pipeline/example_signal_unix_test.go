//go:build unix

package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// The main function of a program that serves until it gets a signal. Here the signal arrives in the middle of its work: the work
// is finished, and the status is 0.
func ExamplePipeline_RunUntilSignal() {
	var serve *stage.Stage[string]
	serve = stage.Func("serve", func(ctx context.Context, cmd string) behaviour.Outcome {
		if cmd == "first" {
			_ = serve.Submit(ctx, "second")
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Signal(os.Interrupt) // as Ctrl-C does
		}
		fmt.Println(cmd, "is done")
		return behaviour.OK(nil)
	}, stage.Workers(1, 1))
	p, err := pipeline.New("server", serve)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { // a source; it starts when the stage runs
		select {
		case <-p.Started():
			_ = serve.Submit(context.Background(), "first")
		case <-p.Done():
		}
	}()
	status := 0
	if err := p.RunUntilSignal(context.Background()); err != nil {
		status = 1
		if stop, ok := errors.AsType[*pipeline.StopError](err); ok {
			fmt.Fprintln(os.Stderr, stop.Report()) // the handlers that did not stop, with their stacks
		}
	}
	fmt.Println("status", status) // os.Exit(status)
	// Output:
	// first is done
	// second is done
	// status 0
}
