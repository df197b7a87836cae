package cookbook

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// purchase is what a customer buys.
type purchase struct {
	id    int
	title string
}

func Example_answerNowAndGoOn() {
	ship := stage.Sink("ship", func(_ context.Context, o purchase) error { // slow
		if o.title == "" {
			return errors.New("nothing to send")
		}
		return nil
	})
	buy := stage.Func("buy", func(_ context.Context, o purchase) behaviour.Outcome {
		if o.id == 0 {
			return behaviour.Error(errors.New("no number")) // the caller hears of it
		}
		return behaviour.Forward(ship, o).WithReply(fmt.Sprint("receipt ", o.id))
	}, stage.Out(ship))
	p, err := pipeline.New("shop", buy, ship)
	check(err)
	ctx := context.Background()
	check(p.Start(ctx))
	for _, o := range []purchase{{1, "a book"}, {2, ""}, {0, "a pen"}} {
		fmt.Println(stage.Call[string](ctx, buy, o))
	}
	check(p.Stop(ctx)) // waits for what is still to be shipped
	for _, l := range p.Failures().List(letters.Filter{}) {
		fmt.Println("letter:", l.Stage, l.Command, l.Err)
	}
	// Output:
	// receipt 1 <nil>
	// receipt 2 <nil>
	//  stage "buy": no number
	// letter: ship {2 } nothing to send
}
