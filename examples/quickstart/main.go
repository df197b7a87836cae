// Quickstart counts words: a feed of lines, two stages made of plain functions,
// and a run that ends when all is done.
//
//	go run ./examples/quickstart
//
// The program in ./examples/quickstart/crash has a handler that crashes.
package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func main() {
	text := strings.NewReader("one fish two fish\nred fish blue fish\n") // or a file
	counts := map[string]int{}

	split := stage.FlatMap("split", func(_ context.Context, line string, emit func(string) error) error {
		for word := range strings.FieldsSeq(line) {
			if err := emit(word); err != nil {
				return err
			}
		}
		return nil
	})
	count := stage.Sink("count", func(_ context.Context, word string) error {
		counts[word]++
		return nil
	}, stage.Workers(1, 1)) // one worker, so the map needs no lock

	p, err := pipeline.New("words", split.To(count), pipeline.Feed("lines", split, source.Lines(text, 0)))
	if err == nil {
		err = p.Run(context.Background()) // returns when all lines have been handled
	}
	fmt.Println(counts, err)
}
