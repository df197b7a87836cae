// Webserver is the application of ERLDA (Areias and Neto 2025) and the second
// workload of LEDA (Cruz 2015): a server for files, and for one computed page,
// in five stages:
//
//	parse → cache → file or work → respond
//
// One command is one connection with something to do. See the README beside
// this file.
//
// Files by topic: server.go the source, which waits for all connections;
// plan.go the pipeline; parse.go, fetch.go, work.go and respond.go the
// behaviours; conn.go and signals.go the command and its ownership; request.go,
// file.go and answer.go HTTP; site.go and cache.go where files come from;
// socket_linux.go the system calls; config.go the checks before anything
// starts; report.go the report at the end.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/golda-dev/golda/examples/internal/show"
)

func main() {
	modest()
	ctx, cancel := context.WithCancel(context.Background())
	go interrupts(cancel)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// heapGrowth is the growth of the heap in percent after which garbage is
// collected. The garbage here is parsed requests, which are dead as soon as
// they are answered, beside some 3 MB of tables that always live. Waiting for
// as much garbage as that, as Go does by default, takes 2 MB more memory and
// gives nothing that wrk can measure.
const heapGrowth = 50

// modest keeps the heap small, unless GOGC is set.
func modest() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}

// interrupts ends the program cleanly at the first signal and at once at the
// second. It runs as long as the process.
func interrupts(cancel context.CancelFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	cancel()
	<-signals
	os.Exit(show.StatusInterrupted)
}
