package window_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
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

// An order is split into its items, and the items of an order come together again when all of them have been packed. The second
// order has one that is sold out.
func ExampleJoinTicket() {
	split := stage.FlatMap("split", func(_ context.Context, order string, emit func(string) error) error {
		for item := range strings.FieldsSeq(order) {
			if err := emit(item); err != nil {
				return err
			}
		}
		return nil
	})
	pack := stage.Map("pack", func(_ context.Context, item string) (string, error) {
		if item == "dodo" {
			return "", errors.New("sold out")
		}
		return "a box with a " + item, nil
	})
	join := window.JoinTicket("join", window.Parts[string]{Limit: time.Minute})
	send := stage.Sink("send", func(_ context.Context, w window.Window[struct{}, []string]) error {
		slices.Sort(w.Value)
		fmt.Printf("%s: %q\n", w.Why, w.Value)
		return nil
	})
	p, err := pipeline.New("orders", split.To(pack), pack.To(join), join.To(send), pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Start(context.Background()))
	for _, order := range []string{"lamp chair vase", "dodo lamp"} {
		_, err := stage.Call[any](context.Background(), split.Stage, order)
		fmt.Println(err)
	}
	fmt.Println(p.Stop(context.Background()))
	// Output:
	// <nil>
	// full: ["a box with a chair" "a box with a lamp" "a box with a vase"]
	// <nil>
	// short: ["a box with a lamp"]
	// stage "pack": sold out
	// <nil>
}
