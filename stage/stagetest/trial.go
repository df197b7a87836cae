package stagetest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Trial is a pipeline in a test that checks whether it keeps Golda's promises. Its methods are safe for concurrent use.
type Trial struct {
	*pipeline.Pipeline
	name   string
	tb     testing.TB
	dog    *Watchdog
	stages []pipeline.Part // the stages that can be paused

	over   chan struct{} // closed when the test has ended
	bitten chan struct{} // closed when the watchdog's finding has been reported
	hung   bool          // the watchdog found a breach; set before bitten is closed

	storms     sync.WaitGroup
	stormsEnd  context.Context // ends when the storms must end
	stopStorms context.CancelFunc

	mu      sync.Mutex // guards all fields below
	awaited []*stage.Ticket
	killed  map[string]uint64
	done    map[string]uint64 // by storms
	seeds   []uint64          // of storms
}

// Start makes a pipeline of the parts and starts it. When the test is over, it stops the pipeline and checks every
// promise: the accounts are balanced in all snapshots, in motion and at rest; the pipeline makes progress as long as
// commands are in flight; it drains within half a minute; awaited tickets have answers; and no goroutine is left.
//
// If the accounts are wrong, or nothing happens for 20 seconds ([Patience]) although commands are in flight, the test
// fails at once, even while it is blocked. The finding is written to standard error, with a report of which handler
// waits for which stage, and the pipeline is stopped hard, so that Call, Submit and Wait return an error. If the test
// is still not over 20 seconds later, because it waits for something else, it panics with the report.
//
// Unless the parts say otherwise, the pipeline logs nothing, and restarts stages as often as they are killed. Tests
// with a trial must not run in parallel with others, whose goroutines would count as leaked.
func Start(tb testing.TB, parts ...pipeline.Part) *Trial {
	tb.Helper()
	before := goleak.IgnoreCurrent()
	t := &Trial{
		name: fmt.Sprintf("trial-%d", runs.Add(1)), tb: tb, stages: stagesOf(parts),
		killed: map[string]uint64{}, done: map[string]uint64{},
		over: make(chan struct{}), bitten: make(chan struct{}),
	}
	parts, within := patienceOf(parts)
	p, err := pipeline.New(t.name, append([]pipeline.Part{
		pipeline.System(system()), pipeline.Logger(slog.New(slog.DiscardHandler)), pipeline.Intensity(1000, time.Second),
	}, parts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.Start(context.WithoutCancel(tb.Context())); err != nil {
		tb.Fatal(err)
	}
	t.Pipeline, t.dog = p, Watch(p, within)
	go t.reportBreach(within)
	t.stormsEnd, t.stopStorms = context.WithCancel(context.Background())
	tb.Cleanup(func() {
		for _, b := range t.end(before) {
			tb.Error(b)
		}
		if len(t.seeds) > 0 && tb.Failed() {
			tb.Logf("stagetest: seeds of the storms: %v; done: %v", t.seeds, t.done)
		}
	})
	return t
}

// stagesOf returns the stages among parts, including those in a pipeline.Join.
func stagesOf(parts []pipeline.Part) (all []pipeline.Part) {
	for _, p := range parts {
		if _, is := p.(interface{ Core() *engine.Core }); is {
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

// Await makes the trial check that each of the tickets has an answer when the test is over.
func (t *Trial) Await(tickets ...*stage.Ticket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.awaited = append(t.awaited, tickets...)
}

// Kill stops a random actor of a kind from outside. It reports false if there is none now.
func (t *Trial) Kill(v Victim) bool {
	return t.kill(v, rand.New(rand.NewPCG(rand.Uint64(), 0)))
}

func (t *Trial) kill(v Victim, rnd *rand.Rand) bool {
	done := kill(system(), "golda/"+t.name+"$", v, rnd)
	if done {
		t.mu.Lock()
		t.killed[v.String()]++
		t.mu.Unlock()
	}
	return done
}

// Killed returns how many actors were killed, by their kinds.
func (t *Trial) Killed() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return sum(nil, t.killed)
}

// drainWithin is how long a trial's pipeline may take to drain.
const drainWithin = 30 * time.Second

// end stops the pipeline and returns the broken promises.
func (t *Trial) end(before goleak.Option) (broken VerdictError) {
	breachf := func(p Promise, format string, args ...any) {
		broken = append(broken, &BreachError{p, fmt.Sprintf(format, args...)})
	}
	t.stopStorms()
	t.storms.Wait()
	close(t.over)
	if <-t.bitten; t.hung {
		return nil // the test has failed already, and its pipeline was stopped hard
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	if err := t.Stop(ctx); err != nil && t.Err() == nil {
		breachf(Progress, "%v\n%s", err, Diagnose(t.Snapshot()))
	}
	if err := t.Err(); err != nil {
		breachf(Survival, "%v", err)
	}
	_ = t.dog.Stop()
	broken = append(broken, t.dog.broken...)
	if b := atRest(t.Snapshot()); b != nil {
		broken = append(broken, b)
	}
	if n := t.unanswered(); n > 0 {
		breachf(OneEnd, "%d awaited commands have no answer", n)
	}
	if err := goleak.Find(before); err != nil {
		breachf(Goroutines, "%v", err)
	}
	return broken
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

// atRest returns what is wrong with the accounts of a pipeline that should be empty.
func atRest(s pipeline.Snapshot) *BreachError {
	switch {
	case !s.Balanced():
		return &BreachError{Law, "at rest: " + s.Law() + "\n" + Diagnose(s)}
	case s.InFlight != 0:
		return &BreachError{OneEnd, fmt.Sprintf("lost: %d in flight at rest\n%s", s.InFlight, Diagnose(s))}
	default:
		return nil
	}
}

// Balanced fails the test unless the law holds in the pipeline now.
func Balanced(tb testing.TB, p *pipeline.Pipeline) {
	tb.Helper()
	if s := p.Snapshot(); !s.Balanced() {
		tb.Errorf("%s: %s\n%s", Law, s.Law(), Diagnose(s))
	}
}

// AtRest fails the test unless the law holds and nothing is in flight.
func AtRest(tb testing.TB, p *pipeline.Pipeline) {
	tb.Helper()
	if b := atRest(p.Snapshot()); b != nil {
		tb.Error(b)
	}
}
