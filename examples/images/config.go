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
	"github.com/golda-dev/golda/examples/internal/show"
)

const defaultDrawn = 200 // captchas that are drawn when there is neither -in nor -n

// config is what the flags say.
type config struct {
	in       string // take the images from here; "": draw captchas
	out      string
	captchas string // where captchas are drawn
	n        int    // how many images; 0: all there are
	size     captcha.Sizes
	seed     uint64
	workers  int // the most that a stage may have
	policy   controller.Policy
	policies []controller.Policy // to be compared; nil: one policy is run
	crash    float64
	// maxPixels is how many pixels an image may have.
	maxPixels int
	json      bool
	metrics   string // address to serve metrics at; "": nowhere
}

// parse turns arguments into a config, or says what is wrong with them, all of it.
// [flag.ErrHelp] means that help was asked for and given.
func parse(args []string, stdout io.Writer) (config, error) {
	c := config{n: defaultDrawn}
	var size, law, laws string
	f := flag.NewFlagSet("images", flag.ContinueOnError)
	f.StringVar(&c.in, "in", "", "take the JPEG, PNG and GIF files in this `directory`; without it, captchas are drawn")
	f.StringVar(&c.out, "out", filepath.Join("out", "images"), "write PNG files into this `directory`")
	f.StringVar(&c.captchas, "captchas", filepath.Join("out", "captchas"), "draw captchas into this `directory` (without -in)")
	f.IntVar(&c.n, "n", defaultDrawn, "how many `images` to draw; with -in: to take, in the order of their names, all if not given")
	f.StringVar(&size, "size", string(captcha.Small), "draw captchas of this `size`: small (256×80) or uniform (up to 2560×1600)")
	f.Uint64Var(&c.seed, "seed", 1, "`seed` of the captchas and of the crashes: the same seed, the same run")
	f.IntVar(&c.workers, "workers", 2*runtime.GOMAXPROCS(0), "the most `workers` that a stage may have")
	f.StringVar(&law, "policy", policy.Backlog{}.Name(), "the `policy` that sets the number of workers: "+
		strings.Join(policy.Names(), ", "))
	f.StringVar(&laws, "policies", "", "compare these `policies`, as in seda,erlda; each has its own process, and directory in -out")
	f.IntVar(&c.maxPixels, "max-pixels", maxPixels, "refuse images that have, or claim, more `pixels` than this")
	f.Float64Var(&c.crash, "crash", 0, "let this `fraction` of the images crash a handler at its first attempt, 0 to 1")
	f.BoolVar(&c.json, "json", false, "print one JSON object instead of the table; with -policies one for each, a line each")
	f.StringVar(&c.metrics, "metrics", "", "serve Prometheus metrics at this `address` (such as 127.0.0.1:9090), path /metrics")
	if err := show.Parse(f, args, about, stdout); err != nil {
		return config{}, err
	}
	if c.in != "" && !given(f, "n") {
		c.n = 0
	}
	c.size = captcha.Sizes(size)
	var err error
	if given(f, "policies") {
		c.policies, err = byNames(laws)
	} else {
		c.policy, err = policy.ByName(law)
	}
	return c, errors.Join(show.NoArguments(f), err, contradictions(f), c.check(given(f, "n")))
}

// byNames finds several policies, or says what is wrong with each name.
func byNames(list string) (laws []controller.Policy, err error) {
	if strings.TrimSpace(list) == "" {
		return nil, errors.New("-policies: at least one policy is needed")
	}
	for name := range strings.SplitSeq(list, ",") {
		law, unknown := policy.ByName(strings.TrimSpace(name))
		switch {
		case unknown != nil:
			err = errors.Join(err, unknown)
		case slices.Contains(laws, law):
			err = errors.Join(err, fmt.Errorf("-policies: %s is there twice", law.Name()))
		default:
			laws = append(laws, law)
		}
	}
	return laws, err
}

// contradictions are what can't be told from the values of the flags alone.
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
		show.Fault(!slices.Contains(captcha.All, c.size), "-size %q: known are small and uniform", c.size),
		show.Fault(!(c.crash >= 0 && c.crash <= 1), "-crash %v: a fraction from 0 to 1", c.crash), // not a number is no fraction
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
