package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

const defaultDrawn = 200 // captchas that are drawn when there is neither -in nor -n

// config is what the flags say.
type config struct {
	in       string // take the images from here; "": draw captchas
	out      string
	captchas string // where captchas are drawn
	n        int    // how many images; 0: all there are
	size     sizeSet
	seed     uint64
	workers  int // the most that a stage may have
	policy   controller.Policy
	crash    float64
	json     bool
	metrics  string // address to serve metrics at; "": nowhere
}

// parse turns arguments into a config, or says what is wrong with them, all of it.
// [flag.ErrHelp] means that help was asked for and given.
func parse(args []string, stdout io.Writer) (config, error) {
	c := config{n: defaultDrawn}
	var size, law string
	f := flag.NewFlagSet("images", flag.ContinueOnError)
	f.SetOutput(io.Discard) // an error is told in one line, by the caller
	f.StringVar(&c.in, "in", "", "take the JPEG, PNG and GIF files in this `directory`; without it, captchas are drawn")
	f.StringVar(&c.out, "out", filepath.Join("out", "images"), "write PNG files into this `directory`")
	f.StringVar(&c.captchas, "captchas", filepath.Join("out", "captchas"), "draw captchas into this `directory` (without -in)")
	f.IntVar(&c.n, "n", defaultDrawn, "how many `images` to draw; with -in: to take, in the order of their names, all if not given")
	f.StringVar(&size, "size", string(sizeSmall), "draw captchas of this `size`: small (256×80) or uniform (up to 2560×1600)")
	f.Uint64Var(&c.seed, "seed", 1, "`seed` of the captchas and of the crashes: the same seed, the same run")
	f.IntVar(&c.workers, "workers", 2*runtime.GOMAXPROCS(0), "the most `workers` that a stage may have")
	f.StringVar(&law, "policy", policy.ERLDA{}.Name(), "the `policy` that sets the number of workers: "+strings.Join(policy.Names(), ", "))
	f.Float64Var(&c.crash, "crash", 0, "let this `fraction` of the images crash a handler at its first attempt, 0 to 1")
	f.BoolVar(&c.json, "json", false, "print one JSON object instead of the table")
	f.StringVar(&c.metrics, "metrics", "", "serve Prometheus metrics at this `address` (such as 127.0.0.1:9090), path /metrics")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			help(f, stdout)
		}
		return config{}, err
	}
	if c.in != "" && !given(f, "n") {
		c.n = 0
	}
	c.size = sizeSet(size)
	var err error
	c.policy, err = policy.ByName(law)
	return c, errors.Join(strays(f), err, c.check(given(f, "n")))
}

func help(f *flag.FlagSet, w io.Writer) {
	_, _ = fmt.Fprintln(w, "images sends captchas through the seven stages of LEDA's image application.")
	f.SetOutput(w)
	f.PrintDefaults()
}

func given(f *flag.FlagSet, name string) (found bool) {
	f.Visit(func(set *flag.Flag) { found = found || set.Name == name })
	return found
}

func strays(f *flag.FlagSet) error {
	return fault(f.NArg() > 0, "stray argument %q; all there is to say is said with flags, see -help", f.Arg(0))
}

func (c config) check(countGiven bool) error {
	return errors.Join(
		fault(countGiven && c.n < 1, "-n %d: at least 1 image", c.n),
		fault(c.workers < 1, "-workers %d: at least 1 worker", c.workers),
		fault(!slices.Contains(sizeSets, c.size), "-size %q: known are small and uniform", c.size),
		fault(!(c.crash >= 0 && c.crash <= 1), "-crash %v: a fraction from 0 to 1", c.crash), // not a number is no fraction
		fault(c.out == "", "-out: a directory is needed"),
		fault(c.in == "" && c.captchas == "", "-captchas: a directory is needed"),
		c.checkIn(),
	)
}

func (c config) checkIn() error {
	if c.in == "" {
		return nil
	}
	info, err := os.Stat(c.in)
	if err != nil {
		return fmt.Errorf("-in: %w", err)
	}
	return fault(!info.IsDir(), "-in: %s is not a directory", c.in)
}

func fault(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return fmt.Errorf(format, args...)
}
