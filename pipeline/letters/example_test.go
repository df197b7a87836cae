package letters_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// A command that crashes its handler stays in quarantine until a person has inspected it. Then it is retried, perhaps after
// a correction, or dropped.
func ExampleStore() {
	quotient := 0
	divide := stage.Func("divide", func(_ context.Context, n int) behaviour.Outcome {
		quotient = 100 / n
		return behaviour.OK(nil)
	}, stage.Workers(1, 1), stage.Retry(stage.RetryPolicy{Attempts: 3}))
	came := make(chan struct{}, 1)
	p, err := pipeline.New("example", divide, pipeline.Logger(slog.New(slog.DiscardHandler)),
		pipeline.DeadLetters(func(stage.DeadLetter) { came <- struct{}{} }))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	_ = divide.Submit(ctx, 0)
	<-came

	quarantine := p.Quarantine()
	for _, letter := range quarantine.List(letters.Filter{}) {
		fmt.Printf("letter %d: %v crashed %d times: %v\n", letter.ID, letter.Command, letter.Attempts, letter.Err)
		fmt.Println(quarantine.RetryAs(ctx, letter.ID, "zero"))
		fmt.Println(quarantine.RetryAs(ctx, letter.ID, 5))
	}
	_ = p.Stop(ctx)
	fmt.Println("100 / 5 =", quotient)
	fmt.Println(quarantine.Len(), "left")
	fmt.Println(p.Snapshot().Law())
	// Output:
	// letter 1: 0 crashed 3 times: stage "divide": crash at attempt 3: runtime error: integer divide by zero
	// letter 1: stage "divide": takes int, was sent string
	// <nil>
	// 100 / 5 = 20
	// 0 left
	// accepted 2 = replied 1 + failed 0 + shed 0 + dead-lettered 1 + in flight 0
}

// All letters of one cause form one group.
func ExampleStore_Groups() {
	parse := stage.Func("parse", func(_ context.Context, line string) behaviour.Outcome {
		if line == "" {
			panic("no line")
		}
		return behaviour.OK(line[:3]) // crashes if the line is shorter
	}, stage.Workers(1, 1))
	p, err := pipeline.New("example", parse, pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	for _, line := range []string{"", "long enough", "a", "b", "c"} {
		_ = parse.Submit(ctx, line)
	}
	_ = p.Stop(ctx)
	for _, g := range p.Quarantine().Groups() {
		fmt.Printf("%d times, last with %q\n", g.Seen, g.Example.Command)
	}
	// Output:
	// 3 times, last with "c"
	// 1 times, last with ""
}

// Dead letters may be exported before the program ends.
func ExampleStore_Export() {
	s := stage.Func("s", func(_ context.Context, name string) behaviour.Outcome { return behaviour.OK(name) },
		stage.Workers(1, 1), stage.Capacity(1), stage.Overflow(overflow.DropNewest))
	p, err := pipeline.New("example", s, pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	_ = p.Pause(s)
	_ = s.Submit(ctx, "first")
	_ = s.Submit(ctx, "second") // is shed
	_ = p.Resume(s)
	_ = p.Stop(ctx)
	for _, letter := range p.DeadLetters().List(letters.Filter{}) {
		fmt.Println(letter.Stage, letter.Reason, letter.Command)
	}
	file, err := os.Create(os.DevNull)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.DeadLetters().Export(file), file.Close())
	// Output:
	// s dropped_newest second
	// <nil> <nil>
}

// Pages have their text behind a pointer, so the program says how large they are. The store has room for two.
func ExampleType_size() {
	type page struct{ text []byte }
	index := stage.Sink("index", func(context.Context, *page) error { return errors.New("no space left") })
	p, err := pipeline.New("search", index, pipeline.Logger(slog.New(slog.DiscardHandler)),
		pipeline.KeepLetters(letters.Options{Bytes: 1 << 20}),
		letters.Type[*page]{Size: func(p *page) int { return len(p.text) }})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	for range 5 {
		_ = index.Submit(ctx, &page{make([]byte, 400<<10)})
	}
	_ = p.Stop(ctx)
	fmt.Println(p.Failures().Len(), "kept,", p.Failures().Dropped(), "dropped")
	// Output:
	// 2 kept, 3 dropped
}
