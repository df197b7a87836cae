// Quickstart is a pipeline in fifteen lines: two stages connected by a wire, a call through both, and a clean stop.
//
//	go run ./examples/quickstart
//
// The program in ./examples/quickstart/crash shows what happens when a handler crashes.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func main() {
	ctx := context.Background()
	words := behaviour.NewPort[[]string]("words")
	split := stage.Func("split", func(_ context.Context, line string) behaviour.Outcome {
		return behaviour.Forward(words, strings.Fields(line))
	}, stage.Out(words))
	count := stage.Func("count", func(_ context.Context, words []string) behaviour.Outcome {
		return behaviour.OK(len(words))
	})

	p, err := pipeline.New("quickstart", split, count, pipeline.Wire(words, count))
	check(err)
	check(p.Start(ctx))
	fmt.Println(stage.Call[int](ctx, split, "four words and out"))
	check(p.Stop(ctx))
}

// check ends the program if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
