package stagetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fault is one thing that an [Injector] has a handler do instead of its work.
type Fault uint8

// The faults.
const (
	None   Fault = iota
	Panic        // panic with an [*InjectedError]
	Goexit       // end the goroutine, as a failing test helper does
	Error        // answer with an [*InjectedError]
	Delay        // do the work, but later
	Hang         // wait until the context ends, then answer with its cause
	Stuck        // wait, deaf to the context, until the injector is released
	Poison       // panic at this try, and at each further one
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

// Faults says how often handlers are to go wrong, and how: each field but the last two
// is a probability, from 0 to 1, for one try of one command. Their sum is at most 1; the
// zero Faults has nothing go wrong.
//
// Hang and Stuck are for stages with a time limit (stage.Timeout): without one such a
// handler is waited for until the pipeline stops hard.
type Faults struct {
	Panic, Goexit, Error, Delay, Hang, Stuck, Poison float64

	// Longest is the longest delay; 0 means 1 ms.
	Longest time.Duration
	// Key tells one command from another. With it a command's fate depends on the
	// seed, the command and the try only, so it is the same in each run with the same
	// seed. Without it the n-th call has the n-th fate, whichever command that is.
	Key func(cmd any) uint64
}

// odds are the probabilities, by fault.
func (f Faults) odds() [faults]float64 {
	return [faults]float64{
		Panic: f.Panic, Goexit: f.Goexit, Error: f.Error, Delay: f.Delay, Hang: f.Hang, Stuck: f.Stuck, Poison: f.Poison,
	}
}

// Check tells all that is wrong with the probabilities.
func (f Faults) Check() error {
	var all []error
	sum := 0.0
	for fault, p := range f.odds() {
		if !(p >= 0 && p <= 1) { // NaN is neither
			all = append(all, fmt.Errorf("stagetest: Faults: %s: %v is no probability, from 0 to 1", Fault(fault), p))
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

// InjectedError is what an injected panic or error carries, so that a test can tell it from
// one of the program's own.
type InjectedError struct {
	Fault   Fault
	Attempt int   // of the command, counted from one
	Cause   error // for Hang, why the context has ended
}

// Error tells the fault.
func (e *InjectedError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("stagetest: injected %s at attempt %d: %v", e.Fault, e.Attempt, e.Cause)
	}
	return fmt.Sprintf("stagetest: injected %s at attempt %d", e.Fault, e.Attempt)
}

// Unwrap returns the cause.
func (e *InjectedError) Unwrap() error { return e.Cause }

// Injector is faults at work: [Wrap], [WrapFunc] and [WrapFactory] put it between a
// stage and its behaviour. Its methods may be called by anybody, at any time.
type Injector struct {
	seed   uint64
	faults Faults
	calls  atomic.Uint64
	did    [faults]atomic.Uint64
	let    chan struct{}
	once   sync.Once
}

// Inject makes an injector for a test. It fails the test if the faults mean nothing, logs
// the seed if the test fails, and lets go of handlers that are stuck when it is over.
func Inject(tb testing.TB, seed uint64, f Faults) *Injector {
	tb.Helper()
	in, err := NewInjector(seed, f)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Release()
		if tb.Failed() {
			tb.Logf("stagetest: seed %d; injected: %v", seed, in.Counts())
		}
	})
	return in
}

// NewInjector makes an injector; the error is that of [Faults.Check].
func NewInjector(seed uint64, f Faults) (*Injector, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	if f.Longest == 0 {
		f.Longest = time.Millisecond
	}
	return &Injector{seed: seed, faults: f, let: make(chan struct{})}, nil
}

// Release lets go of all handlers that are stuck, and of those that would get stuck
// later. It may be called more than once.
func (in *Injector) Release() { in.once.Do(func() { close(in.let) }) }

// Count returns how often a fault was injected.
func (in *Injector) Count(f Fault) uint64 {
	if f >= faults {
		return 0
	}
	return in.did[f].Load()
}

// Counts returns how often each fault was injected, by its name; those that were not
// are left out.
func (in *Injector) Counts() map[string]uint64 {
	counts := map[string]uint64{}
	for f := range in.did {
		if n := in.did[f].Load(); n > 0 && Fault(f) != None {
			counts[Fault(f).String()] = n
		}
	}
	return counts
}

// fate is what is to become of a try of a command, and how long a delay would be. A
// poisoned command's does not depend on the try.
func (in *Injector) fate(cmd any, attempt int) (Fault, time.Duration) {
	key, try := in.calls.Add(1), uint64(0)
	if in.faults.Key != nil {
		key, try = in.faults.Key(cmd), uint64(attempt)
	}
	if roll(in.seed, key, math.MaxUint64) < in.faults.Poison {
		return Poison, 0
	}
	rnd := rand.New(rand.NewPCG(in.seed, mix(key)+try))
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

// roll is a number from 0 to 1 that depends on three others.
func roll(seed, key, try uint64) float64 {
	return rand.New(rand.NewPCG(seed, mix(key)+try)).Float64()
}

// mix has numbers that are near to each other go far apart (the finalizer of splitmix64,
// Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
