package route_test

import (
	"fmt"
	"strings"

	"github.com/golda-dev/golda/stage/route"
)

func ExampleRoundRobin() {
	pick := route.RoundRobin[string]()
	fmt.Println(pick("a", 3), pick("b", 3), pick("c", 3), pick("d", 3))
	// Output: 0 1 2 0
}

func ExampleByKey() {
	pick := route.ByKey(strings.ToLower)
	fmt.Println(pick("ann", 3) == pick("Ann", 3))
	// Output: true
}
