package lab

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// requestsOf returns the requests of a run.
func requestsOf(times []time.Duration, classes map[string]float64, seed uint64) []Request {
	r := rand.New(rand.NewPCG(seed, streamOfRequests)) //nolint:gosec // a seed must give the same requests again
	names := slices.Sorted(maps.Keys(classes))
	sum := 0.0
	for _, name := range names {
		sum += classes[name]
	}
	all := make([]Request, len(times))
	for i, at := range times {
		all[i] = Request{N: i, At: at, Class: classOf(names, classes, r.Float64()*sum), Seed: r.Uint64()}
	}
	return all
}

// classOf returns the class in whose part of the sum of all shares x is.
func classOf(names []string, classes map[string]float64, x float64) (class string) {
	for _, name := range names {
		if classes[name] == 0 {
			continue
		}
		class = name
		if x -= classes[name]; x < 0 {
			break
		}
	}
	return class
}

// answer is how a request ended.
type answer struct {
	ended  bool
	kind   kind
	latent time.Duration // from when it should have been sent to its end
	late   time.Duration // from when it should have been sent until it was
}

type kind uint8

const (
	answered kind = iota
	refused
	dropped // refused after it was admitted
	failed
)

// generator sends the requests of a run, each at its time, on a goroutine of
// its own: a request that takes long delays no later one.
type generator struct {
	requests []Request
	send     Send
	answers  []answer // each is written by the goroutine of its request

	begin time.Time
	open  sync.WaitGroup
	many  atomic.Int64 // requests that wait for an answer
	fatal atomic.Pointer[error]
}

func newGenerator(requests []Request, send Send) *generator {
	return &generator{requests: requests, send: send, answers: make([]answer, len(requests))}
}

// run sends all requests. It returns early if ctx ends, and if a request shows
// that the run cannot be measured.
func (g *generator) run(ctx context.Context) error {
	pace, err := newPacer()
	if err != nil {
		return fault(true, "the generator has no timer: %w", err)
	}
	defer pace.stop()
	g.begin = time.Now()
	for i := range g.requests {
		for {
			early := g.requests[i].At - time.Since(g.begin)
			if early <= 0 {
				break
			}
			if err := pace.wait(min(early, 50*time.Millisecond)); err != nil { // so that the end of ctx is noticed
				return fault(true, "the generator's timer: %w", err)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if err := g.stopped(ctx); err != nil {
			return err
		}
		g.begun(ctx, i)
	}
	return nil
}

// stopped returns why no further request is sent.
func (g *generator) stopped(ctx context.Context) error {
	if err := g.fatal.Load(); err != nil {
		return *err
	}
	if n := g.many.Load(); n >= mostInFlight {
		return fault(true, "%d requests wait for an answer, and more would only measure the memory: bound the queues, or send less", n)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// begun sends one request.
func (g *generator) begun(ctx context.Context, i int) {
	a := &g.answers[i]
	a.late = time.Since(g.begin) - g.requests[i].At
	g.many.Add(1)
	g.open.Go(func() {
		err := g.send(ctx, g.requests[i])
		a.latent, a.kind, a.ended = time.Since(g.begin)-g.requests[i].At, kindOf(err), true
		g.many.Add(-1)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			err = fault(true, "request %d: file descriptors have run out (the limit is %s), so the run would measure their limit: %w", i, cmp.Or(descriptors(), "unknown"), err)
			g.fatal.CompareAndSwap(nil, &err)
		}
	})
}

func kindOf(err error) kind {
	if err == nil {
		return answered
	}
	o, ok := stage.Overloaded(err)
	switch {
	case !ok:
		return failed
	case o.Reason == reason.Expired || o.Reason == reason.Oldest || o.Reason == reason.Newest:
		return dropped
	default:
		return refused
	}
}

// wait waits until all requests that were sent have ended, and returns false if
// they have not by then.
func (g *generator) wait(ctx context.Context, patience time.Duration) bool {
	ended := make(chan struct{})
	go func() {
		g.open.Wait()
		close(ended)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// lateness returns the share of the requests that were sent more than a time
// late, and the lateness that 99 of 100 did not exceed.
func lateness(answers []answer, than time.Duration) (share float64, p99 time.Duration) {
	all := make([]time.Duration, len(answers))
	n := 0
	for i, a := range answers {
		all[i] = a.late
		if a.late > than {
			n++
		}
	}
	slices.Sort(all)
	return float64(n) / float64(max(len(all), 1)), quantile(all, 0.99)
}

// quantile returns the q-quantile of sorted times, or 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
