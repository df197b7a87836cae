package cookbook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func Example_continueWhereTheLastRunEnded() {
	dir, err := os.MkdirTemp("", "log")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	log := filepath.Join(dir, "log")

	var kept int64 // in a file or a database: the bytes whose lines have ended
	save := func(_ context.Context, position int64) error { kept = position; return nil }
	process := func() {
		f, err := os.Open(log)
		check(err)
		defer func() { check(f.Close()) }()
		store := stage.Sink("store", func(_ context.Context, line string) error {
			fmt.Println(line)
			return nil
		}, stage.Workers(1, 1))
		check(run(store, pipeline.Feed("lines", store, source.Checkpoint(source.Lines(f, 0), kept, save))))
		fmt.Println("the next process begins at byte", kept)
	}
	check(os.WriteFile(log, []byte("one\ntwo\n"), 0o600))
	process()
	check(os.WriteFile(log, []byte("one\ntwo\nthree\n"), 0o600))
	process()
	// Output:
	// one
	// two
	// the next process begins at byte 8
	// three
	// the next process begins at byte 14
}
