package cookbook

import (
	"context"
	"fmt"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

func Example_waitUntilItIsQuiet() {
	type saved struct {
		file string
		size int
	}
	settled := window.Debounce("settled", func(s saved) string { return s.file },
		time.Second, time.Minute) // when a file was not saved for a second, and once a minute if it never stops

	build := stage.Sink("build", func(_ context.Context, s saved) error {
		fmt.Println("build", s.file, s.size)
		return nil
	})
	editor := source.Slice([]saved{{"main.go", 1}, {"go.mod", 1}, {"main.go", 2}, {"main.go", 3}})
	fmt.Println(run(settled.To(build), pipeline.Feed("editor", settled, editor)))
	// Unordered output:
	// build main.go 3
	// build go.mod 1
	// <nil>
}
