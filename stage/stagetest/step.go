package stagetest

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golda-dev/golda/internal/actor"
)

// Stepper lets the actors of a pipeline handle one message at a time, in an
// order that it chooses: workers, supervisors and every other actor of the
// pipeline. A worker's message is a batch. While an actor handles its message,
// the others wait for their turn, unless it blocks.
//
// [Explore], [Orders], [Replay] and [ReplayOrder] make a Stepper, in a synctest
// bubble in which all goroutines are blocked before each step. So the choices
// determine everything that happens, including restarts and timers, if the
// handlers do nothing random: no iteration over a map, no select with several
// ready cases, no retry with jitter. The Stepper also chooses when a handler
// that sleeps or awaits goes on. But a handler that suspends by itself
// (coroutine.Context.Suspend), and is woken by a goroutine of its own, goes on
// when that goroutine wakes it.
type Stepper struct {
	system *actor.System
	choose func(among int) int

	mu    sync.Mutex // guards all fields below
	fresh []turn
	ready []turn
	news  chan struct{} // has a capacity of one

	trace []Choice
}

// OrderError is an order in which a test failed.
type OrderError struct {
	Seed  uint64 // the seed that found it; [Replay] repeats the order
	Order Steps  // an order that fails with as few steps out of line as were found
	Err   error  // the test's error in Order
}

// Error says how to reproduce the failure: by the seed that found it, and by
// the smallest order.
func (f *OrderError) Error() string {
	return fmt.Sprintf("order %d: %v\nto repeat it: stagetest.Replay(t, %d, test)\n"+
		"the smallest order that fails: stagetest.ReplayOrder(t, %q, test)\n%s", f.Seed, f.Err, f.Seed, f.Order.Text(), f.Order)
}

// Unwrap returns the test's error.
func (f *OrderError) Unwrap() error { return f.Err }

// Orders runs a test in n orders: first in the order in which messages arrive,
// then in random ones, whose seeds are 1, 2, 3 and so on. It fails with the
// [OrderError] of the first order in which the test returns an error. The test
// makes its pipeline with pipeline.System(s.System()), and makes calls that
// wait for the pipeline in [Stepper.Do]. If the test returns early, its
// pipeline is stopped. A test that fails by itself, with t.Fatal or require,
// ends the run without a report of the seed.
//
//	stagetest.Orders(t, 1000, func(s *stagetest.Stepper) error {
//		p, err := pipeline.New("p", parts, pipeline.System(s.System()))
//		...
//		s.Do(func() { err = p.Start(ctx) })
//		...
//		s.Do(func() { err = p.Stop(ctx) })
//		return check()
//	})
func Orders(t *testing.T, n int, test func(s *Stepper) error) {
	t.Helper()
	if f := Explore(t, n, test); f != nil {
		t.Fatal(f)
	}
}

// Explore is [Orders] without failing t: it returns the failure, or nil if the
// test failed in none of the orders.
func Explore(t *testing.T, n int, test func(s *Stepper) error) *OrderError {
	t.Helper()
	for seed := range uint64(n) {
		order, err := step(t, bySeed(seed), test)
		if err != nil {
			order, err = shrink(t, order, err, test)
			return &OrderError{seed, order, err}
		}
	}
	return nil
}

// Replay runs a test in the order of a seed, and returns the order and the
// test's error.
func Replay(t *testing.T, seed uint64, test func(s *Stepper) error) (Steps, error) {
	t.Helper()
	return step(t, bySeed(seed), test)
}

// bySeed chooses at random; seed 0 is first come, first served.
func bySeed(seed uint64) func(int) int {
	if seed == 0 {
		return func(int) int { return 0 }
	}
	r := rand.New(rand.NewPCG(seed, 0))
	return r.IntN
}

// step runs a test in a bubble of its own.
func step(t *testing.T, choose func(int) int, test func(s *Stepper) error) (order Steps, err error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		s := &Stepper{system: actor.NewSystem(slog.New(slog.DiscardHandler)), choose: choose, news: make(chan struct{}, 1)}
		actor.SetPace(s.system, pace{s})
		defer s.cleanUp()
		err = test(s)
		order = slices.Clone(s.trace)
	})
	return order, err
}

// cleanUp ends all goroutines of the bubble. A test that fails may return
// before it has stopped its pipeline; stopping the pipeline's first actor ends
// it.
func (s *Stepper) cleanUp() {
	for _, name := range actor.Processes(s.system, "golda/") {
		if strings.Count(name, "/") == 1 {
			actor.Stop(s.system, actor.Local(s.system, name))
		}
	}
	s.Do(func() { time.Sleep(time.Minute) }) // remaining timers have to end
}

// shrink puts as many steps back in line as it can, first in large groups, then
// one by one.
func shrink(t *testing.T, order Steps, err error, test func(s *Stepper) error) (Steps, error) {
	t.Helper()
	for size := len(order); size > 0; size /= 2 {
		for from := 0; from < len(order); from += size {
			less := slices.Clone(order)
			changed := false
			for i := from; i < min(from+size, len(less)); i++ {
				changed = changed || less[i].Place > 0
				less[i].Place = 0
			}
			if !changed {
				continue
			}
			if done, e := step(t, byOrder(less), test); e != nil {
				order, err = done, e
			}
		}
	}
	return order, err
}

// turn is a possible next step.
type turn interface {
	Name() string
	Step()
}

// woken is a suspended command that was woken, by a timer or by another event
// that it awaited. In a real run it may reach its worker before or after other
// messages, so it is a step of its own, too.
type woken struct {
	stage  string
	number uint64
	goOn   func()
}

func (w *woken) Name() string {
	return fmt.Sprintf("command %06d of stage %q, woken", w.number, w.stage)
}

func (w *woken) Step() { w.goOn() }

// pace is the interface of the stepper for the actors' mailboxes.
type pace struct{ *Stepper }

// Ready records that a mailbox has a message.
func (p pace) Ready(m *actor.Mailbox) { p.add(m) }

// Apart records that a command that waited may go on.
func (p pace) Apart(stage string, number uint64, goOn func()) { p.add(&woken{stage, number, goOn}) }

func (p pace) add(t turn) {
	p.mu.Lock()
	p.fresh = append(p.fresh, t)
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// System returns the system that the pipeline must run in.
func (s *Stepper) System() *actor.System { return s.system }

// Steps returns the steps that were chosen so far.
func (s *Stepper) Steps() Steps { return slices.Clone(s.trace) }

// Do calls f on a goroutine of its own, and steps until it has returned. The
// time of the bubble advances only when no actor has a message.
func (s *Stepper) Do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		synctest.Wait()
		select {
		case <-done:
			return
		default:
		}
		if s.Step() {
			continue
		}
		select {
		case <-done:
			return
		case <-s.news:
		}
	}
}

// Settle steps until no actor has a message. Time stands still.
func (s *Stepper) Settle() {
	for s.Step() {
	}
}

// Step lets one actor handle one message, and reports false if none has any.
// When it returns, all goroutines are blocked.
func (s *Stepper) Step() bool {
	synctest.Wait()
	next := s.pick()
	if next == nil {
		return false
	}
	go next.Step() // it may block, or end its goroutine
	synctest.Wait()
	return true
}

// pick chooses among the mailboxes that have a message.
func (s *Stepper) pick() turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Several goroutines may have sent since the last step, in any order.
	slices.SortStableFunc(s.fresh, func(a, b turn) int { return cmp.Compare(a.Name(), b.Name()) })
	s.ready = append(s.ready, s.fresh...)
	s.fresh = s.fresh[:0]
	if len(s.ready) == 0 {
		return nil
	}
	n := s.choose(len(s.ready))
	m := s.ready[n]
	s.trace = append(s.trace, Choice{n, len(s.ready), m.Name()})
	s.ready = slices.Delete(s.ready, n, n+1)
	return m
}
