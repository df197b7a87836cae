// Supervision is a short story in six chapters about code that crashes.
//
//	go run ./examples/supervision                    # all of it, in about five seconds
//	go run ./examples/supervision -chapter backoff   # one chapter
//
// Each chapter is a file of its own, in the order of the story: crash.go,
// restart.go, backoff.go, quarantine.go, fix.go, escalation.go. story.go is
// shared by the chapters. Every number that is printed comes from the run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/golda-dev/golda/examples/internal/show"
)

// chapter is a part of the story.
type chapter struct {
	name, title string
	run         func(ctx context.Context, s *story) error
}

var chapters = []chapter{
	{"crash", "A crash costs one command", crash},
	{"restart", "A fresh instance takes over", restart},
	{"backoff", "A stage that only crashes pauses", backoff},
	{"quarantine", "Poison goes into quarantine", quarantine},
	{"fix", "Fixed, and retried from quarantine", fix},
	{"escalation", "When nothing helps, Run returns the whole story", escalation},
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	os.Exit(status)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	chosen, err := parse(args, stdout)
	if err != nil {
		return show.Usage(stderr, "supervision", err)
	}
	s := &story{out: stdout}
	for i, c := range chosen {
		s.title(i+1, c.title)
		if err := c.run(ctx, s); err != nil {
			return show.Status(stderr, "supervision", fmt.Errorf("chapter %s: %w", c.name, err))
		}
	}
	return show.StatusOK
}

// parse returns the chapters that are asked for.
func parse(args []string, stdout io.Writer) ([]chapter, error) {
	names := make([]string, 0, len(chapters))
	for _, c := range chapters {
		names = append(names, c.name)
	}
	f := flag.NewFlagSet("supervision", flag.ContinueOnError)
	name := f.String("chapter", "", "print this `chapter` only: "+strings.Join(names, ", "))
	if err := show.Parse(f, args, "supervision shows in six chapters what Golda does when code crashes.", stdout); err != nil {
		return nil, err
	}
	if err := show.NoArguments(f); err != nil {
		return nil, err
	}
	if *name == "" {
		return chapters, nil
	}
	for _, c := range chapters {
		if c.name == *name {
			return []chapter{c}, nil
		}
	}
	return nil, fmt.Errorf("-chapter %q: the chapters are %s", *name, strings.Join(names, ", "))
}
