// Resources composes two synchronizers: at most one of five resources is on at
// a time, and each is turned on once in each round. Neither rule is in the code
// of the resources, and neither synchronizer knows the other.
//
//	go run ./examples/resources
//	go run ./examples/resources -rules one     # without rounds
//	go run ./examples/resources -rules none    # all at once
//	go run ./examples/resources -crash 3       # each synchronizer crashes three times
//
// Each resource is a process with two functions and a client that turns it on
// and off. A request that a rule holds back waits; its client does not notice
// why.
//
// With -crash a synchronizer crashes and is restarted. Its rules are written
// with counters, which it fetches from the resources before it allows anything:
// so the rules hold all the same.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/examples/internal/show"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// config holds the values of the flags.
type config struct {
	resources, rounds, crash int
	rules                    string
	hold                     time.Duration
	json                     bool
}

// run runs the program and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "resources", err)
	}
	r, err := c.work(context.Background())
	if err == nil {
		err = r.write(stdout, c.json)
	}
	return show.Status(stderr, "resources", err)
}

// report is the program's output.
type report struct {
	TurnedOn []string `json:"turned_on"` // the resources, in the order in which they were turned on
	MostOn   int      `json:"most_on"`   // at once
	Rounds   int      `json:"rounds"`    // of each resource once, from the beginning
	Started  int      `json:"started"`   // how often synchronizers were started
}

// work has each resource turned on and off by its client.
func (c config) work(ctx context.Context) (report, error) {
	node, err := rpc.NewNode(rpc.Config{Logger: slog.New(slog.DiscardHandler)}) // the report counts the crashes
	if err != nil {
		return report{}, err
	}
	defer func() { _ = node.Close() }()
	var b board
	for i := range c.resources {
		name := "Res_" + string(rune('A'+i))
		address, err := node.Spawn(ctx, name, b.resource(name, c.hold))
		if err != nil {
			return report{}, err
		}
		b.resources = append(b.resources, address)
	}
	started, err := c.synchronize(ctx, node, b.resources)
	if err != nil {
		return report{}, err
	}
	errs := make([]error, c.resources)
	var clients sync.WaitGroup
	for i, address := range b.resources {
		clients.Go(func() { errs[i] = c.client(ctx, address) })
	}
	clients.Wait()
	return report{b.turnedOn, b.mostOn, b.rounds(), int(started.Load())}, errors.Join(errs...)
}

// client turns a resource on and off, once in each round.
func (c config) client(ctx context.Context, resource rpc.Address) error {
	on, off := rpc.At[none, none](resource, "turn_on"), rpc.At[none, none](resource, "turn_off")
	for range c.rounds {
		for _, f := range []rpc.Ref[none, none]{on, off} {
			if _, err := f.Call(coroutine.Blocking(ctx), none{}); err != nil {
				return fmt.Errorf("%v: %s: %w", resource, f.Method, err)
			}
		}
	}
	return nil
}

// write prints the report.
func (r report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	for round := range slices.Chunk(r.TurnedOn, max(len(slices.Compact(slices.Sorted(slices.Values(r.TurnedOn)))), 1)) {
		if _, err := fmt.Fprintln(w, strings.Join(round, " ")); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "most on at once: %d\ncomplete rounds: %d\nsynchronizers started: %d\n", r.MostOn, r.Rounds, r.Started)
	return err
}

// parseFlags turns arguments into a config, or returns everything that is wrong
// with them.
func parseFlags(args []string, stdout io.Writer) (c config, err error) {
	f := flag.NewFlagSet("resources", flag.ContinueOnError)
	f.IntVar(&c.resources, "resources", 5, "`number` of resources")
	f.IntVar(&c.rounds, "rounds", 4, "`number` of times that each is turned on")
	f.StringVar(&c.rules, "rules", rulesBoth, "`which` synchronizers there are: one (at a time), round (once in each), both or none")
	f.DurationVar(&c.hold, "hold", time.Millisecond, "`how long` it takes to turn a resource on or off")
	f.IntVar(&c.crash, "crash", 0, "have each synchronizer crash this `number` of times, if there is enough to do")
	f.BoolVar(&c.json, "json", false, "print one JSON object instead of the text")
	if err := show.Parse(f, args, "resources turns resources on and off under the rules of two synchronizers.", stdout); err != nil {
		return config{}, err
	}
	return c, errors.Join(
		show.NoArguments(f),
		show.Fault(c.resources < 1 || c.resources > 26, "-resources %d: from 1 to 26", c.resources),
		show.Fault(c.rounds < 0, "-rounds %d: at least 0", c.rounds),
		show.Fault(!slices.Contains([]string{rulesOne, rulesRound, rulesBoth, rulesNone}, c.rules),
			"-rules %q: one, round, both or none", c.rules),
		show.Fault(c.rules == rulesRound && c.resources < 2, "-rules round: a round has at least 2 resources"),
		show.Fault(c.rules == rulesBoth && c.resources < 2, "-rules both: a round has at least 2 resources"),
		show.Fault(c.hold < 0, "-hold %v: at least 0", c.hold),
		show.Fault(c.crash < 0 || c.crash > 8, "-crash %d: from 0 to 8: the pauses before restarts grow", c.crash),
	)
}
