// Quickstart is a pipeline of one's own in fifteen lines: two stages joined by a
// wire, a call through both, and a clean stop.
//
//	go run ./examples/quickstart
//
// What happens when a handler crashes is shown by ./examples/quickstart/crash.
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

// quickstart:begin

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

// quickstart:end

// check ends the program if something is wrong.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
