package cookbook

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func Example_crawlMoreThanMemoryHolds() {
	web := map[string][]string{"/": {"/a", "/b"}, "/a": {"/", "/b"}, "/b": {"/a", "/c"}}

	ctx := context.Background()
	dir, err := os.MkdirTemp("", "crawl")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	conn, err := nats.Embed(dir, nats.Store{})
	check(err)
	defer func() { check(conn.Close(ctx)) }()
	frontier, err := nats.NewInlet(ctx, conn, "frontier", nats.Options[string]{UntilEmpty: true, Dedup: time.Hour})
	check(err)

	fetch := stage.FlatMap("fetch", func(_ context.Context, url string, emit func(string) error) error {
		fmt.Println("fetch", url)
		for _, link := range web[url] {
			if err := emit(link); err != nil {
				return err
			}
		}
		return nil
	}, stage.Blocking(), stage.Workers(16, 64))

	id := func(url string) string { return url } // an hour long the same one is taken once
	check(frontier.Publish(ctx, "/", "/"))
	fmt.Println(run(fetch.To(frontier.Publisher("publish", id)), // a loop through the disk
		pipeline.Feed("frontier", fetch, frontier.Feed)))
	// Unordered output:
	// fetch /
	// fetch /a
	// fetch /b
	// fetch /c
	// <nil>
}
