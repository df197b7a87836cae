package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// config holds the values of the flags.
type config struct {
	systems  []system
	rounds   int
	jobs     int
	kills    int
	atOnce   int
	inFlight int
	sync     bool
	moment   bool
	patience time.Duration
	report   string // where the page of figures is; empty: nowhere
}

// parse turns arguments into a config, or returns an error for wrong arguments.
func parse(args []string, stdout io.Writer) (config, error) {
	var c config
	var names string
	f := flag.NewFlagSet("jobs", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the caller prints an error in one line
	f.StringVar(&names, "system", "", "only these `systems`, as in golda,river (all)")
	f.IntVar(&c.rounds, "rounds", 3, "how many `rounds`")
	f.IntVar(&c.jobs, "jobs", 5000, "how many `jobs`; the parts with slow jobs and with kills have half of them")
	f.IntVar(&c.kills, "kills", 5, "how many `kills`")
	f.IntVar(&c.atOnce, "at-once", 16, "how many `jobs` are handled at once")
	f.IntVar(&c.inFlight, "in-flight", 2, "Golda: MaxInFlight of an inlet, as a multiple of -at-once")
	f.BoolVar(&c.sync, "sync", false, "each write is synced to the disk, as against once a second or less")
	f.BoolVar(&c.moment, "moment", false, "do everything for a moment only, to check that it runs; the figures mean nothing")
	f.DurationVar(&c.patience, "patience", 4*time.Minute, "how `long` nothing may move after the last kill before the part ends")
	f.StringVar(&c.report, "report", "", "replace the figures in this `file`, too")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			help(f, stdout)
		}
		return config{}, err
	}
	if c.moment {
		c.rounds, c.jobs, c.kills, c.patience = 1, 200, 1, 3*time.Second
	}
	var unknown error
	c.systems, unknown = chosen(names)
	return c, errors.Join(unknown, c.check(f))
}

func (c config) check(f *flag.FlagSet) error {
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("stray argument %q; everything is set with flags, see -help", f.Arg(0))
	case c.rounds < 1 || c.jobs < 2 || c.kills < 0 || c.atOnce < 1 || c.inFlight < 1 || c.patience <= 0:
		return errors.New("-rounds, -at-once, -in-flight and -patience must be positive, -jobs at least 2, and -kills not negative")
	case c.moment && c.report != "":
		return errors.New("-moment and -report: a moment is too short for figures")
	default:
		return nil
	}
}

func help(f *flag.FlagSet, w io.Writer) {
	_, _ = fmt.Fprintln(w, "jobs does the same work on job queues.")
	f.SetOutput(w)
	f.PrintDefaults()
	_, _ = fmt.Fprintln(w, "Systems:")
	for _, s := range systems() {
		_, _ = fmt.Fprintf(w, "  %-10s %s\n", s.name, s.what)
	}
}

// chosen finds systems by their names, in the order of the list.
func chosen(list string) ([]system, error) {
	all := systems()
	if list == "" {
		return all, nil
	}
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(s system) bool { return s.name == name }) {
			return nil, fmt.Errorf("-system %s: unknown system; see -help", name)
		}
	}
	return slices.DeleteFunc(all, func(s system) bool { return !slices.Contains(wanted, s.name) }), nil
}
