package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/golda-dev/golda/pipeline"
)

// ErrLate is the error of [Compare] for a generator that did not keep its
// schedule in any of three runs: the machine was busy, and the figures would
// describe the machine.
var ErrLate = errors.New("lab: the generator is late")

// trial is one run of one candidate.
type trial struct {
	experiment *Experiment
	candidate  Candidate
	seed       uint64

	pipeline  *pipeline.Pipeline
	generator *generator
	watch     *watch
	bursts    []span
}

// measure makes a pipeline, sends it the requests of the run, and returns the
// measurements, or the reason why there are none.
func (t *trial) measure(ctx context.Context) (*Run, error) {
	if err := t.prepare(); err != nil {
		return nil, err
	}
	runtime.GC() // the garbage of one run is no work of the next one
	if err := t.pipeline.Start(ctx); err != nil {
		return nil, fmt.Errorf("lab: the pipeline does not start: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := t.load(ctx, cancel)
	if err := errors.Join(err, t.stop(err == nil)); err != nil {
		cancel(err)
		t.generator.wait(context.Background(), t.experiment.Patience) // callers of a pipeline that has stopped return
		return nil, err
	}
	share, late := lateness(t.generator.answers, t.experiment.Late)
	if share > lateShare {
		return nil, fmt.Errorf("%w: %.1f %% of the requests were sent more than %v late, and at most %v %% may be; "+
			"free the machine of other load, send less, or allow more in Experiment.Late", ErrLate, 100*share, t.experiment.Late, 100*lateShare)
	}
	return t.result(late), nil
}

// prepare makes the pipeline and the requests.
func (t *trial) prepare() error {
	e := t.experiment
	times, bursts := e.Workload.schedule(t.seed, e.Length)
	t.bursts = bursts
	if len(times) == 0 || times[len(times)-1] < e.Warmup {
		return fault(true, "the workload %s sends nothing from the end of the warm-up, %v, to the end of the run, %v", e.Workload, e.Warmup, e.Length)
	}
	p, send, err := e.Pipeline(pipeline.Control(t.candidate.Policies[0], t.candidate.Policies[1:]...))
	switch {
	case err != nil:
		return fmt.Errorf("lab: Experiment.Pipeline: %w", err)
	case p == nil || send == nil:
		return fault(true, "Experiment.Pipeline returned no pipeline, or no function to send with")
	}
	if got, want := p.Snapshot().Policy, t.policies(); got != want {
		return fault(true, "the pipeline is controlled by %q instead of %q: Experiment.Pipeline must give pipeline.New the part that it is given", got, want)
	}
	t.pipeline, t.generator = p, newGenerator(requestsOf(times, e.Classes, t.seed), send)
	return nil
}

// policies returns the names of the policies as a snapshot has them.
func (t *trial) policies() string {
	var names []string
	for _, p := range t.candidate.Policies {
		names = append(names, p.Name())
	}
	return strings.Join(names, "+")
}

// load sends all requests and waits for their answers.
func (t *trial) load(ctx context.Context, cancel context.CancelCauseFunc) error {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-t.pipeline.Done():
			cancel(fault(true, "the pipeline ended while requests were sent: %v", t.pipeline.Ending()))
		case <-ended:
		}
	}()
	t.watch = startWatch(t.pipeline, time.Now(), t.experiment.Length)
	err := t.generator.run(ctx)
	if err == nil && !t.generator.wait(ctx, t.experiment.Patience) {
		if err = context.Cause(ctx); err == nil {
			err = fault(true, "%d requests have no answer %v after the last one was sent", t.generator.many.Load(), t.experiment.Patience)
		}
	}
	if fatal := t.generator.fatal.Load(); fatal != nil {
		err = *fatal
	}
	return errors.Join(err, t.watch.stop())
}

// stop stops the pipeline and checks its accounts. After a failure it stops
// hard.
func (t *trial) stop(drain bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), t.experiment.Patience)
	defer cancel()
	if !drain {
		cancel()
	}
	err := t.pipeline.Stop(ctx)
	s := t.pipeline.Snapshot()
	switch {
	case drain && err != nil:
		return fmt.Errorf("lab: the pipeline does not stop within %v of its last answer: %w", t.experiment.Patience, err)
	case !s.Balanced() || s.InFlight > 0:
		return fault(true, "the accounts of the pipeline do not add up after its end: %s", s.Law())
	default:
		return nil
	}
}
