//go:build unix

package cookbook

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func Example_deployWithoutLosingWork() {
	var kept int64 // in a file or a database
	save := func(_ context.Context, position int64) error { kept = position; return nil }

	work := stage.Sink("work", func(_ context.Context, job int64) error {
		if job == 2 {
			return syscall.Kill(os.Getpid(), syscall.SIGTERM) // the deployment replaces this process
		}
		return nil
	})
	jobs := func(ctx context.Context, submit func(int64) error) error {
		for { // a queue that can be read from a position
			if err := submit(source.Position(ctx)); err != nil {
				return err // the pipeline stops
			}
		}
	}
	p, err := pipeline.New("worker", pipeline.Feed("jobs", work, source.Checkpoint(jobs, kept, save)))
	check(err)
	err = p.RunUntilSignal(context.Background()) // drains when the signal comes
	fmt.Println(err, p.Ending())

	s := p.Snapshot()
	fmt.Println("all accepted jobs are done:", s.Accepted == s.Replied)
	fmt.Println("the next process begins behind them:", kept == int64(s.Accepted))
	// Output:
	// <nil> interrupted
	// all accepted jobs are done: true
	// the next process begins behind them: true
}
