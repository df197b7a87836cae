// Bench runs the web server beside a plain net/http file server, with the same bytes and the same load, and prints
// what came of it. The load is made by wrk, on the same machine. The two take turns, and every
// measurement has a server of its own, so that neither has a better hour nor an older heap.
//
//	go run ./examples/webserver/bench -rounds 3 -seconds 5
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // all that is deferred is to stop listening to signals
	}
}

func run(ctx context.Context) error {
	var b bench
	var connections string
	flag.IntVar(&b.rounds, "rounds", 3, "how many `rounds`")
	flag.IntVar(&b.seconds, "seconds", 5, "how many `seconds` for each side of a round")
	flag.StringVar(&connections, "connections", "64,256,1000", "keep-alive `connections`, more than one number with commas")
	flag.StringVar(&b.args, "args", "", "further `flags` for the web server, such as -policy=fixed")
	flag.StringVar(&b.side, "side", "", "measure only this `side`, webserver or plain, if given")
	flag.Parse()
	for number := range strings.SplitSeq(connections, ",") {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return fmt.Errorf("-connections %s: numbers of at least 1", connections)
		}
		b.connections = append(b.connections, n)
	}
	return b.run(ctx)
}
