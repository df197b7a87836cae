package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/examples/internal/board"
	"github.com/golda-dev/golda/examples/internal/show"
)

const defaultCache = 64 << 20 // bytes

// config holds the values of the flags.
type config struct {
	addr        string
	root        string // empty: the embedded site
	policy      controller.Policy
	workers     int   // the most that a stage may have
	cache       int64 // bytes
	connections int
	json        bool
	metrics     string // address to serve metrics at; empty: no metrics
	dashboard   string // address to serve the dashboard at; empty: none
}

// parseFlags turns arguments into a config, or returns everything that is wrong
// with them. [flag.ErrHelp] means that -help was given.
func parseFlags(args []string, stdout io.Writer) (config, error) {
	var c config
	var pol string
	f := flag.NewFlagSet("webserver", flag.ContinueOnError)
	f.StringVar(&c.addr, "addr", "127.0.0.1:8080", "serve at this `address`; 127.0.0.1 accepts connections from this machine only")
	f.StringVar(&c.root, "root", "", "serve the files below this `directory`; without it, an embedded site")
	f.StringVar(&pol, "policy", policy.Backlog{}.Name(), "the `policy` that sets the number of workers: "+
		strings.Join(policy.Names(), ", "))
	f.IntVar(&c.workers, "workers", 2*runtime.GOMAXPROCS(0), "the most `workers` that a stage may have")
	f.Int64Var(&c.cache, "cache", defaultCache, "keep at most this number of `bytes` of files in memory; 0: none")
	f.IntVar(&c.connections, "connections", defaultConnections(), fmt.Sprintf(
		"serve at most this number of `connections` at once; by default %d, or what the limit of open files allows",
		defaultLimits().connections))
	f.BoolVar(&c.json, "json", false, "at the end, print one JSON object instead of the table")
	f.StringVar(&c.metrics, "metrics", "", "serve Prometheus metrics at this `address` (such as 127.0.0.1:9090), path /metrics")
	f.StringVar(&c.dashboard, "dashboard", "", board.Usage)
	if err := show.Parse(f, args, about, stdout); err != nil {
		return config{}, err
	}
	var err error
	c.policy, err = policy.ByName(pol)
	return c, errors.Join(show.NoArguments(f), err, c.check())
}

// about is the first line of the help.
const about = "webserver serves files, and one computed page, through five stages."

func (c config) check() error {
	return errors.Join(
		show.Fault(c.workers < 1, "-workers %d: at least 1 worker", c.workers),
		show.Fault(c.cache < 0, "-cache %d: at least 0 bytes", c.cache),
		show.Fault(c.connections < 1, "-connections %d: at least 1 connection", c.connections),
		c.checkFiles(),
		c.checkRoot(),
	)
}

// checkFiles checks whether there may be that many connections: each is an open
// file, and some of their answers are files, too.
func (c config) checkFiles() error {
	files, err := openFiles()
	if err != nil {
		return err
	}
	most := mostConnections(files)
	if most < 1 {
		return fmt.Errorf("this process may have %d files open, and a server needs %d; see ulimit -n", files, spareFiles+2)
	}
	return show.Fault(c.connections > most, "-connections %d: at most %d, since this process may have %d files open; see ulimit -n",
		c.connections, most, files)
}

// mostConnections returns how many connections there may be with that many open
// files.
func mostConnections(files int) int { return (files - spareFiles) / 2 }

// defaultConnections returns the default number of connections. It is at least
// 1, so that checkFiles reports one fault if there can be none.
func defaultConnections() int {
	files, err := openFiles()
	if err != nil { // checkFiles reports it
		return defaultLimits().connections
	}
	return max(1, min(defaultLimits().connections, mostConnections(files)))
}

// spareFiles are for refused connections, the listener, the standard streams
// and so on.
const spareFiles = 128

func (c config) checkRoot() error {
	if c.root == "" {
		return nil
	}
	info, err := os.Stat(c.root)
	if err != nil {
		return fmt.Errorf("-root: %w", err)
	}
	return show.Fault(!info.IsDir(), "-root: %s is not a directory", c.root)
}
