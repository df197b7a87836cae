package cookbook

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func Example_continueWhereTheLastRunEnded() {
	const file = "one\ntwo\nthree\nfour\n"
	var kept int64 // in a file or a database: the bytes whose lines have ended
	save := func(_ context.Context, position int64) error { kept = position; return nil }

	errDisk := errors.New("the disk is broken")

	// process handles the lines from the checkpoint on, until a line fails that is not to be skipped.
	process := func(bad string) error {
		store := stage.Sink("store", func(_ context.Context, line string) error {
			fmt.Println(line)
			return nil
		}, stage.Workers(1, 1))
		lines := source.Lines(strings.NewReader(file), 0)
		broken := func(ctx context.Context, submit func(string) error) error {
			return lines(ctx, func(line string) error {
				if line == bad {
					return source.Fatal(errDisk)
				}
				return submit(line)
			})
		}
		return run(store, pipeline.Feed("lines", store, source.Checkpoint(broken, kept, save)))
	}
	fmt.Println(errors.Is(process("three"), errDisk))
	fmt.Println("the next process begins at byte", kept)
	fmt.Println(process(""))
	// Output:
	// one
	// two
	// true
	// the next process begins at byte 8
	// three
	// four
	// <nil>
}
