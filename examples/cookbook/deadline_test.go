package cookbook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

func Example_dropWhatIsTooLate() {
	sign := stage.Map("sign", func(_ context.Context, code string) (string, error) { return code, nil })
	send := stage.Sink("send", func(ctx context.Context, code string) error {
		until, _ := ctx.Deadline() // so a request with ctx, or a message of nats.Publish, has it as well
		fmt.Println("sent", code, "in time:", time.Now().Before(until))
		return nil
	})
	p, err := pipeline.New("recipe", sign.To(send), send)
	check(err)
	ctx := context.Background()
	check(p.Start(ctx))
	check(p.Pause(send)) // it cannot keep up

	submit := func(code string, within time.Duration) {
		ctx, cancel := stage.WithDeadline(ctx, time.Now().Add(within))
		defer cancel() // the command keeps its deadline
		check(sign.Submit(ctx, code))
	}
	submit("a login code", 500*time.Millisecond)
	submit("an invoice", 24*time.Hour)

	for p.DeadLetters().Len() == 0 { // pipeline.OnDeadLetter calls a function
		time.Sleep(time.Millisecond)
	}
	letter := p.DeadLetters().List(letters.Filter{})[0]
	fmt.Println(letter.Reason, errors.Is(letter.Err, stage.ErrExpired), letter.Command)
	check(p.Resume(send))
	check(p.Stop(ctx))
	// Output:
	// expired true a login code
	// sent an invoice in time: true
}
