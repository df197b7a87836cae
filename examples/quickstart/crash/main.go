// Crash shows the cost of a panic in a handler: the command that was being
// handled, and nothing else.
//
//	go run ./examples/quickstart/crash
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// quickstart:begin

func main() {
	ctx := context.Background()
	divide := stage.Map("divide", func(_ context.Context, n int) (int, error) {
		return 100 / n, nil // and if n is zero?
	})
	p, err := pipeline.New("crash", divide)
	check(err)
	check(p.Start(ctx))

	_, err = divide.Call(ctx, 0)
	fmt.Println("call:", err)
	if crash, ok := errors.AsType[*stage.CrashError](err); ok {
		fmt.Println("panic:", crash.Value) // crash.Stack says where
	}
	n, err := divide.Call(ctx, 25)
	fmt.Println("next call:", n, err)
	check(p.Stop(ctx))
	fmt.Println("law:", p.Snapshot().Law())
}

// quickstart:end

// check ends the program if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
