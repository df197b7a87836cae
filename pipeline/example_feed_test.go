package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// A feed submits the lines of a reader. Run returns when all of them have been counted.
func ExampleFeed() {
	counts := map[string]int{}
	words := stage.FlatMap("words", func(_ context.Context, line string, emit func(string) error) error {
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
	}, stage.Workers(1, 1))

	text := strings.NewReader("to be\nor not\nto be\n")
	p, err := pipeline.New("count", words.To(count), pipeline.Feed("lines", words, source.Lines(text, 0)))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Run(context.Background()), p.Ending())
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		fmt.Println(word, counts[word])
	}
	// Output:
	// <nil> exhausted
	// be 2
	// not 1
	// or 1
	// to 2
}

// A source is a function. It fails once, is run again, and continues where it was.
func ExampleFeed_restart() {
	var mu sync.Mutex
	var got []int
	square := stage.Sink("square", func(_ context.Context, n int) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, n*n)
		return nil
	}, stage.Workers(1, 1))
	failed := false
	numbers := func(ctx context.Context, submit func(int) error) error {
		for n := int(source.Position(ctx)); n < 5; n++ {
			if n == 3 && !failed {
				failed = true
				return errors.New("connection lost")
			}
			if err := submit(n); err != nil {
				return err
			}
		}
		return nil
	}

	p, err := pipeline.New("squares", pipeline.Feed("numbers", square, numbers), quiet)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Run(context.Background()), got)
	feed := p.Snapshot().Feeds[0]
	fmt.Printf("%s %s, %d submitted, %d restart: %v\n", feed.Name, feed.State, feed.Submitted, feed.Restarts, feed.Err)
	// Output:
	// <nil> [0 1 4 9 16]
	// numbers exhausted, 5 submitted, 1 restart: connection lost
}
