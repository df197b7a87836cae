package window_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// run feeds commands to a flow and prints what it passes on.
func run[C, T any](of *stage.Flow[C, T], text func(T) string, cmds ...C) {
	show := stage.Sink("show", func(_ context.Context, v T) error { fmt.Println(text(v)); return nil }, stage.Workers(1, 1))
	p, err := pipeline.New("example", of.To(show), pipeline.Feed("feed", of, source.Slice(cmds)))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
}

func parity(n int) string { return []string{"even", "odd"}[n%2] }

// Numbers are collected by their parity, three at most. The end of the feed closes the windows that are open.
func ExampleBy() {
	of := window.By("numbers", parity, window.Bounds[int]{Count: 3, Time: time.Minute})
	run(of, func(w window.Window[string, []int]) string { return fmt.Sprint(w.Key, " ", w.Value, " ", w.Why) }, 1, 2, 3, 4, 5, 7)
	// Output:
	// odd [1 3 5] full
	// even [2 4] early
	// odd [7] early
}

// All commands are collected, up to ten bytes at a time.
func ExampleAll() {
	of := window.All("lines", window.Bounds[string]{Bytes: 10, Size: func(s string) int { return len(s) }})
	run(of, func(w window.Window[struct{}, []string]) string { return fmt.Sprintf("%q", w.Value) }, "four", "letter", "seven", "eleventh")
	// Output:
	// ["four" "letter"]
	// ["seven"]
	// ["eleventh"]
}

// The numbers of each parity are summed up, every minute.
func ExampleAggregate() {
	of := window.Aggregate("sum", parity, func(sum, n int) int { return sum + n }, window.Bounds[int]{Every: time.Minute})
	run(of, func(w window.Window[string, int]) string { return fmt.Sprint(w.Key, " ", w.Value) }, 1, 2, 3, 4, 5)
	// Output:
	// odd 9
	// even 6
}

// Pairs are passed on when they are complete. The third number never finds its partner.
func ExampleJoin() {
	half := func(n int) int { return n / 2 }
	of := window.Join("pairs", half, window.Parts[int]{Count: 2, Limit: time.Minute})
	run(of, func(w window.Window[int, []int]) string {
		return fmt.Sprint(w.Value, " complete: ", w.Why == window.Full)
	}, 2, 5, 6, 3, 7)
	// Output:
	// [2 3] complete: true
	// [6 7] complete: true
	// [5] complete: false
}

// Of each key the last command is passed on when it has been quiet for a second, or at the end.
func ExampleDebounce() {
	of := window.Debounce("quiet", parity, time.Second, 0)
	run(of, strconv.Itoa, 1, 2, 3, 5, 4)
	// Output:
	// 5
	// 4
}

// The first command of each key is passed on at once, and the last one a second later, or at the end.
func ExampleThrottle() {
	of := window.Throttle("throttle", parity, time.Second)
	run(of, strconv.Itoa, 1, 2, 3, 5, 4)
	// Output:
	// 1
	// 2
	// 5
	// 4
}
