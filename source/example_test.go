package source_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// The first process handles two lines and ends. The second begins where the checkpoint is.
func ExampleCheckpoint() {
	log := "one\ntwo\nthree\nfour\n"
	var kept int64 // in a file or a database
	save := func(_ context.Context, position int64) error { kept = position; return nil }
	process := func(text string) {
		show := stage.Sink("show", func(_ context.Context, line string) error {
			fmt.Println(line)
			return nil
		}, stage.Workers(1, 1))
		lines := source.Checkpoint(source.Lines(strings.NewReader(text), 0), kept, save)
		p, err := pipeline.New("log", pipeline.Feed("lines", show, lines))
		if err == nil {
			err = p.Run(context.Background())
		}
		fmt.Println("saved", kept, err)
	}
	process(log[:len("one\ntwo\n")])
	process(log)
	// Output:
	// one
	// two
	// saved 8 <nil>
	// three
	// four
	// saved 19 <nil>
}

// A sink to a writer is a function. What it buffers is flushed after Run, when all commands have ended.
func ExampleFiles() {
	dir, err := os.MkdirTemp("", "files")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	check(os.WriteFile(filepath.Join(dir, "a.txt"), []byte("alpha\nbeta\n"), 0o600))
	check(os.WriteFile(filepath.Join(dir, "b.txt"), []byte("gamma\n"), 0o600))

	read := stage.FlatMap("read", func(_ context.Context, name string, emit func(string) error) error {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if err := emit(strings.ToUpper(line)); err != nil {
				return err
			}
		}
		return nil
	}, stage.Workers(1, 1))
	out := bufio.NewWriter(os.Stdout)
	write := stage.Sink("write", func(_ context.Context, line string) error {
		_, err := out.WriteString(line)
		return err
	}, stage.Workers(1, 1))

	p, err := pipeline.New("upper", read.To(write), pipeline.Feed("files", read, source.Files(filepath.Join(dir, "*.txt"))))
	check(err)
	check(p.Run(context.Background()))
	check(out.Flush())
	// Output:
	// ALPHA
	// BETA
	// GAMMA
}

// A sequence is a source, and a channel a sink: it is closed after Run.
func ExampleSeq() {
	squares := make(chan int, 3)
	square := stage.Sink("square", func(ctx context.Context, n int) error {
		select {
		case squares <- n * n:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, stage.Workers(1, 1))
	p, err := pipeline.New("squares", pipeline.Feed("numbers", square, source.Seq(slices.Values([]int{1, 2, 3}))))
	check(err)
	check(p.Run(context.Background()))
	close(squares)
	for n := range squares {
		fmt.Println(n)
	}
	// Output:
	// 1
	// 4
	// 9
}

// A source that counts positions in its own way, here the numbers of pages: a run that continues begins at the page that it is
// given. An error that is Fatal ends the feed without another run.
func ExampleFrom() {
	pages := [][]string{{"a", "b"}, {}, {"c"}}
	down := true
	list := source.From(func(ctx context.Context, from int64, submit func(name string, next int64) error) error {
		source.SetTotal(ctx, int64(len(pages))) // for the progress in the snapshot
		for i := from; i < int64(len(pages)); i++ {
			if i == 1 && down {
				down = false
				return errors.New("the server is down") // the feed runs this function again, from page 1
			}
			for n, name := range pages[i] {
				next := i
				if n == len(pages[i])-1 {
					next++ // behind the last of a page comes the next page
				}
				if err := submit(name, next); err != nil {
					return err
				}
			}
		}
		if n := source.Position(ctx); n != int64(len(pages)) {
			return source.Fatal(fmt.Errorf("ended at page %d", n))
		}
		return nil
	})
	show := stage.Sink("show", func(_ context.Context, name string) error {
		fmt.Println(name)
		return nil
	}, stage.Workers(1, 1))
	p, err := pipeline.New("listing", pipeline.Feed("pages", show, list), pipeline.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	check(p.Run(context.Background()))
	fmt.Println(p.Snapshot().Feeds[0].Restarts, "restart")
	// Output:
	// a
	// b
	// c
	// 1 restart
}

// A broker that wants to know which of its messages were handled. While it has none to give, because it cannot be reached, the
// snapshot of the pipeline shows the feed as "away".
func ExampleEnds() {
	broker := []string{"a", "bad", "c"}
	acknowledge := make(chan string, len(broker))
	messages := source.Ends(func(ctx context.Context, submit func(string, func(error)) error) error {
		for attempt, down := 0, true; down; attempt++ {
			source.SetAway(ctx, errors.New("the broker is down"))
			down = attempt < 2
		}
		source.SetAway(ctx, nil)
		for _, message := range broker {
			ended := func(err error) { acknowledge <- fmt.Sprint(message, ": ", err) }
			if err := submit(message, ended); err != nil {
				return err
			}
		}
		return nil
	})
	handle := stage.Sink("handle", func(_ context.Context, message string) error {
		if message == "bad" {
			return errors.New("no such account")
		}
		return nil
	}, stage.Workers(1, 1))
	p, err := pipeline.New("broker", pipeline.Feed("messages", handle, messages))
	check(err)
	check(p.Run(context.Background()))
	close(acknowledge)
	for a := range acknowledge {
		fmt.Println(a)
	}
	// Output:
	// a: <nil>
	// bad: stage "handle": no such account
	// c: <nil>
}

// Two feeds of one stage: a slice, and a channel that is exhausted when it is closed.
func ExampleChan() {
	arrivals := make(chan string)
	go func() {
		defer close(arrivals)
		arrivals <- "from the channel"
	}()
	show := stage.Sink("show", func(_ context.Context, s string) error {
		fmt.Println(s)
		return nil
	}, stage.Workers(1, 1))
	p, err := pipeline.New("both", show,
		pipeline.Feed("slice", show, source.Slice([]string{"from the slice"})),
		pipeline.Feed("channel", show, source.Chan(arrivals)))
	check(err)
	check(p.Run(context.Background()))
	// Unordered output:
	// from the slice
	// from the channel
}

// A ticker never ends: the run ends with its context.
func ExampleEvery() {
	ctx, cancel := context.WithCancel(context.Background())
	ticks := 0
	poll := stage.Sink("poll", func(context.Context, time.Time) error {
		if ticks++; ticks == 3 {
			cancel()
		}
		return nil
	}, stage.Workers(1, 1))
	p, err := pipeline.New("polling", pipeline.Feed("ticker", poll, source.Every(time.Millisecond)))
	check(err)
	fmt.Println(p.Run(ctx), ticks >= 3)
	// Output: <nil> true
}

// A schedule is a function from a time to the next one. This one is at noon of each day; a cron library has others.
func ExampleSchedule() {
	noon := func(after time.Time) time.Time {
		next := time.Date(after.Year(), after.Month(), after.Day(), 12, 0, 0, 0, after.Location())
		if !next.After(after) {
			next = next.AddDate(0, 0, 1)
		}
		return next
	}
	fmt.Println(noon(time.Date(2026, 2, 28, 15, 0, 0, 0, time.UTC)))
	report := stage.Sink("report", func(_ context.Context, day time.Time) error {
		fmt.Println("a report for", day.Format(time.DateOnly))
		return nil
	})
	_, err := pipeline.New("reports", pipeline.Feed("at noon", report, source.Schedule(noon)))
	fmt.Println(err)
	// Output:
	// 2026-03-01 12:00:00 +0000 UTC
	// <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
