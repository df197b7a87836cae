package tap_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/tap"
	"github.com/golda-dev/golda/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = pipeline.Logger(slog.New(slog.DiscardHandler))

// start starts a pipeline with a tap.
func start(t testing.TB, parts ...pipeline.Part) (*tap.Tap, *pipeline.Pipeline) {
	t.Helper()
	tp := tap.New()
	p, err := pipeline.New("test", append(parts, pipeline.Middleware(tp.Around), quiet)...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	return tp, p
}

func watch(t testing.TB, tp *tap.Tap, p *pipeline.Pipeline, o tap.Options) *tap.Watch {
	t.Helper()
	w, err := tp.Watch(t.Context(), p, o)
	require.NoError(t, err)
	return w
}

// lines returns the events until now, without their times.
func lines(w *tap.Watch) (all []string) {
	w.Close()
	for e := range w.Events() {
		_, rest, _ := strings.Cut(e.String(), " ")
		rest, _, _ = strings.Cut(rest, " after ")
		if e.Batch > 1 {
			rest += fmt.Sprintf(" of %d", e.Batch)
		}
		all = append(all, rest)
	}
	return all
}

func asText(cmd any) string { return fmt.Sprint(cmd) }

// batches handles batches: odd numbers fail.
type batches struct{}

func (batches) HandleCommand(context.Context, int) behaviour.Outcome { panic("it is a Batcher") }

func (batches) HandleBatch(_ context.Context, cmds []int) (all []behaviour.Outcome) {
	for _, n := range cmds {
		if n == 13 {
			panic("thirteen")
		}
		if n%2 == 1 {
			all = append(all, behaviour.Error(errors.New("odd")))
		} else {
			all = append(all, behaviour.OK(n))
		}
	}
	return all
}

func TestAnEventSaysWhatTheHandlerDid(t *testing.T) {
	tries := stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Millisecond})
	type target = behaviour.Target[int]
	one := func(f behaviour.Func[int], opts ...stage.Option) func(target) *stage.Stage[int] {
		return func(target) *stage.Stage[int] { return stage.Func("s", f, opts...) }
	}
	for name, c := range map[string]struct {
		make func(next target) *stage.Stage[int]
		send []int
		want []string
	}{
		"a result": {
			one(func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) }),
			[]int{1},
			[]string{"s 1: ok"},
		},
		"an error, twice": {
			one(func(context.Context, int) behaviour.Outcome { return behaviour.Error(io.ErrUnexpectedEOF) }, tries),
			[]int{1},
			[]string{"s 1: error: unexpected EOF", "s 1 (try 2): error: unexpected EOF"},
		},
		"a crash": {
			one(func(context.Context, int) behaviour.Outcome { panic("on purpose") }),
			[]int{1},
			[]string{"s 1: crashed"},
		},
		"the end of the goroutine": {
			one(func(context.Context, int) behaviour.Outcome { runtime.Goexit(); return behaviour.OK(nil) }),
			[]int{1},
			[]string{"s 1: crashed"},
		},
		"no outcome": {
			one(func(context.Context, int) (o behaviour.Outcome) { return o }),
			[]int{1},
			[]string{"s 1: error: " + behaviour.ErrNoOutcome.Error()},
		},
		"a way on": {
			func(next target) *stage.Stage[int] {
				return stage.Func("s", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(next, n+1) })
			},
			[]int{1},
			[]string{"s 1: to next", "next 2: ok"},
		},
		"a handler that suspends": {
			func(target) *stage.Stage[int] {
				return stage.Coroutine("s", func(_ behaviour.Suspender, n int) behaviour.Outcome { return behaviour.OK(n) })
			},
			[]int{1},
			[]string{"s 1: ok"},
		},
		"a batch": {
			func(target) *stage.Stage[int] {
				return stage.New("s", batches{}, stage.Linger(time.Second), stage.Workers(1, 1))
			},
			[]int{2, 3, 4},
			[]string{"s 2: ok of 3", "s 3: error: odd of 3", "s 4: ok of 3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := stage.Sink("next", func(context.Context, int) error { return nil })
				s := c.make(next)
				tp, p := start(t, s, next)
				w := watch(t, tp, p, tap.Options{Show: asText})
				_, err := s.SubmitAll(t.Context(), c.send...)
				require.NoError(t, err)
				require.NoError(t, p.Drain(t.Context()))
				assert.Equal(t, c.want, lines(w))
				assert.NoError(t, w.Err())
				assert.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

// A batch that crashes is tried again one by one. The tap does not know at first that it is a batch.
func TestABatchThatCrashesIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage.New("s", batches{}, stage.Linger(time.Second), stage.Workers(1, 1))
		tp, p := start(t, s)
		w := watch(t, tp, p, tap.Options{Show: asText})
		for range 2 {
			_, err := s.SubmitAll(t.Context(), 12, 13)
			require.NoError(t, err)
			time.Sleep(10 * time.Second)
		}
		assert.Equal(t, []string{
			"s [12 13]: crashed", "s 12: ok", "s 13: crashed",
			"s 12: crashed of 2", "s 13: crashed of 2", "s 12: ok", "s 13: crashed",
		}, lines(w))
		assert.NoError(t, p.Stop(t.Context()))
	})
}

func TestACommandThatIsASliceIsOneCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage.Sink("s", func(context.Context, []string) error { return nil })
		tp, p := start(t, s)
		w := watch(t, tp, p, tap.Options{Show: asText})
		require.NoError(t, s.Submit(t.Context(), []string{"a", "b"}))
		require.NoError(t, p.Drain(t.Context()))
		assert.Equal(t, []string{"s [a b]: ok"}, lines(w))
		assert.NoError(t, p.Stop(t.Context()))
	})
}

type request struct{}

func TestARequestIsFollowedThroughAllStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stage.Sink("c", func(context.Context, int) error { return nil })
		b := stage.Map("b", func(_ context.Context, n int) (int, error) { return 10 * n, nil })
		a := stage.Map("a", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		tp, p := start(t, a, b, c, a.To(b), b.To(c))
		w := watch(t, tp, p, tap.Options{Show: asText, Where: func(ctx context.Context, _ string, _ any) bool {
			return ctx.Value(request{}) == 7
		}})
		for n := range 100 {
			require.NoError(t, a.Submit(context.WithValue(t.Context(), request{}, n), n))
		}
		require.NoError(t, p.Drain(t.Context()))
		assert.Equal(t, []string{"a 7: to b", "b 8: to c", "c 80: ok"}, lines(w))
		assert.Equal(t, tap.Counts{Asked: 300, Matched: 3, Shown: 3}, w.Counts())
		assert.NoError(t, p.Stop(t.Context()))
	})
}

func TestAWatchEnds(t *testing.T) {
	for name, c := range map[string]struct {
		options tap.Options
		end     func(w *tap.Watch, cancel context.CancelFunc)
		shown   uint64
		err     error
	}{
		"after its limit":           {tap.Options{Limit: 3}, nil, 3, nil},
		"after its time":            {tap.Options{For: 5 * time.Second}, nil, 4, nil},
		"after a minute":            {tap.Options{}, nil, 59, nil},
		"when it is closed":         {tap.Options{}, func(w *tap.Watch, _ context.CancelFunc) { w.Close(); w.Close() }, 10, nil},
		"with its context":          {tap.Options{}, func(_ *tap.Watch, cancel context.CancelFunc) { cancel() }, 10, context.Canceled},
		"after a limit of failures": {tap.Options{Limit: 2, After: func(e tap.Event) bool { return e.Err != nil }}, nil, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage.Sink("s", func(_ context.Context, n int) error {
					if n%10 == 0 {
						return errors.New("ten")
					}
					return nil
				})
				tp, p := start(t, s)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w, err := tp.Watch(ctx, p, c.options)
				require.NoError(t, err)
				time.Sleep(time.Second / 2) // so that nothing happens at the same time
				for n := 1; n <= 100; n++ {
					time.Sleep(time.Second)
					if n == 11 && c.end != nil {
						c.end(w, cancel)
						synctest.Wait()
					}
					require.NoError(t, s.Submit(t.Context(), n))
				}
				synctest.Wait()
				for range w.Events() {
				} // it is closed
				assert.Equal(t, c.shown, w.Counts().Shown)
				assert.ErrorIs(t, w.Err(), c.err)
				assert.EqualValues(t, 90, s.Snapshot().Counts.OK)
				assert.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

func TestAWatchEndsWithItsPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tp, p := start(t, stage.Sink("s", func(context.Context, int) error { return nil }))
		w := watch(t, tp, p, tap.Options{For: time.Hour})
		require.NoError(t, p.Stop(t.Context()))
		began := time.Now()
		for range w.Events() {
		}
		require.Zero(t, time.Since(began))
		require.NoError(t, w.Err())
	})
}

func TestAReaderThatIsSlowDelaysNoCommandAndHearsHowManyItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage.Sink("s", func(context.Context, int) error { return nil })
		tp, p := start(t, s)
		w := watch(t, tp, p, tap.Options{Buffer: 10})
		began := time.Now()
		for n := range 1000 {
			require.NoError(t, s.Submit(t.Context(), n))
		}
		require.NoError(t, p.Drain(t.Context()))
		require.Zero(t, time.Since(began))
		assert.Equal(t, tap.Counts{Asked: 1000, Matched: 1000, Dropped: 990, Shown: 10}, w.Counts())
		assert.Len(t, lines(w), 10)
		assert.NoError(t, p.Stop(t.Context()))
	})
}

func TestAFunctionThatPanicsEndsItsWatchAndNoCommand(t *testing.T) {
	for name, o := range map[string]tap.Options{
		"Where": {Where: func(context.Context, string, any) bool { panic("no") }},
		"After": {After: func(tap.Event) bool { panic("no") }},
		"Show":  {Show: func(any) string { panic("no") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage.Sink("s", func(context.Context, int) error { return nil })
				tp, p := start(t, s)
				w, other := watch(t, tp, p, o), watch(t, tp, p, tap.Options{})
				for n := range 10 {
					require.NoError(t, s.Submit(t.Context(), n))
				}
				require.NoError(t, p.Drain(t.Context()))
				require.ErrorIs(t, w.Err(), tap.ErrFunction)
				assert.Empty(t, lines(w))
				assert.Equal(t, slices.Repeat([]string{"s int: ok"}, 10), lines(other), "shown by the type alone")
				assert.EqualValues(t, 10, s.Snapshot().Counts.OK)
				assert.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tp, p := start(t, stage.Sink("s", func(context.Context, int) error { return nil }))
		for want, o := range map[string]tap.Options{
			"Share":  {Share: -0.1},
			"Share ": {Share: math.NaN()},
			"Limit":  {Limit: -1},
			"For":    {For: -1},
			"Buffer": {Buffer: -1},
			"Stages": {Stages: []string{"s", "t"}},
		} {
			_, err := tp.Watch(t.Context(), p, o)
			var refused *tap.OptionError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, strings.TrimSpace(want), refused.Option)
		}
		_, err := tp.Watch(t.Context(), p, tap.Options{Stages: []string{"t"}})
		require.EqualError(t, err, `tap: option Stages: pipeline "test" has no stage "t"; it has ["s"]`)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAShareOfTheCommandsIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage.Sink("s", func(context.Context, int) error { return nil })
		tp, p := start(t, s)
		w := watch(t, tp, p, tap.Options{Share: 0.1, Buffer: 10_000, Limit: 10_000})
		for n := range 10_000 {
			require.NoError(t, s.Submit(t.Context(), n))
		}
		require.NoError(t, p.Drain(t.Context()))
		assert.InDelta(t, 1000, w.Counts().Shown, 200) // more than six standard deviations
		w.Close()
		assert.NoError(t, p.Stop(t.Context()))
	})
}

// Watches come and go while workers handle commands, some of which crash.
func TestWatchesThatComeAndGoLoseNoCommand(t *testing.T) {
	var handled atomic.Int64
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
		handled.Add(1)
		if n%97 == 0 {
			panic("on purpose")
		}
		return behaviour.OK(n)
	}, stage.Workers(4, 4))
	tp, p := start(t, s)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				w, err := tp.Watch(ctx, p, tap.Options{Limit: 20, Show: asText})
				assert.NoError(t, err)
				for range w.Events() {
					if w.Counts().Shown > 10 {
						w.Close()
					}
				}
			}
		})
	}
	const commands = 20_000
	for n := range commands {
		require.NoError(t, s.Submit(t.Context(), n))
	}
	require.NoError(t, p.Drain(t.Context()))
	require.EqualValues(t, commands, handled.Load())
	require.True(t, p.Snapshot().Balanced())
	cancel()
	require.NoError(t, p.Stop(t.Context()))
	all.Wait()
}

// What a tap costs a command: without one, without a watch, with a watch of another stage, with a watch that shows one of a hundred, and
// with a watch that shows all.
func BenchmarkTap(b *testing.B) {
	for _, c := range []struct {
		name  string
		tap   bool
		watch *tap.Options
	}{
		{"none", false, nil},
		{"unwatched", true, nil},
		{"another stage", true, &tap.Options{Stages: []string{"other"}}},
		{"one of a hundred", true, &tap.Options{Share: 0.01}},
		{"all", true, &tap.Options{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := stage.Func("s", func(_ context.Context, n *int) behaviour.Outcome { return behaviour.OK(nil) }, stage.Workers(1, 1))
			other := stage.Func("other", func(_ context.Context, n *int) behaviour.Outcome { return behaviour.OK(nil) })
			tp, parts := tap.New(), []pipeline.Part{s, other, quiet}
			if c.tap {
				parts = append(parts, pipeline.Middleware(tp.Around))
			}
			p, err := pipeline.New("bench", parts...)
			require.NoError(b, err)
			require.NoError(b, p.Start(b.Context()))
			if c.watch != nil {
				o := *c.watch
				o.Limit, o.For = math.MaxInt, time.Hour
				w := watch(b, tp, p, o)
				defer w.Close()
				go func() {
					for range w.Events() {
					}
				}()
			}
			n := new(int)
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Submit(b.Context(), n); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, p.Stop(context.Background()))
		})
	}
}
