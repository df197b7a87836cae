package cookbook

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func Example_crawlEachPageOnce() {
	web := map[string][]string{"/": {"/a", "/b"}, "/a": {"/", "/b"}, "/b": {"/a", "/c"}}

	seen := map[string]bool{}
	frontier := stage.Filter("frontier", func(_ context.Context, url string) (bool, error) {
		isNew := !seen[url]
		seen[url] = true
		return isNew, nil
	}, stage.Workers(1, 1)) // one worker: the map needs no lock
	fetch := stage.FlatMap("fetch", func(_ context.Context, url string, emit func(string) error) error {
		fmt.Println("fetch", url)
		for _, link := range web[url] {
			if err := emit(link); err != nil {
				return err
			}
		}
		return nil
	}, stage.Blocking(), stage.Workers(16, 64))

	fmt.Println(run(frontier.To(fetch), fetch.To(frontier), // a loop
		pipeline.MaxInFlight(100_000),
		pipeline.Feed("start", frontier, source.Slice([]string{"/"}))))
	// Unordered output:
	// fetch /
	// fetch /a
	// fetch /b
	// fetch /c
	// <nil>
}
