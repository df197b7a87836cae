// Philosophers dine with an atomic rule: a philosopher picks up both forks or
// none.
//
//	go run ./examples/philosophers
//	go run ./examples/philosophers -philosophers 9 -meals 100 -eat 0
//	go run ./examples/philosophers -separately   # a deadlock, as intended
//
// Each fork is a process that one philosopher at a time may hold. A philosopher
// asks for both forks at once and has no rule of its own; a synchronizer for
// each of them makes the two requests one.
//
// With -separately there are no synchronizers: each philosopher has its left
// fork before it asks for the right one. As soon as all have their left fork
// they wait for each other. The program notices that nothing has happened for a
// while, and ends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/golda-dev/golda/examples/internal/show"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// config holds the values of the flags.
type config struct {
	philosophers, meals int
	eat, patience       time.Duration
	separately, json    bool
}

// run runs the program and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "philosophers", err)
	}
	r, err := c.dine(context.Background())
	return show.Status(stderr, "philosophers", errors.Join(r.write(stdout, c.json), err))
}

// report is the program's output.
type report struct {
	Philosophers int   `json:"philosophers"`
	Meals        int   `json:"meals"` // of all
	MostAtOnce   int   `json:"most_at_once"`
	LongestWait  int   `json:"longest_wait_meals"` // of others, while a philosopher waited
	TookMS       int64 `json:"took_ms"`
}

// write prints the report.
func (r report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	_, err := fmt.Fprintf(w, "philosophers: %d\nmeals: %d\nmost at once: %d\nlongest wait: %d meals of others\ntook: %d ms\n",
		r.Philosophers, r.Meals, r.MostAtOnce, r.LongestWait, r.TookMS)
	return err
}

// parseFlags turns arguments into a config, or returns everything that is wrong
// with them.
func parseFlags(args []string, stdout io.Writer) (c config, err error) {
	f := flag.NewFlagSet("philosophers", flag.ContinueOnError)
	f.IntVar(&c.philosophers, "philosophers", 5, "`number` of philosophers, and of forks")
	f.IntVar(&c.meals, "meals", 20, "`number` of meals of each")
	f.DurationVar(&c.eat, "eat", time.Millisecond, "`how long` a meal takes")
	f.BoolVar(&c.separately, "separately", false, "pick up the left fork, then the right one, without a rule")
	f.DurationVar(&c.patience, "patience", time.Second, "end as a deadlock if no philosopher begins to eat for `so long`")
	f.BoolVar(&c.json, "json", false, "print one JSON object instead of the text")
	if err := show.Parse(f, args, "philosophers has philosophers dine, each with both forks or with none.", stdout); err != nil {
		return config{}, err
	}
	return c, errors.Join(
		show.NoArguments(f),
		show.Fault(c.philosophers < 2, "-philosophers %d: at least 2", c.philosophers),
		show.Fault(c.meals < 0, "-meals %d: at least 0", c.meals),
		show.Fault(c.eat < 0, "-eat %v: at least 0", c.eat),
		show.Fault(c.patience <= c.eat, "-patience %v: longer than a meal, which takes %v", c.patience, c.eat),
	)
}
