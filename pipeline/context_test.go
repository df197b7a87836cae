package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// traceKey is the key of a value as a tracer would put into a context.
type traceKey struct{}

func traced(ctx context.Context, id any) context.Context {
	return context.WithValue(ctx, traceKey{}, id)
}

func traceOf(ctx context.Context) any { return ctx.Value(traceKey{}) }

// everyKind returns a stage of each kind around one function.
var everyKind = map[string]func(name string, f behaviour.Func[any], opts ...stage.Option) *stage.Stage[any]{
	"plain": func(name string, f behaviour.Func[any], opts ...stage.Option) *stage.Stage[any] {
		return stage.Func(name, f, opts...)
	},
	"each": func(name string, f behaviour.Func[any], opts ...stage.Option) *stage.Stage[any] {
		return stage.Each(name, func() behaviour.Behaviour[any] { return f }, opts...)
	},
	"with a time limit": func(name string, f behaviour.Func[any], opts ...stage.Option) *stage.Stage[any] {
		return stage.Func(name, f, append(opts, stage.Timeout(time.Minute))...)
	},
	"coroutine": func(name string, f behaviour.Func[any], opts ...stage.Option) *stage.Stage[any] {
		return stage.Coroutine(name, func(c behaviour.Suspender, cmd any) behaviour.Outcome { return f(c, cmd) }, opts...)
	},
	"coroutine with a time limit": func(name string, f behaviour.Func[any], opts ...stage.Option) *stage.Stage[any] {
		return stage.Coroutine(name, func(c behaviour.Suspender, cmd any) behaviour.Outcome { return f(c, cmd) },
			append(opts, stage.Timeout(time.Minute))...)
	},
}

// submissions are the ways in which a command is submitted.
var submissions = map[string]func(ctx context.Context, to *stage.Stage[any], cmd any) error{
	"Submit": func(ctx context.Context, to *stage.Stage[any], cmd any) error { return to.Submit(ctx, cmd) },
	"SubmitAll": func(ctx context.Context, to *stage.Stage[any], cmd any) error {
		_, err := to.SubmitAll(ctx, cmd)
		return err
	},
	"Ask": func(ctx context.Context, to *stage.Stage[any], cmd any) error {
		_, err := to.Ask(ctx, cmd)
		return err
	},
	"Call": func(ctx context.Context, to *stage.Stage[any], cmd any) error {
		_, err := stage.Call[any, any](ctx, to, cmd)
		return err
	},
}

// A command is forwarded and emits, the emitted commands are forwarded, and one attempt fails. All handlers see the trace of the
// caller, and the pipeline's own values where the caller has none.
func TestHandlersOnACommandsPathSeeTheValuesOfTheCallersContext(t *testing.T) {
	type ownKey struct{}
	for kind, make := range everyKind {
		for _, grouped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/grouped=%v", kind, grouped), func(t *testing.T) {
				seen := newSightings()
				see := func(name string, then behaviour.Func[any]) behaviour.Func[any] {
					return func(ctx context.Context, cmd any) behaviour.Outcome {
						seen.addf(cmd, "%s: %v, %v", name, traceOf(ctx), ctx.Value(ownKey{}))
						return then(ctx, cmd)
					}
				}
				last := make("last", see("last", echo[any]), stage.Workers(2, 2))
				first := make("first", see("first", func(ctx context.Context, cmd any) behaviour.Outcome {
					if behaviour.Attempt(ctx) == 1 {
						return behaviour.Error(errNo)
					}
					if err := behaviour.Emit[any](ctx, last, cmd); err != nil {
						return behaviour.Error(err)
					}
					return behaviour.Forward[any](last, cmd)
				}), stage.Workers(2, 2), stage.Retry(stage.RetryPolicy{Attempts: 2}))
				parts := []pipeline.Part{pipeline.System(system()), quiet, first, last}
				if grouped {
					parts = append(parts, pipeline.Group("both", 2, 2, first, last))
				}
				p, err := pipeline.New("traced", parts...)
				require.NoError(t, err)
				require.NoError(t, p.Start(context.WithValue(context.Background(), ownKey{}, "own")))
				for way, submit := range submissions {
					require.NoError(t, submit(traced(context.Background(), "trace of "+way), first, way))
					ending, cancel := context.WithCancel(traced(context.Background(), "end of "+way))
					defer cancel()
					require.NoError(t, submit(ending, first, way+" ending"))
					require.NoError(t, submit(context.Background(), first, way+" bare"))
				}
				require.NoError(t, p.Stop(soon(t)))
				for way := range submissions {
					for cmd, want := range map[string]any{way: "trace of " + way, way + " ending": "end of " + way, way + " bare": nil} {
						require.ElementsMatch(t, []string{
							fmt.Sprintf("first: %v, own", want), fmt.Sprintf("first: %v, own", want),
							fmt.Sprintf("last: %v, own", want), fmt.Sprintf("last: %v, own", want),
						}, seen.of(cmd), cmd)
					}
				}
			})
		}
	}
}

// sightings records what handlers see of commands.
type sightings struct {
	mu    sync.Mutex
	lines map[any][]string
}

func newSightings() *sightings { return &sightings{lines: map[any][]string{}} }

func (l *sightings) addf(cmd any, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[cmd] = append(l.lines[cmd], fmt.Sprintf(format, args...))
}

func (l *sightings) of(cmd any) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[cmd]
}

// gate is a stage whose handlers wait for the test.
type gate struct {
	begun chan any
	open  chan struct{}
}

func newGate() *gate { return &gate{make(chan any, 100), make(chan struct{})} }

func (g *gate) handle(_ context.Context, cmd any) behaviour.Outcome {
	g.begun <- cmd
	<-g.open
	return behaviour.OK(cmd)
}

var errEnough = errors.New("the caller gave up")

// The only worker is busy, and a command whose caller gives up is queued.
func TestAQueuedCommandWhoseCallersContextEndsFailsWithoutBeingHandled(t *testing.T) {
	for kind, make := range everyKind {
		t.Run(kind, func(t *testing.T) {
			g := newGate()
			s := make("gate", g.handle, stage.Workers(1, 1), stage.Instances(1), stage.Retry(stage.RetryPolicy{Attempts: 3}))
			p := run(t, s)
			held, err := s.Ask(context.Background(), "held")
			require.NoError(t, err)
			require.Equal(t, "held", <-g.begun)
			ctx, cancel := context.WithCancelCause(context.Background())
			queued, err := s.Ask(ctx, "queued")
			require.NoError(t, err)
			require.NoError(t, s.Submit(ctx, "submitted"))
			behind, err := s.Ask(context.Background(), "behind")
			require.NoError(t, err)
			cancel(errEnough)
			close(g.open)
			<-held.Done()
			<-queued.Done()
			require.ErrorIs(t, queued.Err(), context.Canceled)
			require.ErrorIs(t, queued.Err(), errEnough)
			require.ErrorContains(t, queued.Err(), `stage "gate"`)
			<-behind.Done()
			require.NoError(t, behind.Err())
			require.Equal(t, "submitted", <-g.begun, "the submitted command continues")
			require.Equal(t, "behind", <-g.begun)
			require.Empty(t, g.begun)
			end := p.Snapshot()
			require.EqualValues(t, 1, end.Failed)
			require.EqualValues(t, 3, end.Replied)
			require.Zero(t, end.Stages[0].Counts.Retries)
		})
	}
}

// The error wraps both: that the context ended, and the cause.
func TestTheContextOfARunningHandlerEndsWithItsCallersContext(t *testing.T) {
	for kind, make := range everyKind {
		for end, want := range map[string]error{"canceled": context.Canceled, "deadline": context.DeadlineExceeded} {
			t.Run(kind+"/"+end, func(t *testing.T) {
				begun := newGate().begun
				s := make("waits", func(ctx context.Context, cmd any) behaviour.Outcome {
					begun <- cmd
					<-ctx.Done()
					return behaviour.Error(fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx)))
				}, stage.Retry(stage.RetryPolicy{Attempts: 3}))
				p := run(t, s)
				ctx, cancel := context.WithCancelCause(context.Background())
				if end == "deadline" {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeoutCause(context.Background(), time.Millisecond, errEnough)
					defer stop()
				}
				ticket, err := s.Ask(ctx, "asked")
				if err == nil && end == "canceled" {
					<-begun
					cancel(errEnough)
				}
				cancel(nil)
				if err != nil { // the deadline passed before the command was accepted
					require.ErrorIs(t, err, errEnough)
					return
				}
				<-ticket.Done()
				require.ErrorIs(t, ticket.Err(), errEnough)
				if end == "canceled" || kind == "plain" || kind == "each" {
					require.ErrorIs(t, ticket.Err(), want)
				}
				require.Zero(t, p.Snapshot().Stages[0].Counts.Retries, "it is not retried either")
			})
		}
	}
}

// That includes commands that were emitted and forwarded, and those that a handler submitted to another stage.
func TestCommandsThatFollowFromACallEndWithIt(t *testing.T) {
	for kind, make := range everyKind {
		t.Run(kind, func(t *testing.T) {
			g := newGate()
			waits := func(ctx context.Context, cmd any) behaviour.Outcome {
				g.begun <- cmd
				<-ctx.Done()
				return behaviour.Error(context.Cause(ctx))
			}
			child := make("child", waits, stage.Workers(1, 1))
			asked := make("asked", waits, stage.Workers(1, 1))
			parent := make("parent", func(ctx context.Context, cmd any) behaviour.Outcome {
				if cmd == "asks" {
					_, err := stage.Call[any, any](ctx, asked, cmd)
					return behaviour.Error(err)
				}
				if err := behaviour.Emit[any](ctx, child, "emitted"); err != nil {
					return behaviour.Error(err)
				}
				return behaviour.Forward[any](child, cmd)
			})
			p := run(t, child, asked, parent)
			ctx, cancel := context.WithCancelCause(context.Background())
			one, err := parent.Ask(ctx, "goes on")
			require.NoError(t, err)
			other, err := parent.Ask(ctx, "asks")
			require.NoError(t, err)
			<-g.begun
			<-g.begun
			cancel(errEnough)
			<-one.Done()
			<-other.Done()
			require.ErrorIs(t, one.Err(), errEnough)
			require.ErrorIs(t, other.Err(), errEnough)
			require.NoError(t, p.Drain(soon(t)))
			end := p.Snapshot()
			require.Equal(t, end.Accepted, end.Failed)
		})
	}
}

// The context has the values of the command, and ends with the pipeline.
func TestSubmitKeepsTheValuesOfAContextButNotItsEnd(t *testing.T) {
	for kind, make := range everyKind {
		t.Run(kind, func(t *testing.T) {
			g := newGate()
			errs := newGate().begun
			s := make("gate", func(ctx context.Context, cmd any) behaviour.Outcome {
				o := g.handle(ctx, cmd)
				_, limited := ctx.Deadline()
				errs <- []any{traceOf(ctx), ctx.Err(), context.Cause(ctx), limited}
				return o
			}, stage.Workers(1, 1))
			run(t, s)
			ctx, cancel := context.WithTimeout(traced(context.Background(), "mine"), time.Hour)
			require.NoError(t, s.Submit(ctx, 1))
			<-g.begun
			cancel()
			close(g.open)
			limited := kind == "with a time limit" || kind == "coroutine with a time limit"
			require.Equal(t, []any{"mine", nil, nil, limited}, <-errs)
		})
	}
}

// A goroutine that outlives its handler reads the context while the worker handles other commands.
func TestAContextThatAHandlerKeptHasTheValuesOfItsCommand(t *testing.T) {
	for kind, make := range everyKind {
		t.Run(kind, func(t *testing.T) {
			const commands = 300
			var readers sync.WaitGroup
			s := make("keeps", func(ctx context.Context, cmd any) behaviour.Outcome {
				readers.Go(func() {
					for range 10 {
						assert.Equal(t, cmd, traceOf(ctx))
						_, _ = ctx.Deadline()
						_ = ctx.Err()
						runtime.Gosched()
					}
					_ = ctx.Done()
				})
				return behaviour.OK(nil)
			}, stage.Workers(2, 2))
			p := run(t, s)
			for i := range commands {
				ctx, cancel := context.WithCancel(traced(context.Background(), i))
				if i%3 == 0 {
					require.NoError(t, s.Submit(ctx, i))
				} else {
					_, err := stage.Call[any, any](ctx, s, i)
					require.NoError(t, err)
				}
				cancel()
			}
			require.NoError(t, p.Drain(soon(t)))
			readers.Wait()
		})
	}
}

// Values that a handler adds to its context travel with the commands that it submits.
func TestValuesThatAHandlerAddsTravelWithTheCommandsItSubmits(t *testing.T) {
	type spanKey struct{}
	for kind, make := range everyKind {
		t.Run(kind, func(t *testing.T) {
			seen := newSightings()
			next := make("next", func(ctx context.Context, cmd any) behaviour.Outcome {
				seen.addf(cmd, "%v %v %v", traceOf(ctx), ctx.Value(spanKey{}), ctx.Err())
				return behaviour.OK(nil)
			})
			first := make("first", func(ctx context.Context, _ any) behaviour.Outcome {
				limited, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				if err := errors.Join(
					next.Submit(ctx, "as at present"),
					next.Submit(limited, "limited"),
					next.Submit(context.WithValue(limited, spanKey{}, "span"), "with a span"),
				); err != nil {
					return behaviour.Error(err)
				}
				return behaviour.OK(nil)
			})
			p := run(t, next, first)
			_, err := stage.Call[any, any](traced(t.Context(), "mine"), first, 0)
			require.NoError(t, err)
			require.NoError(t, p.Drain(soon(t)))
			require.Equal(t, []string{"mine <nil> <nil>"}, seen.of("as at present"))
			require.Equal(t, []string{"mine <nil> <nil>"}, seen.of("limited"))
			require.Equal(t, []string{"mine span <nil>"}, seen.of("with a span"))
		})
	}
}

// If a pipeline feeds itself, each command's context derives from the last one's, and the chain would keep all of them.
func TestAPipelineThatFeedsItselfDoesNotRetainOldContexts(t *testing.T) {
	type hopKey struct{}
	hops := fewer(20_000)
	done := make(chan any)
	var s *stage.Stage[int]
	s = stage.Func("self", func(ctx context.Context, n int) behaviour.Outcome {
		if n == hops {
			done <- traceOf(ctx)
			return behaviour.OK(nil)
		}
		next, cancel := context.WithTimeout(context.WithValue(ctx, hopKey{}, new([1 << 16]byte)), time.Hour)
		defer cancel()
		if err := s.Submit(next, n+1); err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(nil)
	})
	run(t, s)
	require.NoError(t, s.Submit(traced(context.Background(), "first"), 0))
	require.Equal(t, "first", <-done, "the values of the first command's context are kept")
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	require.Less(t, m.HeapAlloc, uint64(hops<<16)/4)
}

// A context may have a type that cannot be compared.
func TestAContextOfAnUncomparableTypeTravels(t *testing.T) {
	seen := newSightings()
	s := stage.Func("sees", func(ctx context.Context, cmd int) behaviour.Outcome {
		seen.addf(cmd, "%v", traceOf(ctx))
		return behaviour.OK(nil)
	})
	p := run(t, s)
	for i := range 3 {
		require.NoError(t, s.Submit(uncomparable{traced(context.Background(), "mine"), nil}, i))
	}
	require.NoError(t, p.Drain(soon(t)))
	for i := range 3 {
		require.Equal(t, []string{"mine"}, seen.of(i))
	}
}

type uncomparable struct {
	context.Context
	_ []int
}

// The caller is a handler of another stage, and its profile labels are in the context. The called handler still has its own
// stage's labels.
func TestAHandlersProfileLabelsAreItsStagesWhateverTheCaller(t *testing.T) {
	label := func(ctx context.Context, _ any) behaviour.Outcome {
		name, _ := pprof.Label(ctx, "stage")
		return behaviour.OK(name)
	}
	for kind, make := range everyKind {
		t.Run(kind, func(t *testing.T) {
			callee := make("callee", label)
			caller := make("caller", func(ctx context.Context, cmd any) behaviour.Outcome {
				got, err := stage.Call[any, any](ctx, callee, cmd)
				if err != nil {
					return behaviour.Error(err)
				}
				return behaviour.OK(got)
			})
			run(t, callee, caller)
			labelled := pprof.WithLabels(t.Context(), pprof.Labels("stage", "none"))
			got, err := stage.Call[any, any](labelled, caller, 0)
			require.NoError(t, err)
			require.Equal(t, "callee", got)
		})
	}
}

// Before, middleware in a called stage could find the caller's suspender and suspend the wrong handler, for good. Found by chaos.
func TestAHandlerDoesNotFindTheSuspenderOfTheHandlerThatCallsIt(t *testing.T) {
	found := make(chan any, 10)
	look := func(ctx context.Context, n int) behaviour.Outcome {
		found <- ctx.Value(link.SuspenderKey{})
		return behaviour.OK(n)
	}
	for name, options := range map[string][]stage.Option{
		"plain": nil, "with a time limit": {stage.Timeout(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			var called *stage.Stage[int]
			for way, call := range map[string]func(c behaviour.Suspender, n int) error{
				"called":    func(c behaviour.Suspender, n int) error { _, err := stage.Call[int](c, called, n); return err },
				"submitted": func(c behaviour.Suspender, n int) error { return called.Submit(c, n) },
				"with values": func(c behaviour.Suspender, n int) error {
					return called.Submit(traced(c, 1), n)
				},
			} {
				caller := stage.New[int]("caller "+way, behaviour.Coroutine[int](func(c behaviour.Suspender, n int) behaviour.Outcome {
					if err := call(c, n); err != nil {
						return behaviour.Error(err)
					}
					return behaviour.OK(n)
				}))
				called = stage.Func("called", look, options...)
				p := start(t, caller, called)
				_, err := stage.Call[int](soon(t), caller, 1)
				require.NoError(t, err)
				require.Nil(t, <-found, way)
				require.NoError(t, p.Stop(soon(t)))
			}
		})
	}
}
