// Erlda is a program as the article of Areias and Neto (2025) has it: three
// stages whose handlers answer ok, forward or error (Listing 1), with the
// article's controller, which looks at each queue every five seconds. One
// command crashes its handler.
//
//	go run ./examples/erlda
//	go run ./examples/erlda 84/2 1/0 seven ping   # commands of yours
//
// In the end the program prints the supervision tree, with the workers of each
// stage, their crashes and their replacements. The exit status is 1 if a
// command was lost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// division is the command of the second stage.
type division struct{ a, b int }

// parse is the first stage. Its next stage is a value, as NextStagePid is in
// the article.
type parse struct{ next *stage.Stage[division] }

// HandleCommand answers with each of the three outcomes.
func (p parse) HandleCommand(_ context.Context, text string) behaviour.Outcome {
	if text == "ping" {
		return behaviour.OK("pong") // {ok, Result}
	}
	var d division
	if _, err := fmt.Sscanf(text, "%d/%d", &d.a, &d.b); err != nil {
		return behaviour.Error(errors.New("no division")) // {error, Reason}
	}
	return behaviour.Forward(p.next, d) // {forward, NextStagePid, NewCommand}
}

// divide is the second stage. It crashes if it divides by zero.
type divide struct{ next *stage.Stage[int] }

// HandleCommand forwards the quotient.
func (d divide) HandleCommand(_ context.Context, cmd division) behaviour.Outcome {
	return behaviour.Forward(d.next, cmd.a/cmd.b)
}

// format is the last stage.
type format struct{}

// HandleCommand answers the caller of the first stage.
func (format) HandleCommand(_ context.Context, quotient int) behaviour.Outcome {
	return behaviour.OK(fmt.Sprintf("the quotient is %d", quotient))
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	commands, err := parseArguments(args, stdout)
	if err != nil {
		return show.Usage(stderr, "erlda", err)
	}
	return show.Status(stderr, "erlda", calculate(ctx, commands, stdout))
}

// calculate sends each command to the first stage and prints its answer, and
// the tree in the end.
func calculate(ctx context.Context, commands []string, stdout io.Writer) error {
	last := stage.New("format", format{}, stage.Workers(1, 10))
	second := stage.New("divide", divide{last}, stage.Out(last), stage.Workers(2, 10))
	first := stage.New("parse", parse{second}, stage.Out(second), stage.Workers(1, 10))
	p, err := pipeline.New("erlda", pipeline.Entry(first), second, last,
		pipeline.Control(policy.ERLDA{Preset: policy.Areias}),
		pipeline.ControlFor("divide", policy.ERLDA{Preset: policy.Areias, Up: 20, Down: 2}), // thresholds of its own
		pipeline.Logger(slog.New(slog.DiscardHandler)),                                      // the callers see the errors
	)
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	for _, text := range commands {
		answer, err := stage.Call[string](ctx, first, text)
		if crash := (*stage.CrashError)(nil); errors.As(err, &crash) {
			err = fmt.Errorf("crash of stage %q: %v", crash.Stage, crash.Value)
		}
		if err != nil {
			answer = err.Error()
		}
		_, _ = fmt.Fprintf(stdout, "%-6s %s\n", text, answer)
	}
	_, _ = fmt.Fprintf(stdout, "\n%s", p.Tree())
	err = p.Stop(ctx)
	if s := p.Snapshot(); s.Accepted != s.Replied+s.Failed+s.DeadLettered {
		err = errors.Join(err, fmt.Errorf("%d commands accepted, and %d ended", s.Accepted, s.Replied+s.Failed+s.DeadLettered))
	}
	return err
}

// parseArguments returns the commands to calculate.
func parseArguments(args []string, help io.Writer) ([]string, error) {
	f := flag.NewFlagSet("erlda", flag.ContinueOnError)
	if err := show.Parse(f, args, "erlda [command ...] divides numbers in three stages, as the article's program would.", help); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return f.Args(), nil
	}
	return []string{"84/2", "seven", "1/0", "ping", "9/3"}, nil
}
