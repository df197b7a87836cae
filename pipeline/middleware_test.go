package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// trace records what happens.
type trace struct {
	mu    sync.Mutex
	lines []string
}

func (t *trace) addf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *trace) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	t.lines = nil
	return lines
}

// around returns a middleware that records when it begins and ends.
func (t *trace) around(name string) stage.MiddlewareFunc {
	return func(ctx context.Context, in string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		t.addf("%s: %s gets %v", name, in, cmd)
		o := next(ctx, cmd)
		t.addf("%s: %s %v", name, o.Kind(), o.Result())
		return o
	}
}

type note struct{}

// whole is a behaviour with everything that a behaviour may have beside its handler.
type whole struct{ *trace }

func (w *whole) Start(context.Context) error { w.addf("start"); return nil }
func (w *whole) Stop()                       { w.addf("stop") }
func (w *whole) Version() string             { return "v1" }
func (w *whole) HandleCommand(ctx context.Context, n int) behaviour.Outcome {
	w.addf("handle %d with %v", n, ctx.Value(note{}))
	return behaviour.OK(n + 1)
}

// batches is whole as a Batcher.
type batches struct{ whole }

func (b *batches) HandleBatch(_ context.Context, cmds []int) (outcomes []behaviour.Outcome) {
	b.addf("batch %v", cmds)
	for _, n := range cmds {
		outcomes = append(outcomes, behaviour.OK(n+1))
	}
	return outcomes
}

func with(value any) stage.MiddlewareFunc {
	return func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		return next(context.WithValue(ctx, note{}, value), cmd)
	}
}

func TestMiddlewareIsAroundEveryKindOfStageInOrder(t *testing.T) {
	var tr trace
	use := stage.Middleware(tr.around("own"), with("value"))
	one := stage.Workers(1, 1)
	handler := func(ctx context.Context, n int) behaviour.Outcome { return (&whole{&tr}).HandleCommand(ctx, n) }
	kinds := map[string]*stage.Stage[int]{
		"new":   stage.New("s", &whole{&tr}, use, one),
		"func":  stage.Func("s", handler, use, one),
		"each":  stage.Each("s", func() *whole { return &whole{&tr} }, use, one),
		"keyed": stage.Keyed("s", func(n int) int { return n }, func(int) *whole { return &whole{&tr} }, use, one),
		"map": stage.Map("s", func(ctx context.Context, n int) (int, error) {
			return handler(ctx, n).Result().(int), nil
		}, use, one).Stage,
		"coroutine": stage.Coroutine("s", func(c coroutine.Context, n int) behaviour.Outcome {
			if err := coroutine.Sleep(c, time.Millisecond); err != nil {
				return behaviour.Error(err)
			}
			return handler(c, n)
		}, use, one),
		"with a time limit":   stage.Func("s", handler, use, one, stage.Timeout(time.Minute)),
		"with a time to live": stage.Func("s", handler, use, one, stage.TTL(time.Minute)),
	}
	for name, s := range kinds {
		t.Run(name, func(t *testing.T) {
			p := start(t, s, pipeline.Middleware(tr.around("all")), pipeline.Middleware(tr.around("second")))
			require.Equal(t, 8, must(t, s, 7))
			lines := slices.DeleteFunc(tr.take(), func(l string) bool { return l == "start" })
			require.Equal(t, []string{
				"all: s gets 7", "second: s gets 7", "own: s gets 7", "handle 7 with value", "own: ok 8", "second: ok 8", "all: ok 8",
			}, lines)
			require.NoError(t, p.Stop(soon(t)))
			atRest(t, p)
			tr.take()
		})
	}
}

func must(t *testing.T, s *stage.Stage[int], n int) int {
	t.Helper()
	got, err := stage.Call[int](soon(t), s, n)
	require.NoError(t, err)
	return got
}

func TestABehaviourKeepsItsStartStopAndVersion(t *testing.T) {
	var tr trace
	s := stage.New("s", &whole{&tr}, stage.Middleware(with(1)))
	p := start(t, s)
	must(t, s, 1)
	require.Equal(t, "v1", s.Snapshot().Version)
	require.NoError(t, p.Stop(soon(t)))
	require.Equal(t, []string{"start", "handle 1 with 1", "stop"}, tr.take())
}

func TestTheMiddlewareOfABatcherIsCalledForEachBatch(t *testing.T) {
	var tr trace
	s := stage.New("s", &batches{whole{&tr}}, stage.Middleware(tr.around("own")), stage.Batch(2), stage.Linger(time.Hour), stage.Workers(1, 1))
	p := start(t, s)
	tickets := []*stage.Ticket{ticketFor(t, s, 1), ticketFor(t, s, 2)}
	for i, ticket := range tickets {
		got, err := ticket.Wait(soon(t))
		require.NoError(t, err)
		require.Equal(t, i+2, got)
	}
	lines := tr.take()
	require.Equal(t, []string{"start", "own: s gets [1 2]", "batch [1 2]"}, lines[:3])
	require.NoError(t, p.Stop(soon(t)))
}

func ticketFor(t *testing.T, s *stage.Stage[int], n int) *stage.Ticket {
	t.Helper()
	ticket, err := s.Ask(t.Context(), n)
	require.NoError(t, err)
	return ticket
}

var errForbidden = errors.New("forbidden")

// A middleware may do with a command what a handler may, and what it does wrong costs the command and no other.
func TestAMiddlewareMayAnswerInThePlaceOfTheHandler(t *testing.T) {
	for _, c := range []struct {
		name string
		m    stage.MiddlewareFunc
		says string // part of the error; empty if there is none
	}{
		{"passes on", func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
			return next(ctx, cmd)
		}, ""},
		{"refuses", func(context.Context, string, any, behaviour.Func[any]) behaviour.Outcome {
			return behaviour.Error(errForbidden)
		}, "forbidden"},
		{"panics", func(context.Context, string, any, behaviour.Func[any]) behaviour.Outcome { panic("in the middle") }, "crash at attempt 1: in the middle"},
		{"returns nothing", func(context.Context, string, any, behaviour.Func[any]) (o behaviour.Outcome) { return o }, "no outcome"},
		{"passes on another type", func(ctx context.Context, _ string, _ any, next behaviour.Func[any]) behaviour.Outcome {
			return next(ctx, "text")
		}, "a middleware passed on string, and the handler takes"},
		{"passes on nil", func(ctx context.Context, _ string, _ any, next behaviour.Func[any]) behaviour.Outcome {
			return next(ctx, nil)
		}, "a middleware passed on <nil>, and the handler takes"},
		{"passes on no context", func(_ context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
			return next(nil, cmd) //nolint:contextcheck // on purpose
		}, "stage: next of a middleware: nil context"},
		{"calls twice", func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
			next(ctx, cmd)
			return next(ctx, cmd)
		}, ""},
	} {
		var tr trace
		for kind, s := range map[string]*stage.Stage[int]{
			"a handler":   stage.New("s", &whole{&tr}, stage.Middleware(c.m)),
			"a Batcher":   stage.New("s", &batches{whole{&tr}}, stage.Middleware(c.m)),
			"a coroutine": stage.Coroutine("s", func(_ coroutine.Context, n int) behaviour.Outcome { return behaviour.OK(n + 1) }, stage.Middleware(c.m)),
		} {
			t.Run(c.name+" around "+kind, func(t *testing.T) {
				p := start(t, s)
				got, err := stage.Call[int](soon(t), s, 1)
				if c.says == "" {
					require.NoError(t, err)
					require.Equal(t, 2, got)
				} else {
					require.ErrorContains(t, err, c.says)
				}
				require.NoError(t, p.Stop(soon(t)))
				atRest(t, p)
			})
		}
	}
}

func TestAMiddlewareThatPanicsIsACrashOfItsCommandAlone(t *testing.T) {
	var tries atomic.Int32
	poison := func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		if cmd == 3 {
			tries.Add(1)
			panic("poison")
		}
		return next(ctx, cmd)
	}
	s := stage.Func("s", echo[int], stage.Middleware(poison), stage.Retry(stage.RetryPolicy{Attempts: 2}))
	p := run(t, s)
	for n := range 10 {
		if got, err := stage.Call[int](soon(t), s, n); n == 3 {
			var crash *stage.CrashError
			require.ErrorAs(t, err, &crash)
		} else {
			require.NoError(t, err)
			require.Equal(t, n, got)
		}
	}
	require.EqualValues(t, 2, tries.Load())
	require.EqualValues(t, 1, p.Snapshot().Stages[0].Counts.DeadLettered)
}

func TestABatchThatAMiddlewareAnswersWronglyFails(t *testing.T) {
	one := func(context.Context, string, any, behaviour.Func[any]) behaviour.Outcome { return behaviour.OK(1) }
	s := stage.New("s", &batches{whole{new(trace)}}, stage.Middleware(one))
	run(t, s)
	_, err := stage.Call[int](soon(t), s, 1)
	require.ErrorContains(t, err, `a middleware answered a batch of 1 with one "ok" outcome`)
}

// The time limit of a middleware ends what a suspended handler waits for, though the handler's own context goes on.
func TestASuspendedHandlerEndsWithTheContextOfItsMiddleware(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		begin := time.Now()
		limited := func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return next(ctx, cmd)
		}
		other := stage.Func("other", func(ctx context.Context, n int) behaviour.Outcome {
			time.Sleep(time.Duration(n) * time.Second)
			return behaviour.OK(n)
		})
		s := stage.Coroutine("s", func(c coroutine.Context, n int) behaviour.Outcome {
			if n < 0 {
				if _, err := stage.Call[int](c, other, -n); err != nil {
					return behaviour.Error(err)
				}
				return behaviour.OK(n)
			}
			if err := coroutine.Sleep(c, time.Duration(n)*400*time.Millisecond); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(n)
		}, stage.Middleware(limited), stage.Workers(1, 1))
		p := bubble(t, s, other)
		long, short := ticketFor(t, s, 10), ticketFor(t, s, 1)
		_, err := short.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, 400*time.Millisecond, time.Since(begin))
		_, err = long.Wait(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begin))
		_, err = stage.Call[int](t.Context(), s, -5)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAContextThatIsNotDerivedCannotSuspend(t *testing.T) {
	foreign := func(_ context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		return next(context.Background(), cmd) //nolint:contextcheck // on purpose
	}
	s := stage.Coroutine("s", func(coroutine.Context, int) behaviour.Outcome { return behaviour.OK(1) }, stage.Middleware(foreign))
	run(t, s)
	_, err := stage.Call[int](soon(t), s, 1)
	require.ErrorIs(t, err, behaviour.ErrCannotSuspend)
}

func TestAnUpgradeAndAnAddedStageHaveThePipelinesMiddleware(t *testing.T) {
	var tr trace
	s, later := stage.New("s", &whole{&tr}), stage.New("later", &whole{&tr})
	factory := func() behaviour.Behaviour[int] { return &whole{&tr} }
	before, err := s.Upgrade(soon(t), factory)
	require.NoError(t, err, "before the pipeline is made")
	_ = before
	p := run(t, s, pipeline.Middleware(with("all")))
	must(t, s, 1)
	r, err := s.Upgrade(soon(t), factory)
	require.NoError(t, err)
	await(t, r)
	must(t, s, 2)
	require.NoError(t, p.Add(soon(t), later))
	must(t, later, 3)
	lines := slices.DeleteFunc(tr.take(), func(l string) bool { return l == "start" || l == "stop" })
	require.Equal(t, []string{"handle 1 with all", "handle 2 with all", "handle 3 with all"}, lines)
}

func TestAnUpgradeAndSharedWorkersHaveMiddleware(t *testing.T) {
	for name, law := range ways(2) {
		t.Run(name, func(t *testing.T) {
			var calls, handled atomic.Int64
			counts := func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
				calls.Add(1)
				return next(ctx, cmd)
			}
			factory := func() behaviour.Behaviour[int] {
				return fn(func(_ context.Context, n int) behaviour.Outcome { handled.Add(1); return behaviour.OK(n) })
			}
			s := stage.Each("s", factory, stage.Middleware(counts))
			p := run(t, s, pipeline.Control(law))
			for n := range 200 {
				must(t, s, n)
			}
			_, err := s.Upgrade(soon(t), factory)
			require.NoError(t, err)
			must(t, s, 1)
			require.EqualValues(t, 201, handled.Load())
			require.EqualValues(t, 201, calls.Load())
			require.True(t, p.Snapshot().Balanced())
		})
	}
}

func TestACommandThatAMiddlewareEmitsGoesOn(t *testing.T) {
	audit := stage.Func("audit", echo[int])
	emits := func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		o := next(ctx, cmd)
		if err := behaviour.Emit(ctx, audit, cmd.(int)); err != nil {
			return behaviour.Error(err)
		}
		return o
	}
	s := stage.Func("s", echo[int], stage.Middleware(emits))
	p := run(t, s, audit)
	must(t, s, 1)
	require.EqualValues(t, 1, p.Snapshot().Stages[1].Counts.OK)
}

func TestANilMiddlewareIsRefused(t *testing.T) {
	_, err := pipeline.New("p", stage.Func("s", echo[int], stage.Middleware(with(1), nil)))
	require.ErrorContains(t, err, `stage "s": Middleware, function 2: is nil`)
	_, err = pipeline.New("p", stage.Func("s", echo[int]), pipeline.Middleware(nil))
	require.ErrorContains(t, err, `Middleware: middleware 1 is nil`)
	_, err = pipeline.New("p", stage.Func("s", echo[int], stage.Middleware()), pipeline.Middleware())
	require.NoError(t, err)
}

// Found by chaos: such a handler got the cause without the error, so that it could not tell what had happened.
func TestASuspendingHandlerWhoseDerivedContextEndsLearnsItsErrorAndItsCause(t *testing.T) {
	errLate := errors.New("late")
	ask := stage.New("asked", fn(echo[int]))
	ways := map[string]func(c behaviour.Suspender) error{
		"asks":  func(c behaviour.Suspender) error { _, err := ask.Ask(c, 1); return err },
		"calls": func(c behaviour.Suspender) error { _, err := stage.Call[int](c, ask, 1); return err },
		"waits": func(c behaviour.Suspender) error { return c.Suspend(func(func()) {}) },
	}
	asks := stage.New("asks", behaviour.Coroutine[string](func(c behaviour.Suspender, way string) behaviour.Outcome {
		return behaviour.Error(ways[way](c))
	}), stage.Middleware(func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		ctx, stop := context.WithTimeoutCause(ctx, 0, errLate)
		defer stop()
		return next(ctx, cmd)
	}))
	run(t, asks, ask)
	for way := range ways {
		_, err := stage.Call[int](t.Context(), asks, way)
		require.ErrorIs(t, err, context.DeadlineExceeded, way)
		require.ErrorIs(t, err, errLate, way)
	}
}
