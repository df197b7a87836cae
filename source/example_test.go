package source_test

import (
	"bufio"
	"context"
	"fmt"
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
