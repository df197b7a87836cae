package stage_test

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// total is the sum of what one account was given. It survives a crash.
type total struct{ sum int }

func (t *total) HandleCommand(_ context.Context, p payment) behaviour.Outcome {
	t.sum += p.amount
	if p.amount < 0 {
		panic("a negative amount") // the sum is wrong by now
	}
	return behaviour.OK(t.sum)
}

func (t *total) Snapshot() any { return t.sum }

func (t *total) Restore(state any) error {
	sum, ok := state.(int)
	if !ok {
		return fmt.Errorf("a state of type %T", state)
	}
	t.sum = sum
	return nil
}

type payment struct {
	account string
	amount  int
}

// The instance that comes after a crash begins with what the commands before have changed.
func ExampleKeyed_snapshots() {
	totals := stage.Keyed("totals", func(p payment) string { return p.account }, func(string) *total { return &total{} })
	defer must(totals)()

	for _, amount := range []int{20, 30, -7, 4} {
		fmt.Println(stage.Call[int](context.Background(), totals, payment{"ann", amount}))
	}
	// Output:
	// 20 <nil>
	// 50 <nil>
	// 0 stage "totals": crash at attempt 1: a negative amount
	// 54 <nil>
}

// With a snapshot after every second command, a crash may undo the command before it, too.
func ExampleSnapshotEvery() {
	sum := stage.Each("sum", func() *total { return &total{} }, stage.Workers(1, 1), stage.SnapshotEvery(2))
	defer must(sum)()

	for _, amount := range []int{1, 2, 3, -7, 4} {
		fmt.Println(stage.Call[int](context.Background(), sum, payment{"ann", amount}))
	}
	// Output:
	// 1 <nil>
	// 3 <nil>
	// 6 <nil>
	// 0 stage "sum": crash at attempt 1: a negative amount
	// 7 <nil>
}

// One instance at a time is kept, and the states of two more.
func ExampleKeepStates() {
	totals := stage.Keyed("totals", func(p payment) string { return p.account }, func(string) *total { return &total{} },
		stage.Passivate(0, 1), stage.KeepStates(2), stage.Workers(1, 1))
	defer must(totals)()

	for _, account := range []string{"ann", "bob", "cem", "ann"} {
		fmt.Println(stage.Call[int](context.Background(), totals, payment{account, 10}))
	}
	fmt.Println(totals.Snapshot().Workers.Keys, totals.Snapshot().Workers.KeptStates)
	// Output:
	// 10 <nil>
	// 10 <nil>
	// 10 <nil>
	// 20 <nil>
	// 1 2
}
