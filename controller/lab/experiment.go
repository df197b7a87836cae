package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
	"github.com/golda-dev/golda/pipeline"
)

// Experiment describes a comparison. Pipeline, Workload, Length and at least one
// policy are required.
type Experiment struct {
	Title string // of the report; default "Policies under " and the workload

	// Pipeline makes a pipeline for one run, and the function that sends a
	// request to it. It must give control to pipeline.New: the part has the
	// policies of the run. It is called once for each run, and one at a time.
	Pipeline func(control pipeline.Part) (*pipeline.Pipeline, Send, error)

	Workload Workload

	// Policies are names of package policy, such as "seda" or "seda:cruz".
	// Several policies that work together are joined by "+":
	// "backlog+batching".
	Policies []string
	// Candidates are further policies, with parameters of their own.
	Candidates []Candidate

	Length   time.Duration // of a run, from its first request to its last one
	Warmup   time.Duration // at the start of a run, not measured; default a tenth of Length
	Deadline time.Duration // a later answer is not good; default 1 s
	Runs     int           // of each candidate; default 5
	Seed     uint64        // of the first run; each further run has the next one

	// Classes are the shares of the requests of each class, for the fairness
	// between them. The shares are relative: their sum does not matter.
	Classes map[string]float64

	// Late is how late a request may be sent. A run in which more than one
	// request of a hundred is later is measured again, and after three such
	// runs Compare returns ErrLate. Default 20 ms.
	Late time.Duration
	// Patience is how long the lab waits for answers after the last request of
	// a run, and then for the pipeline to stop. Default Length and 30 s.
	Patience time.Duration

	// Model is a model of the pipeline, which the lab also runs in virtual time:
	// the report then has a simulated figure beside a measured one. The lab sets
	// the load of its first source, or of its first stage if it has no source,
	// its seed, length, warm-up and policy. Nil: nothing is simulated. A policy
	// that the simulator cannot run has no simulated figures.
	Model *simulator.Model

	// Progress is written a line for each run. On a terminal there is one line,
	// which changes. Nil: no progress is written.
	Progress io.Writer
}

// Send sends a request and returns when the pipeline has ended the command that
// it led to: the error of stage.Call, for example. It is called on a goroutine
// of its own for each request, so it may block. ctx ends if the experiment is
// given up.
//
// A nil error is an answer. An error that is stage.Overloaded is a refusal, and
// each other error a failure; both are counted and measured, and are no reason
// to give up.
type Send func(ctx context.Context, r Request) error

// Request is one request of a run. The requests of the first run are the same
// for each candidate, and so are the requests of each further run.
type Request struct {
	N     int           // 0, 1, 2, … in the order of their times
	At    time.Duration // when it should be sent, since the start of the run
	Class string        // one of Experiment.Classes
	Seed  uint64        // a random number of its own, for how much work it is
}

// Candidate is one side of a comparison: one policy, or several that work together as
// with pipeline.Control.
type Candidate struct {
	Name     string
	Policies []controller.Policy
}

// Bounds of an experiment.
const (
	mostRuns     = 1000
	mostLength   = 24 * time.Hour
	mostInFlight = 1 << 17 // requests that wait for an answer: each has a goroutine
	tries        = 3       // for each run, if the generator is late
	lateShare    = 0.01    // of the requests of a run
)

// withDefaults returns the experiment with all defaults filled in.
func (e Experiment) withDefaults() Experiment {
	if e.Length == 0 {
		e.Length = e.Workload.length
	}
	if e.Title == "" {
		e.Title = "Policies under " + e.Workload.String()
	}
	e.Warmup = orDefault(e.Warmup, e.Length/10)
	e.Deadline = orDefault(e.Deadline, time.Second)
	e.Runs = orDefault(e.Runs, 5)
	e.Late = orDefault(e.Late, 20*time.Millisecond)
	e.Patience = orDefault(e.Patience, e.Length+30*time.Second)
	if e.Progress == nil {
		e.Progress = io.Discard
	}
	return e
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// candidates returns the candidates of both lists, and all faults of the
// experiment at once.
func (e Experiment) candidates() ([]Candidate, error) {
	faults := []error{
		fault(e.Pipeline == nil, "Pipeline is missing: a function that makes the pipeline of a run"),
		e.Workload.check(e.Length),
		fault(e.Length <= 0 || e.Length > mostLength, "Length is %v: it is how long a run lasts, and must be above 0 and at most %v", e.Length, mostLength),
		fault(e.Warmup < 0 || e.Warmup >= e.Length && e.Length > 0, "Warmup is %v, and must be from 0 to less than Length, which is %v", e.Warmup, e.Length),
		fault(e.Runs < 1 || e.Runs > mostRuns, "Runs is %d, and must be from 1 to %d", e.Runs, mostRuns),
		fault(min(e.Deadline, e.Late, e.Patience) < 0, "Deadline %v, Late %v and Patience %v must not be negative", e.Deadline, e.Late, e.Patience),
		checkClasses(e.Classes),
	}
	var all []Candidate
	for _, name := range e.Policies {
		c, err := byName(name)
		faults = append(faults, err)
		all = append(all, c)
	}
	all = append(all, e.Candidates...)
	faults = append(faults, fault(len(all) == 0, "there is no policy to compare: name some in Policies or in Candidates"))
	seen := map[string]bool{}
	for i, c := range all {
		faults = append(faults,
			fault(c.Name == "", "candidate %d has no name", i+1),
			fault(seen[c.Name] && c.Name != "", "candidate %q is there twice: give each a name of its own", c.Name),
			fault(i >= len(e.Policies) && len(c.Policies) == 0, "candidate %q has no policies", c.Name))
		seen[c.Name] = true
		for _, p := range c.Policies {
			faults = append(faults, checkPolicy(c.Name, p))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return all, e.checkModel()
}

// byName returns the candidate of some names that are joined by "+".
func byName(names string) (Candidate, error) {
	c := Candidate{Name: names}
	for name := range strings.SplitSeq(names, "+") {
		p, err := policy.ByName(strings.TrimSpace(name))
		if err != nil {
			return c, fmt.Errorf("lab: Policies has %q: %w", names, err)
		}
		c.Policies = append(c.Policies, p)
	}
	return c, nil
}

func checkPolicy(candidate string, p controller.Policy) error {
	if p == nil {
		return fault(true, "candidate %q has a policy that is nil", candidate)
	}
	if err := p.Check(); err != nil {
		return fmt.Errorf("lab: candidate %q: %w", candidate, err)
	}
	return nil
}

func checkClasses(classes map[string]float64) error {
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		share := classes[name]
		if !(share >= 0 && share <= 1e9) {
			return fault(true, "class %q has the share %v", name, share)
		}
		sum += share
	}
	return fault(len(classes) > 0 && sum == 0, "no class has a share above 0")
}

// fault returns an error if something is wrong.
func fault(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return fmt.Errorf("lab: "+format, args...)
}
