package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Stages declare ports, and the pipeline wires them.
func Example() {
	words := behaviour.NewPort[string]("words")
	split := stage.Func("split", func(ctx context.Context, line string) behaviour.Outcome {
		for word := range strings.FieldsSeq(line) {
			if err := behaviour.Emit(ctx, words, word); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(nil)
	}, stage.Out(words))
	total := 0
	count := stage.Func("count", func(_ context.Context, word string) behaviour.Outcome {
		total += len(word)
		return behaviour.OK(nil)
	}, stage.Workers(1, 1))

	p, err := pipeline.New("letters", split, count, pipeline.Wire(words, count))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	_, err = stage.Call[any](ctx, split, "one line of words") // waits for the words as well
	fmt.Println(total, err)
	fmt.Println(p.Stop(ctx))
	fmt.Println(p.Snapshot().Law())
	// Output:
	// 14 <nil>
	// <nil>
	// accepted 5 = replied 5 + failed 0 + shed 0 + dead-lettered 0 + in flight 0
}

// New reports all faults at once, before anything starts.
func ExampleNew_faults() {
	out := behaviour.NewPort[int]("out")
	double := stage.Func("double", func(_ context.Context, n int) behaviour.Outcome {
		return behaviour.Forward(out, 2*n)
	}, stage.Out(out), stage.Capacity(0), stage.Workers(8, 2))

	_, err := pipeline.New("numbers", double)
	fmt.Println(err)
	// Output:
	// stage "double": Capacity(0): must be at least 1
	// stage "double": Workers(8, 2): the fewest workers must not be more than the most
	// pipeline "numbers": stage "double": port "out" is not wired; add pipeline.Wire
}

// A subscriber is called for every command that ended without an answer.
func ExampleDeadLetters() {
	fragile := stage.Func("fragile", func(_ context.Context, n int) behaviour.Outcome {
		return behaviour.OK(100 / n)
	})
	p, err := pipeline.New("example", fragile,
		pipeline.Logger(slog.New(slog.DiscardHandler)),
		pipeline.DeadLetters(func(l stage.DeadLetter) {
			fmt.Printf("%s: command %v: %s after %d attempt: %v\n", l.Stage, l.Command, l.Reason, l.Attempts, l.Err)
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = p.Start(ctx)
	_ = fragile.Submit(ctx, 0)
	_ = p.Stop(ctx)
	// Output:
	// fragile: command 0: crash after 1 attempt: stage "fragile": crash at attempt 1: runtime error: integer divide by zero
}

// A middleware of the pipeline is around the handlers of all stages.
func ExampleMiddleware() {
	timed := func(ctx context.Context, stage string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		begin := time.Now()
		o := next(ctx, cmd)
		fmt.Println(stage, o.Kind(), time.Since(begin) < time.Minute)
		return o
	}
	parse := stage.Map("parse", func(_ context.Context, text string) (int, error) { return strconv.Atoi(text) })
	double := stage.Map("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	chain := stage.Chain(parse, double)
	p, err := pipeline.New("numbers", chain, pipeline.Middleware(timed))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = p.Stop(context.Background()) }()

	fmt.Println(chain.Call(context.Background(), "21"))
	// Output:
	// parse forward true
	// double ok true
	// 42 <nil>
}
