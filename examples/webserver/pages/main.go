// Pages is the web server of chapter 5 of the dissertation of Cruz (2015), in
// its five stages:
//
//	start → parse → dynamic and static → send
//
// Each request needs both pages: the dynamic one, which is 2001 × 10001
// additions, and the static one, which is a text. They are made in parallel,
// and the last stage sends both in one answer when the second of them has come.
// Each connection has one request, as in the dissertation's measurements. The
// program uses package net alone and runs on any operating system; the server
// one directory up serves files, and is made to be fast.
//
//	go run ./examples/webserver/pages
//	go run ./examples/webserver/pages -policy seda:cruz -workers 4 -instances 10
//	go run ./examples/webserver/pages -policy cohort -pool 4      # four workers for all stages
//	go run ./examples/webserver/pages -rows 200 -columns 1000     # a hundredth of the additions
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/webserver/pages/chapter5"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	os.Exit(status)
}

// config holds the values of the flags.
type config struct {
	chapter5.Config

	addr   string
	policy controller.Policy
	json   bool
}

// run serves until ctx ends, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "pages", err)
	}
	return show.Status(stderr, "pages", c.serve(ctx, stdout, stderr))
}

// parseFlags turns arguments into a config, or returns everything that is wrong
// with them.
func parseFlags(args []string, help io.Writer) (c config, err error) {
	var name string
	f := flag.NewFlagSet("pages", flag.ContinueOnError)
	f.StringVar(&c.addr, "addr", "127.0.0.1:8081", "serve at this `address`; 127.0.0.1 accepts connections from this machine only")
	f.StringVar(&name, "policy", policy.Backlog{}.Name(), "the `policy` that controls the stages: "+strings.Join(policy.Names(), ", "))
	f.IntVar(&c.Workers, "workers", 2*runtime.GOMAXPROCS(0), "the most `workers` that a stage may have")
	f.IntVar(&c.Pool, "pool", 0, "have all stages share this number of `workers`; 0: each stage has its own")
	f.IntVar(&c.Instances, "instances", 0, "the most workers that may be at one stage at once; 0: no limit but the workers")
	f.IntVar(&c.Rows, "rows", 2001, "`rows` of additions that make a dynamic page")
	f.IntVar(&c.Columns, "columns", 10001, "`columns` of these")
	f.BoolVar(&c.json, "json", false, "at the end, print one JSON object instead of the table")
	if err := show.Parse(f, args, "pages serves a page that is half computed and half not, through five stages.", help); err != nil {
		return config{}, err
	}
	c.policy, err = policy.ByName(name)
	return c, errors.Join(
		show.NoArguments(f), err,
		show.Fault(c.Workers < 1, "-workers %d: at least 1", c.Workers),
		show.Fault(c.Pool < 0, "-pool %d: at least 0", c.Pool),
		show.Fault(c.Instances < 0, "-instances %d: at least 0", c.Instances),
		show.Fault(c.Rows < 1 || c.Rows > 1<<20, "-rows %d: from 1 to %d", c.Rows, 1<<20),
		show.Fault(c.Columns < 1 || c.Columns > 1<<20, "-columns %d: from 1 to %d", c.Columns, 1<<20),
	)
}
