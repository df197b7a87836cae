// Webserver is the application of ERLDA (Areias and Neto 2025) and the second workload of LEDA
// (Cruz 2015): a server for files, and for one page that is computed, in five stages:
//
//	parse → cache → file or work → respond
//
// One command is one connection with something to do. See the README beside this file.
//
// Files by topic: server.go the source, which waits for all connections; plan.go the pipeline; parse.go, fetch.go,
// work.go and respond.go the behaviours; conn.go and signals.go what travels and who owns it; request.go, file.go
// and answer.go what HTTP is made of; site.go and cache.go where files come from; socket_linux.go the system's
// calls; config.go what is refused before anything starts; report.go what is told in the end.
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

// heapGrowth is by how many percent of what is alive the heap may grow before garbage is collected. The garbage here is
// parsed requests, each dead as soon as it is answered, beside some 3 MB of tables that never die: to wait for
// as much garbage as that, as Go does by itself, takes 2 MB more of memory and gives nothing that wrk can see.
const heapGrowth = 50

// modest keeps the heap small, unless the environment says something else.
func modest() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}

// interrupts ends the program in good order at the first signal and at once at the second. It
// lives as long as the process.
func interrupts(cancel context.CancelFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	cancel()
	<-signals
	os.Exit(show.StatusInterrupted)
}
