package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/golda-dev/golda/coordination/scheduler"
	"github.com/golda-dev/golda/examples/internal/show"
)

// config holds the values of the flags.
type config struct {
	addr        string
	every       time.Duration
	connections int
}

// run runs the program and returns its exit status.
func run(stop scheduler.Source, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "eventloop", err)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", c.addr)
	if err == nil {
		_, _ = fmt.Fprintln(stdout, "listening on", l.Addr())
		err = serve(l, stop, c, stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "eventloop:", err)
		return show.StatusFailed
	}
	return show.StatusOK
}

// parseFlags turns arguments into a config, or returns everything that is wrong
// with them.
func parseFlags(args []string, stdout io.Writer) (c config, err error) {
	f := flag.NewFlagSet("eventloop", flag.ContinueOnError)
	f.StringVar(&c.addr, "addr", "127.0.0.1:7777", "listen at this `address`; 127.0.0.1 accepts connections from this machine only")
	f.DurationVar(&c.every, "every", time.Second, "print the status line at intervals of this `duration`")
	f.IntVar(&c.connections, "connections", 1024, "serve at most this number of `connections` at once")
	if err := show.Parse(f, args, "eventloop echoes the bytes that clients send.", stdout); err != nil {
		return config{}, err
	}
	return c, errors.Join(
		show.NoArguments(f),
		show.Fault(c.every <= 0, "-every %v: must be positive", c.every),
		show.Fault(c.connections < 1, "-connections %d: at least 1 connection", c.connections),
	)
}
