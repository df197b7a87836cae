package cookbook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

func Example_lettersThatOutliveTheProcess() {
	dir, err := os.MkdirTemp("", "letters")
	check(err)
	defer os.RemoveAll(dir)
	up := false
	open := func() (*stage.Stage[string], *pipeline.Pipeline) {
		send := stage.Sink("send", func(_ context.Context, mail string) error {
			if !up {
				return errors.New("the mail server is down")
			}
			fmt.Println("sent", mail)
			return nil
		}, stage.Workers(1, 1))
		p, err := pipeline.New("mail", send, pipeline.KeepLetters(letters.Options{Dir: dir}))
		check(err)
		check(p.Start(context.Background()))
		return send.Stage, p
	}
	ctx := context.Background()
	send, p := open()
	check(send.Submit(ctx, "one"))
	check(p.Stop(ctx)) // here the process ends

	up = true
	_, p = open()
	for _, letter := range p.Failures().List(letters.Filter{}) {
		fmt.Println(letter.Stage, strconv.Quote(letter.Command.(string)), letter.Err)
	}
	n, err := p.Failures().RetryAll(ctx, letters.Filter{})
	check(p.Stop(ctx))
	fmt.Println("retried", n, err)
	// Output:
	// send "one" the mail server is down
	// sent one
	// retried 1 <nil>
}
