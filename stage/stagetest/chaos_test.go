package stagetest_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/golda-dev/golda/stage/stagetest"
)

var (
	chaosFor  = flag.Duration("chaos.for", 0, "for how long to try random plans; 0 is a minute with the race detector, a few seconds without")
	chaosSeed = flag.Uint64("chaos.seed", 1, "the seed of the first round of plans; 0 takes the clock's")
)

// perRound is how many plans share one seed: running the round again finds a failure again.
const perRound = 20

// lasting returns how long plans are run.
func lasting() time.Duration {
	switch {
	case *chaosFor > 0:
		return *chaosFor
	case raced && !testing.Short():
		return time.Minute
	default:
		return 5 * time.Second
	}
}

// TestNoPlanBreaksAPromise runs random plans for a while.
func TestNoPlanBreaksAPromise(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1e9
	}
	var total stagetest.Report
	began, told := time.Now(), time.Now()
	for round := uint64(0); time.Since(began) < lasting() && !t.Failed(); round++ {
		c := chaos{t: t, seed: seed + round, total: &total}
		c.round()
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Fprintf(os.Stderr, "chaos, %v: %v\n", time.Since(began).Round(time.Second), &total)
		}
	}
	fmt.Fprintf(os.Stderr, "chaos, %v, seeds %d and up: %v\n", time.Since(began).Round(time.Second), seed, &total)
}

// chaos runs one round of plans.
type chaos struct {
	t     *testing.T
	seed  uint64
	total *stagetest.Report

	failed bool // a plan has failed, so plans are run several times while rapid shrinks the failure
	plan   stagetest.Plan
	story  error
}

// tries is how often a smaller plan is run before it counts as passing: a race does not show each time.
const tries = 8

func (c *chaos) round() {
	set(c.t, "rapid.checks", perRound)
	set(c.t, "rapid.seed", c.seed)
	set(c.t, "rapid.nofailfile", true)
	c.t.Run(fmt.Sprintf("seed %d", c.seed), func(t *testing.T) {
		defer func() {
			if c.failed {
				t.Logf("the smallest plan that failed:\n%v\n\nwhat it broke:\n%v\n\nto run it again: go test -race -run NoPlanBreaks ./stage/stagetest -chaos.seed=%d -chaos.for=1s",
					c.plan, c.story, c.seed)
			}
		}()
		rapid.Check(t, c.check)
	})
}

func (c *chaos) check(t *rapid.T) {
	plan := stagetest.Plans().Draw(t, "plan")
	times := 1
	if c.failed {
		times, plan.Patience = tries, 3*time.Second
	}
	for range times {
		report, err := plan.Run()
		if !c.failed {
			c.total.Add(report)
		}
		if err != nil {
			c.failed, c.plan, c.story = true, plan, err
			v, _ := errors.AsType[stagetest.VerdictError](err)
			t.Fatalf("broken: %s", v.Promises())
		}
	}
}

func set(t *testing.T, name string, value any) {
	t.Helper()
	if err := flag.Set(name, fmt.Sprint(value)); err != nil {
		t.Fatal(err)
	}
}
