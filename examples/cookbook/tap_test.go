package cookbook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/tap"
	"github.com/golda-dev/golda/stage"
)

type charge struct {
	ID   int
	Card string
}

func Example_seeWhatComesThrough() {
	screen := stage.Map("screen", func(_ context.Context, p charge) (charge, error) { return p, nil })
	bill := stage.Sink("bill", func(_ context.Context, p charge) error {
		if p.ID == 3 {
			return errors.New("the card has expired")
		}
		return nil
	})
	taps := tap.New()
	p, err := pipeline.New("shop", screen.To(bill), pipeline.Middleware(taps.Around), pipeline.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	check(p.Start(context.Background()))

	// While it runs: the first failure of the next ten minutes, without the number of the card.
	watch, err := taps.Watch(context.Background(), p, tap.Options{
		Stages: []string{"bill"},
		After:  func(e tap.Event) bool { return e.Err != nil },
		Show:   func(cmd any) string { return fmt.Sprint("payment ", cmd.(charge).ID) },
		Limit:  1, For: 10 * time.Minute,
	})
	check(err)
	for id := range 5 {
		check(screen.Submit(context.Background(), charge{id, "4111 1111 1111 1111"}))
	}
	for e := range watch.Events() {
		fmt.Println(e.Stage, "of", e.Command, "failed:", e.Err)
	}
	check(p.Stop(context.Background()))
	// Output: bill of payment 3 failed: the card has expired
}
