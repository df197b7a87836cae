// Lab compares policies on a small pipeline, under one of ten loads, and writes
// a table, and a page with plots.
//
//	go run ./examples/lab                                    # the default: about 20 seconds
//	go run ./examples/lab -workload overload -policies none,rt90,codel,limit,shed,objective -peak 10
//	go run ./examples/lab -workload tail -policies color,srpt -runs 9 -json
//	go run ./examples/lab -trace times.txt                   # a time a line, in seconds
//	go run ./examples/lab -tables                            # the tables of the dissertation, beside ours
//
// The pipelines are in workloads.go. A comparison on a pipeline of your own
// needs the ten lines of func compare and of func build.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/lab"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/lab/tables"
	"github.com/golda-dev/golda/pipeline"
)

const about = "lab compares policies on a small pipeline, under a load."

func main() { show.Main(run) }

// config holds the values of the flags.
type config struct {
	workload workload
	trace    string // file; empty: the load of the workload

	candidates []lab.Candidate
	length     time.Duration
	warmup     time.Duration
	runs       int
	seed       uint64
	late       time.Duration
	out        string // the page; empty: none is written
	json       bool
	servers    bool // compare servers instead of policies

	tables *tables.Options // measure the tables of the dissertation instead; nil: do not
	page   string          // of the tables, in Markdown; empty: none is written
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stdout)
	if err != nil {
		return show.Usage(stderr, "lab", err)
	}
	measure := compare
	if c.servers {
		measure = compareServers
	}
	if c.tables != nil {
		err = c.runTables(ctx, stdout, stderr)
	} else {
		var report *lab.Report
		if report, err = measure(ctx, c, stderr); err == nil {
			err = c.write(report, stdout, stderr)
		}
	}
	if ctx.Err() != nil {
		return show.StatusInterrupted
	}
	return show.Status(stderr, "lab", err)
}

// compare compares the policies.
func compare(ctx context.Context, c config, progress io.Writer) (*lab.Report, error) {
	load := c.workload.load
	if c.workload.peak > 0 {
		load = burst(0.5, c.workload.peak, 0.2, 0.7)
	}
	requests := load(c.workload.capacity(), c.length)
	if c.trace != "" {
		requests = lab.TraceFile(c.trace)
	}
	return lab.Compare(ctx, lab.Experiment{
		Title: fmt.Sprintf("Policies under the workload %s: %s. The capacity is %.0f/s.", c.workload.name, c.workload.about, c.workload.capacity()),
		Pipeline: func(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
			return c.workload.build(control, c.length)
		},
		Workload: requests, Candidates: c.candidates, Classes: c.workload.classes, Deadline: c.workload.deadline,
		Model: c.model(), Length: c.length, Warmup: c.warmup, Runs: c.runs, Seed: c.seed, Late: c.late, Progress: progress,
	})
}

// model returns the model of the workload, if the simulator can do its load.
func (c config) model() *simulator.Model {
	if c.trace != "" {
		return nil
	}
	return c.workload.model()
}

// write writes the table or the JSON, and the page.
func (c config) write(report *lab.Report, stdout, stderr io.Writer) (err error) {
	if c.json {
		err = json.NewEncoder(stdout).Encode(report)
	} else {
		_, err = fmt.Fprint(stdout, report)
	}
	if err != nil || c.out == "" {
		return err
	}
	if err := writeFile(c.out, report.WriteHTML); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "the plots are in %s\n", c.out)
	return err
}

// parse turns arguments into a config, or returns everything that is wrong with
// them.
func parse(args []string, stdout io.Writer) (config, error) {
	var c config
	var name, policies string
	var peak float64
	f := flag.NewFlagSet("lab", flag.ContinueOnError)
	f.StringVar(&name, "workload", "blocking", "the `workload`:\n"+list())
	f.StringVar(&c.trace, "trace", "", "send requests at the times in this `file`, one a line, in seconds or as a duration, instead of the load of the workload")
	f.StringVar(&policies, "policies", "fixed,backlog,seda,srpt", "compare these `policies`; several that work together are joined by +, and none is one that changes nothing. Known are "+strings.Join(policy.Names(), ", "))
	f.DurationVar(&c.length, "length", 0, "`length` of a run (default as the workload has it, 1.5s or 20s)")
	f.DurationVar(&c.warmup, "warmup", 0, "the `time` at the start of a run that is not measured (default a tenth of it)")
	f.Float64Var(&peak, "peak", 0, "how many `times` the capacity the burst of the workload overload is (default 2)")
	f.IntVar(&c.runs, "runs", 3, "`runs` of each policy; more make the intervals surer")
	f.Uint64Var(&c.seed, "seed", 1, "`seed` of the first run: the same seed, the same requests")
	f.DurationVar(&c.late, "late", 50*time.Millisecond, "a run is measured again if more than one request of a hundred is sent later than this `time`")
	f.BoolVar(&c.servers, "servers", false, "compare servers instead of policies: one handler under net/http, netutil.LimitListener, failsafe-go's adaptive limiter, and adapter/http with an objective, with the load of the workload overload")
	f.StringVar(&c.out, "out", filepath.Join("out", "lab.html"), "write a page with plots to this `file`; empty: write none")
	f.BoolVar(&c.json, "json", false, "print one JSON object instead of the table")
	t := tableFlags(f)
	if err := show.Parse(f, args, about, stdout); err != nil {
		return c, err
	}
	if t.given() {
		return c.withTables(f, t)
	}
	var faults error
	if c.servers {
		name = overload
	}
	i := slices.IndexFunc(workloads(), func(w workload) bool { return w.name == name })
	if i >= 0 {
		c.workload = workloads()[i]
	}
	c.length = cmp.Or(c.length, c.workload.length, 1500*time.Millisecond)
	changeable := c.workload.peak > 0
	c.workload.peak = cmp.Or(peak, c.workload.peak)
	c.candidates, faults = candidates(policies, c.workload.deadline)
	return c, errors.Join(show.NoArguments(f),
		show.Fault(i < 0, "-workload: unknown workload %q; known are %s", name, strings.Join(names(), ", ")),
		show.Fault(faults == nil && len(c.candidates) == 0, "-policies: at least one policy is needed"),
		faults,
		show.Fault(peak != 0 && !(changeable && peak > 0), "-peak: %v is not above 0, or the workload %q has none", peak, name),
		show.Fault(c.warmup < 0 || c.warmup > 0 && c.warmup >= c.length, "-warmup: %v is not from 0 to the length of a run", c.warmup),
		show.Fault(c.length <= 0, "-length: %v is no length of a run", c.length),
		show.Fault(c.runs < 1, "-runs: %d runs; at least 1 is needed", c.runs),
		show.Fault(c.late <= 0, "-late: %v must be above 0", c.late))
}

// candidates finds the policies of a list, or returns an error for each one that
// does not exist.
func candidates(list string, deadline time.Duration) (all []lab.Candidate, err error) {
	for _, names := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		c := lab.Candidate{Name: names}
		for name := range strings.SplitSeq(names, "+") {
			if name == none {
				name = policy.Fixed{}.Name()
			}
			p, fault := policy.ByName(name)
			if fault != nil {
				err = errors.Join(err, fmt.Errorf("-policies: %w", fault))
			}
			c.Policies = append(c.Policies, aimed(p, deadline))
		}
		all = append(all, c)
	}
	return all, err
}

// aimed gives a policy that needs a target the deadline of the workload, if it
// has one, and ticks so short that it may learn of an overload before that.
func aimed(p controller.Policy, deadline time.Duration) controller.Policy {
	if deadline == 0 {
		return p
	}
	switch p.(type) {
	case policy.Objective:
		return policy.Objective{Within: deadline}
	case policy.RT90:
		return policy.RT90{Target: deadline * 7 / 10, Interval: deadline / 20}
	case policy.Shed:
		return policy.Shed{Target: deadline / 5, Interval: deadline / 20, After: deadline / 20}
	case policy.InFlight:
		return policy.InFlight{Within: deadline * 3 / 5, Interval: deadline / 20}
	default:
		return p
	}
}

// none is the name of a pipeline that adapts to nothing.
const none = "none"

// names returns the names of the workloads.
func names() (all []string) {
	for _, w := range workloads() {
		all = append(all, w.name)
	}
	return all
}

// list describes the workloads, one a line.
func list() string {
	var b strings.Builder
	for _, w := range workloads() {
		fmt.Fprintf(&b, "  %-9s %s\n", w.name, w.about)
	}
	return b.String()
}
