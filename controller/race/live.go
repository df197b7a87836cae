package race

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/pipeline"
)

// Live records a pipeline that runs for as long as the aim says, and replays the
// load in virtual time under its policy and under others: the given ones or, if
// there are none, policies of each kind that package policy has. The program
// goes on meanwhile, and nothing in the pipeline changes; Pipeline.SetPolicy
// follows the advice of the report.
//
// # The model
//
// Live makes the model of the pipeline itself. It reads a snapshot fifty times a
// second: the accepted and refused commands of each stage are the arrivals, to
// a fiftieth of a second, and the histogram of its handlers their times, to a
// sixteenth. The graph and the shares of its edges, workers, groups, capacities,
// retries, rates and times to live are as the options have them. Handlers of
// stages without stage.Blocking compete for the CPUs for as much of their time
// as the process has computed meanwhile.
//
// [Report.Missing] lists the properties that the model lacks: stages of other
// processes, handlers that suspend, orders that depend on commands, callers
// that waited while a queue was full, and so on. It also lists the stages that
// handled another number of commands than in the model under the present
// policy. Live cannot see that handlers call stages, that a behaviour.Batcher
// gains by larger batches, and that handlers are slower if more of them run;
// handlers that compete for a lock or a database look better with more workers
// than they are.
//
// # Cost
//
// A snapshot takes some microseconds a stage. The replay takes one CPU, about a
// second for each million commands and stages, policies times runs. Live returns
// an error if ctx ends or the pipeline stops before it is done, if the pipeline
// does not run, or if fewer than two commands have arrived.
func Live(ctx context.Context, p *pipeline.Pipeline, aim Aim, others ...controller.Policy) (*Report, error) {
	link.CheckContext(ctx, "race: Live")
	aim, err := aim.check()
	if err != nil {
		return nil, err
	}
	w := newWatch(p, aim.Seed)
	if err := w.record(ctx, aim.For); err != nil {
		return nil, err
	}
	policies, groups := w.of.Policies()
	present := joint(policies.([]controller.Policy))
	aim = w.aimAt(aim, policies.([]controller.Policy))
	if len(others) == 0 {
		others = candidates(aim, present)
	}
	m := w.model(groups)
	m.Policy = present
	if n := w.rec.count(); n < 2 {
		return nil, fmt.Errorf("race: pipeline %q got %d commands in %v; record for longer, by Aim.For", p.Name(), n, aim.For)
	}
	report, as, err := run(ctx, m, &w.rec, others, aim)
	if err != nil {
		return nil, err
	}
	w.compare(as)
	report.Missing = w.missing
	return report, nil
}

// count returns how many commands have arrived.
func (r *Recording) count() (n int) {
	for _, all := range r.entries {
		n += len(all)
	}
	return n
}

// candidates returns the policies that are raced if the caller names none: one of
// each kind, with their defaults.
func candidates(aim Aim, present controller.Policy) []controller.Policy {
	all := []controller.Policy{
		policy.Objective{Within: aim.Within}, policy.Backlog{}, policy.SEDA{}, policy.DS2{}, policy.CoDel{}, policy.SRPT{}, policy.Fixed{},
	}
	return slices.DeleteFunc(all, func(p controller.Policy) bool { return p.Name() == present.Name() })
}

// aimAt completes the aim by the pipeline's objective.
func (w *watch) aimAt(aim Aim, policies []controller.Policy) Aim {
	for _, p := range policies {
		o, ok := p.(policy.Objective)
		if !ok {
			continue
		}
		if o.Stage != "" {
			w.miss("the objective is about stage %q, and the policies are ranked by the whole way of a command", o.Stage)
		}
		if aim.Within == 0 {
			if aim.Within = o.Within; aim.Within == 0 {
				aim.Within = 500 * time.Millisecond // as package policy has it
			}
		}
	}
	return aim
}

// joint returns the policies of a pipeline as one.
func joint(all []controller.Policy) controller.Policy {
	if len(all) == 1 {
		return all[0]
	}
	s := several{}
	for i, p := range all {
		if i > 0 {
			s.name += "+"
		}
		s.name += p.Name()
	}
	return s
}

// several are policies that work together. They are not simulated.
type several struct{ name string }

// Name returns the names.
func (s several) Name() string { return s.name }

// Check refuses to run.
func (several) Check() error { return errors.New("several policies together are not simulated") }

// New is never called.
func (several) New() controller.Controller { return nil }

// every is the time between two snapshots.
const every = 20 * time.Millisecond

// watch records a pipeline.
type watch struct {
	p           *pipeline.Pipeline
	of          link.Operated
	random      *rand.Rand
	first, last pipeline.Snapshot
	setups      map[string]link.Setup
	rec         Recording
	waited      map[string]int // snapshots in which callers waited at a stage
	snapshots   int
	missing     []string
	handled     map[string]float64 // a second, by stage
}

func newWatch(p *pipeline.Pipeline, seed uint64) *watch {
	return &watch{
		p: p, of: link.Operate(p), random: rand.New(rand.NewPCG(seed, 0)), setups: map[string]link.Setup{}, waited: map[string]int{},
		handled: map[string]float64{},
		rec: Recording{
			Services: map[string][]time.Duration{}, entries: map[string][]time.Duration{}, computes: map[string]float64{},
		},
	}
}

// miss notes something that the model has not.
func (w *watch) miss(format string, args ...any) {
	w.missing = append(w.missing, fmt.Sprintf(format, args...))
}

// record reads snapshots for a time.
func (w *watch) record(ctx context.Context, d time.Duration) error {
	select {
	case <-w.p.Started():
	default:
		return fmt.Errorf("race: pipeline %q: %w", w.p.Name(), pipeline.ErrNotRunning)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	w.first = w.p.Snapshot()
	w.last = w.first
	for w.last.At.Sub(w.first.At) < d {
		select {
		case <-ctx.Done():
			return fmt.Errorf("race: %w", context.Cause(ctx))
		case <-w.p.Done():
			return fmt.Errorf("race: pipeline %q ended while it was recorded: %w", w.p.Name(), pipeline.ErrStopped)
		case <-tick.C:
			w.add(w.p.Snapshot())
		}
	}
	w.rec.lasted = w.last.At.Sub(w.first.At)
	return nil
}

// add adds the difference between a snapshot and the one before to the
// recording.
func (w *watch) add(s pipeline.Snapshot) {
	from, span := w.last.At.Sub(w.first.At), s.At.Sub(w.last.At)
	w.snapshots++
	for i := range s.Stages {
		st := &s.Stages[i]
		if st.Queue.Submitters > 0 {
			w.waited[st.Name]++
		}
		old := find(&w.last, st.Name)
		if old == nil || st.Process != "" {
			continue
		}
		w.arrive(st.Name, from, span, st.Counts.Submitted+st.Counts.Rejected-old.Counts.Submitted-old.Counts.Rejected)
		w.serve(st.Name, st.Latency.Service.Since(old.Latency.Service))
	}
	w.last = s
}

// arrive adds commands that have arrived some time in a span.
func (w *watch) arrive(stage string, from, span time.Duration, n uint64) {
	if n == 0 || span <= 0 {
		return
	}
	all := w.rec.entries[stage]
	begin := len(all)
	for range n {
		all = append(all, from+time.Duration(w.random.Int64N(int64(span))))
	}
	slices.Sort(all[begin:])
	w.rec.entries[stage] = all
}
