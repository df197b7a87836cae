package stage_test

import (
	"context"
	"fmt"
	"time"

	"github.com/golda-dev/golda/stage"
)

// A deadline travels with a command that no caller waits for.
func ExampleWithDeadline() {
	done := make(chan bool)
	send := stage.Sink("send", func(ctx context.Context, mail string) error {
		deadline, _ := ctx.Deadline()
		fmt.Println(mail, "within", time.Until(deadline).Round(time.Minute))
		done <- true
		return nil
	})
	defer must(send)()

	ctx, cancel := stage.WithDeadline(context.Background(), time.Now().Add(time.Hour))
	defer cancel()
	fmt.Println(send.Submit(ctx, "a letter"))
	<-done
	// Unordered output:
	// <nil>
	// a letter within 1h0m0s
}
