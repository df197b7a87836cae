package tap_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/tap"
	"github.com/golda-dev/golda/stage"
)

type order struct {
	ID   int
	Card string
}

// See which orders fail, without the numbers of the cards.
func Example() {
	bill := stage.Sink("bill", func(_ context.Context, o order) error {
		if o.ID == 3 {
			return errors.New("the card has expired")
		}
		return nil
	})
	taps := tap.New()
	p, err := pipeline.New("shop", bill, pipeline.Middleware(taps.Around))
	if err != nil {
		panic(err)
	}
	if err := p.Start(context.Background()); err != nil {
		panic(err)
	}
	watch, err := taps.Watch(context.Background(), p, tap.Options{
		Stages: []string{"bill"},
		Show:   func(cmd any) string { return fmt.Sprint("order ", cmd.(order).ID) },
		After:  func(e tap.Event) bool { return e.Err != nil },
		Limit:  1,
	})
	if err != nil {
		panic(err)
	}
	for id := range 5 {
		if err := bill.Submit(context.Background(), order{id, "4111 1111 1111 1111"}); err != nil {
			panic(err)
		}
	}
	for e := range watch.Events() {
		fmt.Println(e.Stage, e.Command, e.Err)
	}
	if err := p.Stop(context.Background()); err != nil {
		panic(err)
	}
	// Output: bill order 3 the card has expired
}
