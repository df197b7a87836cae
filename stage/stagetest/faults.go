package stagetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
)

// Fault is what an [Injector] makes a handler do instead of its work.
type Fault uint8

// The faults.
const (
	None   Fault = iota
	Panic        // panic with an [*InjectedError]
	Goexit       // end the goroutine, as a failing test helper does
	Error        // answer with an [*InjectedError]
	Delay        // do the work after a delay
	Hang         // wait until the context ends, then answer with its cause
	Stuck        // ignore the context and wait until the injector is released
	Poison       // panic at this attempt, and at each further one
	faults
)

var faultNames = [faults]string{"none", "panic", "goexit", "error", "delay", "hang", "stuck", "poison"}

// String returns the fault in a word.
func (f Fault) String() string {
	if f < faults {
		return faultNames[f]
	}
	return fmt.Sprintf("fault(%d)", uint8(f))
}

// Faults says how often handlers fail, and how: each field but the last two is
// the probability, from 0 to 1, of a fault in one attempt of one command. Their
// sum is at most 1. The zero Faults injects nothing.
//
// Hang and Stuck are for stages with a time limit (stage.Timeout). Without one
// the pipeline waits for such a handler until it stops hard.
type Faults struct {
	Panic, Goexit, Error, Delay, Hang, Stuck, Poison float64

	// Longest is the longest delay; 0 means 1 ms.
	Longest time.Duration
	// Key identifies a command. With a Key, the faults of a command depend only
	// on the seed, the command and the attempt, so they are the same in each
	// run with the same seed. Without it the n-th call has the n-th fault,
	// whichever command that is.
	Key func(cmd any) uint64
}

// odds returns the probabilities, by fault.
func (f Faults) odds() [faults]float64 {
	return [faults]float64{
		Panic: f.Panic, Goexit: f.Goexit, Error: f.Error, Delay: f.Delay, Hang: f.Hang, Stuck: f.Stuck, Poison: f.Poison,
	}
}

// String returns the faults that are not impossible, and their probabilities,
// such as "panic=0.1 error=0.05".
func (f Faults) String() string {
	var words []string
	for fault, p := range f.odds() {
		if p > 0 {
			words = append(words, fmt.Sprintf("%s=%v", Fault(fault), p))
		}
	}
	return strings.Join(words, " ")
}

// Check returns all invalid fields.
func (f Faults) Check() error {
	var all []error
	sum := 0.0
	for fault, p := range f.odds() {
		if !(p >= 0 && p <= 1) { // NaN is neither
			all = append(all, fmt.Errorf("stagetest: Faults: %s: %v is not a probability from 0 to 1", Fault(fault), p))
		}
		sum += p
	}
	if sum > 1+1e-9 {
		all = append(all, fmt.Errorf("stagetest: Faults: the probabilities add up to %v, more than 1", sum))
	}
	if f.Longest < 0 {
		all = append(all, fmt.Errorf("stagetest: Faults: longest: %v must not be negative", f.Longest))
	}
	return errors.Join(all...)
}

// InjectedError is the value of an injected panic or error, so that a test can
// tell it from an error of the program.
type InjectedError struct {
	Fault   Fault
	Attempt int   // of the command, counted from one
	Cause   error // for Hang, why the context has ended
}

// Error returns the fault and the attempt.
func (e *InjectedError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("stagetest: injected %s at attempt %d: %v", e.Fault, e.Attempt, e.Cause)
	}
	return fmt.Sprintf("stagetest: injected %s at attempt %d", e.Fault, e.Attempt)
}

// Unwrap returns the cause.
func (e *InjectedError) Unwrap() error { return e.Cause }

// Injector injects faults: [Injector.Middleware] and [Wrap] put it between
// a stage and its behaviour. Its methods are safe for concurrent use.
type Injector struct {
	seed     uint64
	faults   Faults
	calls    atomic.Uint64
	injected [faults]atomic.Uint64
	released chan struct{}
	once     sync.Once
}

// Inject makes an injector for a test. It fails the test if the faults are
// invalid and logs the seed if the test fails. When the test is over, it
// releases handlers that are stuck.
func Inject(tb testing.TB, seed uint64, f Faults) *Injector {
	tb.Helper()
	in, err := NewInjector(seed, f)
	if err != nil {
		tb.Fatal(err)
	}
	in.remember(tb)
	tb.Cleanup(func() {
		in.Release()
		if tb.Failed() {
			tb.Logf("stagetest: seed %d; injected: %v", seed, in.Counts())
		}
	})
	return in
}

// NewInjector makes an injector; the error is the error of [Faults.Check].
func NewInjector(seed uint64, f Faults) (*Injector, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	if f.Longest == 0 {
		f.Longest = time.Millisecond
	}
	return &Injector{seed: seed, faults: f, released: make(chan struct{})}, nil
}

// Release releases all handlers that are stuck, and lets no handler get stuck
// later. It may be called more than once.
func (in *Injector) Release() { in.once.Do(func() { close(in.released) }) }

// Count returns how often a fault was injected.
func (in *Injector) Count(f Fault) uint64 {
	if f >= faults {
		return 0
	}
	return in.injected[f].Load()
}

// Counts returns how often each fault was injected, by its name. Faults that
// were not injected are left out.
func (in *Injector) Counts() map[string]uint64 {
	counts := map[string]uint64{}
	for f := range in.injected {
		if n := in.injected[f].Load(); n > 0 && Fault(f) != None {
			counts[Fault(f).String()] = n
		}
	}
	return counts
}

// draw draws the fault of an attempt of a command, and how long a delay would
// be. Poison does not depend on the attempt.
func (in *Injector) draw(cmd any, attempt int) (Fault, time.Duration) {
	key, try := in.calls.Add(1), uint64(0)
	if in.faults.Key != nil {
		key, try = in.faults.Key(cmd), uint64(attempt)
	}
	if roll(in.seed, key, math.MaxUint64) < in.faults.Poison {
		return Poison, 0
	}
	rnd := rand.New(rand.NewPCG(in.seed, oracle.Mix(key)+try))
	x := rnd.Float64()
	for f, p := range in.faults.odds() {
		if Fault(f) == Poison {
			continue
		}
		if x -= p; x < 0 {
			return Fault(f), time.Duration(rnd.Float64() * float64(in.faults.Longest))
		}
	}
	return None, 0
}

// roll returns a number from 0 to 1 that depends on three others.
func roll(seed, key, try uint64) float64 {
	return rand.New(rand.NewPCG(seed, oracle.Mix(key)+try)).Float64()
}
