package failsafe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	failsafego "github.com/failsafe-go/failsafe-go"

	"github.com/golda-dev/golda/stage/reason"
)

// Guard is a function with policies around it: see [Wrap]. Any number of
// goroutines may use it.
type Guard[In, Out any] struct {
	f        func(ctx context.Context, in In) (Out, error)
	exec     failsafego.Executor[Out]
	policies []failsafego.Policy[Out]
	hedged   bool

	calls, tries, panics atomic.Uint64
	mu                   sync.Mutex // guards refused
	refused              map[reason.Reason]uint64
}

// Counts count the calls of a [Guard] by how they ended.
type Counts struct {
	Calls uint64 // calls that have returned
	Tries uint64 // calls of the function: more than Calls with retries and hedges, fewer with refusals
	// Panics counts tries that panicked or ended their goroutine, tries of a
	// losing hedge included.
	Panics  uint64
	Refused map[reason.Reason]uint64 // calls that a policy refused or ended, by its reason
}

// Wrap puts policies around a function of a [stage.Map]: give the stage the
// guard's Call. The first policy is the outermost. Wrap panics if the function
// or a policy is nil.
func Wrap[In, Out any](f func(ctx context.Context, in In) (Out, error), policies ...failsafego.Policy[Out]) *Guard[In, Out] {
	if f == nil {
		panic("failsafe: Wrap: the function is nil")
	}
	policies = slices.Clone(policies)
	g := &Guard[In, Out]{f: f, policies: policies, exec: failsafego.With(policies...), refused: map[reason.Reason]uint64{}}
	for i, p := range policies {
		if p == nil {
			panic(fmt.Sprintf("failsafe: Wrap: policy %d of %d is nil", i+1, len(policies)))
		}
		g.hedged = g.hedged || isHedge(p)
	}
	return g
}

// WrapSink puts policies around a function of a [stage.Sink]: give the stage
// the guard's Do. It is [Wrap] for a function without a result.
func WrapSink[In any](f func(ctx context.Context, in In) error, policies ...failsafego.Policy[any]) *Guard[In, any] {
	if f == nil {
		panic("failsafe: WrapSink: the function is nil")
	}
	return Wrap(func(ctx context.Context, in In) (any, error) { return nil, f(ctx, in) }, policies...)
}

// Call calls the function under the policies. It returns the error of the
// function, the error of a policy as [*RefusedError],
// retrypolicy.ExceededError, or the error of ctx if ctx ends.
func (g *Guard[In, Out]) Call(ctx context.Context, in In) (Out, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &call[In, Out]{g: g, in: in, cancel: cancel}
	out, err := g.exec.WithContext(ctx).GetWithExecution(c.try)
	switch crash := c.crash.Load(); {
	case crash == nil, g.hedged && err == nil: // another try has won
	case crash.ended:
		runtime.Goexit()
	default:
		panic(crash)
	}
	g.calls.Add(1)
	return out, g.refusal(err)
}

// Do is Call for a function without a result.
func (g *Guard[In, Out]) Do(ctx context.Context, in In) error {
	_, err := g.Call(ctx, in)
	return err
}

// Counts returns the counts since the guard was made.
func (g *Guard[In, Out]) Counts() Counts {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Counts{Calls: g.calls.Load(), Tries: g.tries.Load(), Panics: g.panics.Load(), Refused: maps.Clone(g.refused)}
}

// refusal returns the error of a call, as a RefusedError if it is of a policy.
func (g *Guard[In, Out]) refusal(err error) error {
	if err == nil {
		return nil
	}
	refused, ok := errors.AsType[*RefusedError](err) // of a guard inside of this one
	if !ok {
		for _, row := range refusals {
			if errors.Is(err, row.err) {
				refused = &RefusedError{Reason: row.why, Err: err}
				break
			}
		}
		if refused == nil {
			return err
		}
		if refused.Reason == BreakerOpen {
			refused.RetryAfter = g.opens()
		}
		err = refused
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused[refused.Reason]++
	return err
}

// opens returns the time until the breakers let calls through.
func (g *Guard[In, Out]) opens() (after time.Duration) {
	for _, p := range g.policies {
		if breaker, ok := p.(interface{ RemainingDelay() time.Duration }); ok {
			after = max(after, breaker.RemainingDelay())
		}
	}
	return after
}

// call is one call of the function, and its tries.
type call[In, Out any] struct {
	g      *Guard[In, Out]
	in     In
	cancel func()
	crash  atomic.Pointer[PanicError] // of the first try that crashed
}

// try is called by the innermost policy. It returns a panic as an error, so
// that all policies release what they hold, and cancels the call, so that no
// policy tries again. A try that ended its goroutine is an error too.
func (c *call[In, Out]) try(e failsafego.Execution[Out]) (Out, error) {
	c.g.tries.Add(1)
	if !c.g.hedged {
		return c.protected(e.Context())
	}
	// The goroutine is the hedge policy's. If the function ended it, the policy
	// would wait for ever.
	var out Out
	err := errGoexit
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		out, err = c.protected(e.Context())
	}()
	<-ended
	return out, err
}

func (c *call[In, Out]) protected(ctx context.Context) (out Out, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		crash := newPanicError(recover())
		c.g.panics.Add(1)
		c.crash.CompareAndSwap(nil, crash)
		c.cancel()
		if crash.ended && !c.g.hedged {
			c.g.release() // the goroutine ends here, through all policies
		}
		err = crash
	}()
	out, err = c.g.f(ctx, c.in)
	returned = true
	return out, err
}

// release releases the permits of policies that no longer can.
func (g *Guard[In, Out]) release() {
	for _, p := range g.policies {
		switch p := p.(type) {
		case interface{ ReleasePermit() }: // a bulkhead
			p.ReleasePermit()
		case interface{ RecordFailure() }: // a breaker
			p.RecordFailure()
		}
	}
}

// isHedge reports whether a policy runs tries in goroutines of its own.
// failsafe-go does not export the type.
func isHedge(p any) bool {
	t := reflect.TypeOf(p)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == "github.com/failsafe-go/failsafe-go/hedgepolicy"
}
