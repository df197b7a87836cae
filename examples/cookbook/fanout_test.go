package cookbook

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func Example_fanOutAndWaitForAll() {
	adult := stage.Filter("adult", func(_ context.Context, age int) (bool, error) {
		if age < 18 {
			return false, errors.New("too young")
		}
		return true, nil
	})
	number := stage.Map("number", func(_ context.Context, age int) (string, error) { return fmt.Sprint("member ", age*7), nil })
	bill := stage.Sink("bill", func(context.Context, int) error { return nil })
	mail := stage.Sink("mail", func(_ context.Context, age int) error {
		if age > 100 {
			return errors.New("no address")
		}
		return nil
	})
	p, err := pipeline.New("club", adult.To(number, bill, mail)) // each of them gets the age
	check(err)
	ctx := context.Background()
	check(p.Start(ctx))
	for _, age := range []int{30, 12, 101} {
		ticket, err := adult.Ask(ctx, age)
		check(err)
		fmt.Println(ticket.Wait(ctx)) // for all three: the result of the first, and what failed
	}
	check(p.Stop(ctx))
	// Output:
	// member 210 <nil>
	// <nil> stage "adult": too young
	// member 707 stage "mail": no address
}
