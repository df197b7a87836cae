package synchronizer_test

import (
	"fmt"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/synchronizer"
)

// Two stages share a printer. The synchronizer needs no change of either, and lets one of them print at a time.
func ExampleSynchronizer_AtMost() {
	onePrinter := func(s *synchronizer.Synchronizer) {
		s.AtMost(1,
			synchronizer.Event{Of: member("invoices"), Method: "Print"},
			synchronizer.Event{Of: member("labels"), Method: "Print"},
		)
	}
	_, err := synchronizer.Rules("one printer", onePrinter) // in a program: rpc.Node.Synchronize
	fmt.Println(err)
	// Output: <nil>
}

// What is wrong with the rules is reported before anything has started.
func ExampleSynchronizer_Constrain() {
	_, err := synchronizer.Rules("one printer", func(s *synchronizer.Synchronizer) {
		s.Constrain(member("invoices"), "Print", nil)
		s.Atomic(synchronizer.Event{Of: member("labels"), Method: "Print"})
	})
	fmt.Println(err)
	// Output:
	// synchronizer "one printer": Constrain of "Print" of "invoices": the function is nil
	// synchronizer "one printer": Atomic: it has 1 events and needs 2
}

// The Args of a request that comes from another node are encoded. Args decodes them.
func ExampleArgs() {
	mine := func(r guard.Request) bool { return synchronizer.Args[int](r) == 3 }
	fmt.Println(mine(guard.Request{Args: 3}), mine(guard.Request{Args: 4}))
	// Output: true false
}
