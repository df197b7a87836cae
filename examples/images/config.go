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
	"github.com/golda-dev/golda/examples/images/captcha"
	"github.com/golda-dev/golda/examples/internal/board"
	"github.com/golda-dev/golda/examples/internal/show"
)

const defaultDrawn = 200 // captchas that are drawn when there is neither -in nor -n

// config holds the values of the flags.
type config struct {
	in       string // take the images from here; empty: draw captchas
	out      string
	captchas string // where captchas are drawn
	n        int    // how many images; 0: all
	size     captcha.Sizes
	seed     uint64
	workers  int // the most that a stage may have
	pool     int // workers that all stages share; 0: each stage has its own
	policy   controller.Policy
	policies []controller.Policy // to be compared; nil: one policy is run
	crash    float64
	// maxPixels is how many pixels an image may have.
	maxPixels int
	json      bool
	metrics   string // address to serve metrics at; empty: no metrics
	dashboard string // address to serve the dashboard at; empty: none
}

// parse turns arguments into a config, or returns everything that is wrong with
// them. [flag.ErrHelp] means that -help was given.
func parse(args []string, stdout io.Writer) (config, error) {
	c := config{n: defaultDrawn}
	var size, pol, pols string
	f := flag.NewFlagSet("images", flag.ContinueOnError)
	f.StringVar(&c.in, "in", "", "take the JPEG, PNG and GIF files in this `directory`; without it, captchas are drawn")
	f.StringVar(&c.out, "out", filepath.Join("out", "images"), "write PNG files into this `directory`")
	f.StringVar(&c.captchas, "captchas", filepath.Join("out", "captchas"), "draw captchas into this `directory` (without -in)")
	f.IntVar(&c.n, "n", defaultDrawn, "how many `images` to draw; with -in: to take, in the order of their names, by default all")
	f.StringVar(&size, "size", string(captcha.Small), "draw captchas of this `size`: small (256×80), uniform (up to 2560×1600) or pareto (most small, a few up to 2560×1600)")
	f.Uint64Var(&c.seed, "seed", 1, "`seed` of the captchas and of the crashes: the same seed, the same run")
	f.IntVar(&c.workers, "workers", 2*runtime.GOMAXPROCS(0), "the most `workers` that a stage may have")
	f.IntVar(&c.pool, "pool", 0, "have all stages share this number of `workers`; 0: each stage has its own, or the policy decides")
	f.StringVar(&pol, "policy", policy.Backlog{}.Name(), "the `policy` that sets the number of workers: "+
		strings.Join(policy.Names(), ", "))
	f.StringVar(&pols, "policies", "", "compare these `policies`, as in seda,erlda; each has its own process, and directory in -out")
	f.IntVar(&c.maxPixels, "max-pixels", maxPixels, "refuse images that have, or announce, more `pixels` than this")
	f.Float64Var(&c.crash, "crash", 0, "let this `fraction` of the images crash a handler at its first attempt, 0 to 1")
	f.BoolVar(&c.json, "json", false, "print one JSON object instead of the table; with -policies one for each, one a line")
	f.StringVar(&c.metrics, "metrics", "", "serve Prometheus metrics at this `address` (such as 127.0.0.1:9090), path /metrics")
	f.StringVar(&c.dashboard, "dashboard", "", board.Usage)
	if err := show.Parse(f, args, about, stdout); err != nil {
		return config{}, err
	}
	if c.in != "" && !given(f, "n") {
		c.n = 0
	}
	c.size = captcha.Sizes(size)
	var err error
	if given(f, "policies") {
		c.policies, err = byNames(pols)
	} else {
		c.policy, err = policy.ByName(pol)
	}
	return c, errors.Join(show.NoArguments(f), err, contradictions(f), c.check(given(f, "n")))
}

// byNames finds several policies, or returns an error that explains each wrong
// name.
func byNames(list string) (pols []controller.Policy, err error) {
	if strings.TrimSpace(list) == "" {
		return nil, errors.New("-policies: at least one policy is needed")
	}
	for name := range strings.SplitSeq(list, ",") {
		pol, unknown := policy.ByName(strings.TrimSpace(name))
		switch {
		case unknown != nil:
			err = errors.Join(err, unknown)
		case slices.Contains(pols, pol):
			err = errors.Join(err, fmt.Errorf("-policies: %s is named twice", pol.Name()))
		default:
			pols = append(pols, pol)
		}
	}
	return pols, err
}

// contradictions returns faults that the values of the flags alone do not show.
func contradictions(f *flag.FlagSet) error {
	return errors.Join(
		show.Fault(given(f, "policy") && given(f, "policies"), "-policy and -policies: one of the two"),
		show.Fault(given(f, "in") && f.Lookup("in").Value.String() == "", "-in: a directory is needed"),
	)
}

// about is the first line of the help.
const about = "images sends captchas through the seven stages of LEDA's image application."

func given(f *flag.FlagSet, name string) (found bool) {
	f.Visit(func(set *flag.Flag) { found = found || set.Name == name })
	return found
}

func (c config) check(countGiven bool) error {
	return errors.Join(
		show.Fault(countGiven && c.n < 1, "-n %d: at least 1 image", c.n),
		show.Fault(c.maxPixels < 1 || c.maxPixels > 1<<30, "-max-pixels %d: 1 to %d pixels", c.maxPixels, 1<<30),
		show.Fault(c.workers < 1, "-workers %d: at least 1 worker", c.workers),
		show.Fault(c.pool < 0, "-pool %d: at least 0 workers", c.pool),
		show.Fault(!slices.Contains(captcha.All, c.size), "-size %q: known are small, uniform and pareto", c.size),
		show.Fault(!(c.crash >= 0 && c.crash <= 1), "-crash %v: a fraction from 0 to 1", c.crash), // NaN is not a fraction
		show.Fault(c.out == "", "-out: a directory is needed"),
		show.Fault(c.in == "" && c.captchas == "", "-captchas: a directory is needed"),
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
	return show.Fault(!info.IsDir(), "-in: %s is not a directory", c.in)
}
