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

// entry is an entry of a ledger.
type entry struct {
	Account string
	Cents   int
}

// balance is the instance of an account.
type balance struct{ cents int }

func (b *balance) HandleCommand(_ context.Context, e entry) behaviour.Outcome {
	if b.cents+e.Cents < 0 {
		return behaviour.Error(errors.New("the account is overdrawn"))
	}
	b.cents += e.Cents
	fmt.Println(e.Account, b.cents)
	return behaviour.OK(nil)
}

func Example_aLedgerWhoseFailedEntryWaitsForAPerson() {
	book := stage.Keyed("book", func(e entry) string { return e.Account }, func(string) *balance { return &balance{} },
		stage.ParkOnFailure())
	failed := make(chan struct{}, 1)
	p, err := pipeline.New("ledger", book, pipeline.Failures(func(stage.DeadLetter) { failed <- struct{}{} }))
	check(err)
	ctx := context.Background()
	check(p.Start(ctx))
	for _, cents := range []int{100, -1000, 50} {
		check(book.Submit(ctx, entry{"alice", cents}))
	}
	<-failed

	for _, l := range p.Failures().List(letters.Filter{Parked: true}) {
		fmt.Println(l.Command, l.Err)
		check(p.Failures().RetryAs(ctx, l.ID, entry{"alice", -10})) // a person has corrected it
	}
	check(p.Stop(ctx))
	// Output:
	// alice 100
	// {alice -1000} the account is overdrawn
	// alice 90
	// alice 140
}
