package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// config holds the values of the flags.
type config struct {
	works  []work
	impls  []implementation
	rounds int
	json   bool
	report string // where to write the page of figures; empty: nowhere
	moment bool
	// cpuprofile is where the measuring process writes its profile; empty:
	// nowhere.
	cpuprofile string
}

// parse turns arguments into a config, or returns an error for wrong arguments.
func parse(args []string, stdout io.Writer) (config, error) {
	var c config
	var names, impls string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the caller prints an error in one line
	f.StringVar(&names, "work", "", "only these `works`, as in W1,W2; W9 is W9p and W9v (all)")
	f.StringVar(&impls, "impl", "", "only these `implementations`, as in golda,chan (all)")
	f.IntVar(&c.rounds, "rounds", 3, "how many `rounds`")
	f.BoolVar(&c.json, "json", false, "print one JSON object per work and implementation instead of the tables")
	f.StringVar(&c.report, "report", "", "write the page of figures to this `file`, too")
	f.BoolVar(&c.moment, "moment", false, "do everything for a moment only, to check that it runs; the figures mean nothing")
	f.StringVar(&c.cpuprofile, "cpuprofile", "",
		"write the CPU profile of one work on one implementation to this `file`, that of the last round")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			help(f, stdout)
		}
		return config{}, err
	}
	var unknown, strange error
	c.works, unknown = chosenWorks(names)
	c.impls, strange = chosenImplementations(impls)
	return c, errors.Join(unknown, strange, c.check(f), within("-report", c.report), within("-cpuprofile", c.cpuprofile))
}

// within checks that the directory of a file exists, before minutes are spent
// on its content.
func within(name, file string) error {
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (c config) check(f *flag.FlagSet) error {
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("stray argument %q; everything is set with flags, see -help", f.Arg(0))
	case c.rounds < 1:
		return fmt.Errorf("-rounds %d: at least 1 round", c.rounds)
	case c.moment && c.report != "":
		return errors.New("-moment and -report: a moment is too short for figures")
	case c.cpuprofile != "" && (len(c.works) > 1 || len(c.impls) > 1):
		return errors.New("-cpuprofile: only of one work on one implementation; choose them with -work and -impl")
	case c.moment && c.cpuprofile != "":
		return errors.New("-moment and -cpuprofile: a moment is too short for a profile")
	case !c.canMeasure():
		return errors.New("none of these implementations takes part in any of these works")
	default:
		return nil
	}
}

// canMeasure reports whether there is anything to measure.
func (c config) canMeasure() bool {
	return len(c.works) == 0 || len(c.impls) == 0 || // otherwise there is an error already
		slices.ContainsFunc(c.works, func(w work) bool {
			return slices.ContainsFunc(c.impls, func(i implementation) bool {
				_, ok := w.takes(i)
				return ok
			})
		})
}

func help(f *flag.FlagSet, w io.Writer) {
	_, _ = fmt.Fprintln(w, "bench does the same work on Golda and on alternatives.")
	f.SetOutput(w)
	f.PrintDefaults()
	_, _ = fmt.Fprintln(w, "Works:")
	for _, one := range works() {
		_, _ = fmt.Fprintf(w, "  %-4s %s\n", one.name, one.title)
	}
	_, _ = fmt.Fprintln(w, "Implementations:")
	for _, one := range implementations() {
		_, _ = fmt.Fprintf(w, "  %-15s %s\n", one.name, one.what)
	}
}

// chosenWorks finds works by their names, in the order of the suite. A name
// without its last letter means all works that start with it.
func chosenWorks(list string) ([]work, error) {
	all := works()
	if list == "" {
		return all, nil
	}
	wanted, err := split("-work", list)
	if err != nil {
		return nil, err
	}
	means := func(name string, w work) bool { return w.name == name || strings.TrimRight(w.name, "pv") == name }
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(w work) bool { return means(name, w) }) {
			return nil, fmt.Errorf("-work %s: unknown work; see -help", name)
		}
	}
	return slices.DeleteFunc(all, func(w work) bool {
		return !slices.ContainsFunc(wanted, func(name string) bool { return means(name, w) })
	}), nil
}

func chosenImplementations(list string) ([]implementation, error) {
	all := implementations()
	if list == "" {
		return all, nil
	}
	wanted, err := split("-impl", list)
	if err != nil {
		return nil, err
	}
	for _, name := range wanted {
		if !slices.Contains(implementationNames(), name) {
			return nil, fmt.Errorf("-impl %s: unknown implementation; known are %s",
				name, strings.Join(implementationNames(), ", "))
		}
	}
	return slices.DeleteFunc(all, func(i implementation) bool { return !slices.Contains(wanted, i.name) }), nil
}

// split splits the list of a flag. It refuses an empty name, because a name may
// be missing.
func split(name, list string) ([]string, error) {
	parts := strings.Split(list, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
		if parts[i] == "" {
			return nil, fmt.Errorf("%s %q: empty name", name, list)
		}
	}
	return parts, nil
}
