package cookbook

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

func Example_replayWhatFailed() {
	var up atomic.Bool
	send := stage.Sink("send", func(_ context.Context, mail string) error {
		if !up.Load() {
			return errors.New("the mail server is down")
		}
		fmt.Println("sent", mail)
		return nil
	}, stage.Workers(1, 1))
	failed := make(chan struct{}, 2)
	p, err := pipeline.New("mail", send, pipeline.Failures(func(stage.DeadLetter) { failed <- struct{}{} }))
	check(err)
	ctx := context.Background()
	check(p.Start(ctx))
	check(send.Submit(ctx, "one"))
	check(send.Submit(ctx, "two"))
	<-failed
	<-failed

	for _, g := range p.Failures().Groups() { // by stage and kind of error
		fmt.Println(g.Kept, g.Stage, g.Example.Err)
	}
	up.Store(true)
	n, err := p.Failures().RetryAll(ctx, letters.Filter{Stage: "send"})
	check(p.Stop(ctx))
	fmt.Println("retried", n, err)
	// Output:
	// 2 send the mail server is down
	// sent one
	// sent two
	// retried 2 <nil>
}
