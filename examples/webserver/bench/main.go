// Bench runs the web server and a plain net/http file server, with the same
// bytes and the same load, and prints the results. wrk makes the load, on the
// same machine. The two servers take turns, and every measurement has a new
// process, so that neither has an advantage by the time of day or by the age of
// its heap.
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
		os.Exit(1) //nolint:gocritic // the only deferred call stops the signals
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
