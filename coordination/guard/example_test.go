package guard_test

import (
	"fmt"

	"github.com/golda-dev/golda/coordination/guard"
)

// A buffer of two places, by the counters of its methods.
func ExampleGuard() {
	const size = 2
	var put guard.Guard = func(count func(string) guard.Counters) bool {
		return count("put").Completed-count("get").Completed < size && count("put").Current == 0
	}
	counters := map[string]guard.Counters{"put": {Invocations: 3, Accepted: 2, Completed: 2, Pending: 1}}
	fmt.Println(put(func(method string) guard.Counters { return counters[method] }))
	counters["get"] = guard.Counters{Invocations: 1, Accepted: 1, Completed: 1}
	fmt.Println(put(func(method string) guard.Counters { return counters[method] }))
	// Output:
	// false
	// true
}

// Only the owner of a lock may give it back.
func ExampleRequestGuard() {
	holder := 7
	var release guard.RequestGuard = func(r guard.Request, _ func(string) guard.Counters) bool { return r.Args == holder }
	fmt.Println(release(guard.Request{Method: "release", Args: 7}, nil), release(guard.Request{Method: "release", Args: 8}, nil))
	// Output: true false
}

// A door that is open or closed has one method enabled in each state.
func ExampleEnabledSet() {
	state := "closed"
	enabled := map[string][]string{"closed": {"open"}, "open": {"close", "enter"}}
	enter := guard.EnabledSet("enter", func() []string { return enabled[state] })
	fmt.Println(enter(nil))
	state = "open"
	fmt.Println(enter(nil))
	// Output:
	// false
	// true
}
