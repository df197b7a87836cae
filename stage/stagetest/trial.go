package stagetest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/goid"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
)

// Trial is a pipeline in a test that checks whether it keeps Golda's promises.
// Its methods are safe for concurrent use.
type Trial struct {
	*pipeline.Pipeline
	tb     testing.TB
	dog    *Watchdog
	stages []pipeline.Part // the stages that can be paused

	over     chan struct{} // closed when the test has ended
	reported chan struct{} // closed when the watchdog's finding has been reported
	hung     bool          // the watchdog found a breach; set before reported is closed
	virtual  bool          // it runs in a bubble
	mayCrash bool
	story    story

	meanwhile sync.WaitGroup  // what Meanwhile runs
	busy      context.Context // ends when that must end
	endBusy   context.CancelFunc

	mu      sync.Mutex // guards all fields below
	awaited []*stage.Ticket
	counts  map[string]uint64
	seeds   []uint64 // of Meanwhile
}

// Run makes a pipeline of the parts and starts it. When the test is over, it
// stops the pipeline and checks every promise: the accounts are balanced in all
// snapshots, in motion and at rest; the pipeline makes progress as long as
// commands are in flight; it drains within half a minute; awaited tickets have
// answers; no goroutine is left; and no handler has crashed but by a fault of
// [Inject], unless the parts have [MayCrash]. A test that fails also logs what
// the pipeline has logged and the letters that it has.
//
// In a bubble of testing/synctest the time of the pipeline is virtual:
// backoffs, time limits, schedules and rates take no time. All parts must be
// made in the bubble then.
//
//	synctest.Test(t, func(t *testing.T) {
//		fetch := stage.Map("fetch", get, stage.Retry(stage.RetryPolicy{Attempts: 5, Backoff: time.Hour}))
//		p := stagetest.Run(t, fetch)
//		_, err := fetch.Call(t.Context(), url) // returns after four hours and more, which take no time
//		...
//	})
//
// If the accounts are wrong, or nothing happens for 20 seconds ([Patience])
// although commands are in flight, the test fails at once, even while it is
// blocked. In a bubble these are seconds of real time, since commands may wait
// for any virtual time, and the drain may take any virtual time, too. The
// finding is written to standard error, with a report of which handler waits
// for which stage, and the pipeline is stopped hard, so that Call, Submit and
// Wait return an error. If the test is still not over 20 seconds later, because
// it waits for something else, it panics with the report.
//
// Unless the parts say otherwise, the pipeline logs nothing while the test
// passes, and restarts stages as often as they are killed. Tests with a trial
// must not run in parallel with others, whose goroutines would count as leaked.
func Run(tb testing.TB, parts ...pipeline.Part) *Trial {
	tb.Helper()
	virtual := goid.InBubble()
	before := goleak.IgnoreCurrent()
	t := &Trial{
		tb: tb, stages: stagesOf(parts), counts: map[string]uint64{},
		over: make(chan struct{}), reported: make(chan struct{}), virtual: virtual,
	}
	parts, within := patienceOf(parts)
	parts, t.mayCrash = mayCrash(parts)
	p, err := pipeline.New(fmt.Sprintf("trial-%d", oracle.Number()), append([]pipeline.Part{
		part.Defaults{t.system(), pipeline.Logger(slog.New(&t.story)), pipeline.Intensity(1000, time.Second)},
	}, parts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.Start(context.WithoutCancel(tb.Context())); err != nil {
		tb.Fatal(err)
	}
	t.Pipeline, t.dog = p, watch(p, within, t.pause())
	go t.reportBreach(within)
	t.busy, t.endBusy = context.WithCancel(context.Background())
	tb.Cleanup(func() {
		broken := t.end()
		if t.virtual {
			time.Sleep(time.Second) // messages to actors that have ended are dropped by then
		}
		if err := goleak.Find(before); err != nil && !t.hung {
			broken = append(broken, &BreachError{oracle.Goroutines, err.Error()})
		}
		for _, b := range broken {
			tb.Error(b)
		}
		if tb.Failed() {
			tb.Logf("stagetest: %s", t.evidence())
		}
		if len(t.seeds) > 0 && tb.Failed() {
			tb.Logf("stagetest: seeds: %v; done: %v", t.seeds, t.Counts())
		}
	})
	return t
}

// stagesOf returns the stages among parts, including those in a
// pipeline.Subgraph.
func stagesOf(parts []pipeline.Part) (all []pipeline.Part) {
	for _, p := range parts {
		if _, is := p.(engine.Staged); is {
			all = append(all, p)
		} else if v := reflect.ValueOf(p); v.IsValid() && v.Kind() == reflect.Slice {
			for i := range v.Len() {
				if inner, is := reflect.TypeAssert[pipeline.Part](v.Index(i)); is {
					all = append(all, stagesOf([]pipeline.Part{inner})...)
				}
			}
		}
	}
	return all
}

// Await makes the trial check that each of the tickets has an answer when the
// test is over.
func (t *Trial) Await(tickets ...*stage.Ticket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.awaited = append(t.awaited, tickets...)
}

// Meanwhile runs do on a goroutine of its own until the test is over. Its
// context ends then, and the trial waits until do has returned before it checks
// anything. The random numbers are made from the seed, which is logged if the
// test fails. A test can use it for a load of its own.
func (t *Trial) Meanwhile(seed uint64, do func(ctx context.Context, rnd *rand.Rand)) {
	t.mu.Lock()
	t.seeds = append(t.seeds, seed)
	t.mu.Unlock()
	t.meanwhile.Go(func() { do(t.busy, rand.New(rand.NewPCG(seed, 1))) })
}

// Count counts an event, such as an action that was done to the pipeline. The
// counts are logged if the test fails.
func (t *Trial) Count(event string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[event]++
}

// Counts returns how often each event was counted.
func (t *Trial) Counts() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

// Stages returns the stages that were passed to [Run], including those in a
// pipeline.Subgraph.
func (t *Trial) Stages() []pipeline.Part { return slices.Clone(t.stages) }

// drainWithin is how long a trial's pipeline may take to drain.
const drainWithin = 30 * time.Second

// end stops the pipeline and returns the broken promises.
func (t *Trial) end() (broken []error) {
	breachf := func(p Promise, format string, args ...any) {
		broken = append(broken, &BreachError{p, fmt.Sprintf(format, args...)})
	}
	t.endBusy()
	t.meanwhile.Wait()
	close(t.over)
	if <-t.reported; t.hung {
		return nil // the test has failed already, and its pipeline was stopped hard
	}
	ctx, cancel := t.drainTime()
	defer cancel()
	if err := t.Stop(ctx); err != nil && t.Err() == nil {
		breachf(oracle.Progress, "%v\n%s", err, Diagnose(t.Snapshot()))
	}
	if err := t.Err(); err != nil {
		breachf(oracle.Survival, "%v", err)
	}
	_ = t.dog.Stop()
	broken = append(broken, t.dog.broken...)
	if b := atRest(t.Snapshot()); b != nil {
		broken = append(broken, b)
	}
	if b := t.crashes(); b != nil {
		broken = append(broken, b)
	}
	if n := t.unanswered(); n > 0 {
		breachf(oracle.OneEnd, "%d awaited commands have no answer", n)
	}
	return broken
}

// drainTime returns a context that ends when the pipeline should have been
// drained: in a bubble when the watchdog says so.
func (t *Trial) drainTime() (context.Context, context.CancelFunc) {
	if !t.virtual {
		return context.WithTimeout(context.Background(), drainWithin)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-t.dog.Broken():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (t *Trial) unanswered() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ticket := range t.awaited {
		select {
		case <-ticket.Done():
		default:
			n++
		}
	}
	return n
}

// atRest returns the breach in the accounts of a pipeline that should be empty,
// or nil.
func atRest(s pipeline.Snapshot) *BreachError {
	if promise, detail := oracle.AtRest(s); promise != "" {
		return &BreachError{Promise(promise), detail}
	}
	return nil
}

// AtRest fails the test unless the law holds and nothing is in flight.
func AtRest(tb testing.TB, p *pipeline.Pipeline) {
	tb.Helper()
	if b := atRest(p.Snapshot()); b != nil {
		tb.Error(b)
	}
}
