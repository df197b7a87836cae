package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/window"
)

// atMost is the longest delay of a good command by the bad ones before it.
const atMost = 100 * time.Millisecond

// negative panics for a bad command.
func negative(cmd int) int {
	if cmd < 0 {
		panic("poison")
	}
	return cmd
}

// poisoned are stages at which a negative command crashes, each at another place.
func poisoned(opts ...stage.Option) map[string]*stage.Stage[int] {
	with := func(more ...stage.Option) []stage.Option { return slices.Concat(opts, more) }
	answer := fn(echo[int])
	each := func(int) *starter { return &starter{err: func() error { return nil }} }
	return map[string]*stage.Stage[int]{
		"handler":           stage.New("s", fn(poison), opts...),
		"instance":          stage.Each("s", func() behaviour.Behaviour[int] { return fn(poison) }, opts...),
		"suspended handler": stage.New[int]("s", yielding{}, opts...),
		"batch":             stage.New[int]("s", poisonBatch{}, opts...),
		"ordered":           stage.New("s", fn(poison), with(stage.Ordered())...),
		"three tries":       stage.New("s", fn(poison), with(stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: 1, Max: 1}))...),
		"Retry.If": stage.New("s", fn(func(_ context.Context, cmd int) behaviour.Outcome {
			if cmd < 0 {
				return behaviour.Error(errNo)
			}
			return behaviour.OK(cmd)
		}), with(stage.Retry(stage.RetryPolicy{Attempts: 3, If: func(error) bool { panic("poison") }}))...),
		"keyed":               stage.Keyed("s", func(cmd int) int { return cmd }, each, opts...),
		"keyed and suspended": stage.Keyed("s", func(cmd int) int { return cmd }, func(int) yielding { return yielding{} }, opts...),
		"one key":             stage.Keyed("s", func(cmd int) int { return max(cmd, 0) }, each, opts...),
		"key":                 stage.Keyed("s", negative, each, opts...),
		"NaN": stage.Keyed("s", func(cmd int) float64 {
			if cmd < 0 {
				return math.NaN()
			}
			return float64(cmd)
		}, func(float64) *starter { return each(0) }, opts...),
		"factory of keys": stage.Keyed("s", func(cmd int) int { return cmd }, func(k int) *starter { negative(k); return each(k) }, opts...),
		"RateBy":          stage.New("s", answer, with(stage.RateBy(negative, 1000, time.Millisecond, 1000))...),
		"RateBy NaN": stage.New("s", answer, with(stage.RateBy(func(cmd int) float64 {
			if cmd < 0 {
				return math.NaN()
			}
			return 1
		}, 1000, time.Millisecond, 1000))...),
		"deadline": stage.New("s", answer, with(stage.ExpiresAt(func(cmd int) time.Time { negative(cmd); return time.Time{} }))...),
		"middleware": stage.New("s", answer, with(stage.Middleware(func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
			negative(cmd.(int))
			return next(ctx, cmd)
		}))...),
	}
}

// yielding is suspended before it handles a command.
type yielding struct{}

func (yielding) HandleCommand(ctx context.Context, cmd int) behaviour.Outcome {
	return poison(ctx, cmd)
}

func (yielding) HandleSuspending(c behaviour.Suspender, cmd int) behaviour.Outcome {
	if err := coroutine.Yield(c); err != nil {
		return behaviour.Error(err)
	}
	return poison(c, cmd)
}

// poisonBatch crashes if a command of a batch is negative.
type poisonBatch struct{}

func (b poisonBatch) HandleCommand(ctx context.Context, cmd int) behaviour.Outcome {
	return poison(ctx, cmd)
}

func (b poisonBatch) HandleBatch(ctx context.Context, cmds []int) (out []behaviour.Outcome) {
	for _, cmd := range cmds {
		out = append(out, poison(ctx, cmd))
	}
	return out
}

// All time in the test is that of pauses.
func TestPoisonEndsNoPipelineAndDelaysAGoodCommandByATenthOfASecondAtMost(t *testing.T) {
	for name := range poisoned() {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				s := poisoned(stage.Workers(2, 2), stage.Capacity(500))[name]
				p := bubble(t, s, way)
				bad := 0
				for _, n := range []int{200, 20, 1, 0, 3, 50} {
					for range n {
						bad++
						require.NoError(t, s.Submit(t.Context(), -bad))
					}
					before := time.Now()
					got, err := stage.Call[int](t.Context(), s, 7)
					require.NoError(t, err)
					require.Equal(t, 7, got)
					require.LessOrEqual(t, time.Since(before), atMost, "after %d bad ones", n)
				}
				require.NoError(t, p.Drain(t.Context()))
				require.NoError(t, p.Err())
				require.True(t, p.Snapshot().Balanced())
				require.EqualValues(t, bad+6, p.Snapshot().Accepted)
				require.EqualValues(t, bad+6, p.Snapshot().Replied+p.Snapshot().DeadLettered+p.Snapshot().Failed)
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

// Each client sends its next bad command as soon as it knows the end of the last one, so there is no end to them.
func TestClientsThatSendPoisonForEverDelayAGoodCommandByATenthOfASecondAtMost(t *testing.T) {
	unraced(t)
	for name := range poisoned() {
		for _, clients := range []int{4, 20, 100} {
			t.Run(fmt.Sprint(name, clients), func(t *testing.T) {
				eachWay(t, func(t *testing.T, way pipeline.Part) {
					s := poisoned(stage.Workers(2, 2), stage.Capacity(500))[name]
					p := bubble(t, s, way)
					ctx, cancel := context.WithCancel(t.Context())
					var floods sync.WaitGroup
					for client := range clients {
						floods.Go(func() {
							for ctx.Err() == nil {
								_, _ = stage.Call[int](ctx, s, -1-client)
								time.Sleep(100 * time.Microsecond)
							}
						})
					}
					for i := range 10 {
						inTime, done := context.WithTimeout(t.Context(), atMost)
						_, err := stage.Call[int](inTime, s, 7+i%3)
						done()
						if !assert.NoError(t, err) {
							break
						}
						time.Sleep(time.Millisecond)
					}
					cancel()
					floods.Wait()
					require.NoError(t, p.Stop(t.Context()))
				})
			})
		}
	}
}

func TestPoisonOfAFeedEndsNoPipeline(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		s := stage.New("s", fn(poison), stage.Workers(2, 2))
		p, err := pipeline.New("test", unscaled([]pipeline.Part{
			s, way, pipeline.Feed("numbers", s, source.Slice(append(slices.Repeat([]int{-1}, 2000), 7))),
		})...)
		require.NoError(t, err)
		require.NoError(t, p.Run(t.Context()))
		require.True(t, p.Ending().Exhausted)
		require.EqualValues(t, 1, p.Snapshot().Replied)
		require.EqualValues(t, 2000, p.Snapshot().DeadLettered)
	})
}

// Its caller is answered at once each time; the pauses come after the answers.
func TestCallsThatCrashOneAfterAnotherAreAnswered(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		s := stage.New("s", fn(poison), stage.Workers(2, 2))
		p := bubble(t, s, way)
		for i := range 200 {
			before := time.Now()
			_, err := stage.Call[int](t.Context(), s, -1)
			require.True(t, stage.Crashed(err))
			require.LessOrEqual(t, time.Since(before), atMost)
			require.Equal(t, i+1, p.Snapshot().Stages[0].Workers.CrashStreak)
		}
		_, err := stage.Call[int](t.Context(), s, 1)
		require.NoError(t, err)
		require.Zero(t, p.Snapshot().Stages[0].Workers.CrashStreak, "the first success ends it")
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestSizesAndRoutesThatPanicEndNoPipeline(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		var sums, routed atomic.Int64
		win := window.All("w", window.Bounds[int]{Bytes: 1, Size: negative})
		read := stage.Map("read", func(_ context.Context, cmd int) (int, error) { return cmd, nil })
		p := bubble(t, way,
			win.To(stage.Sink("sum", func(context.Context, window.Window[struct{}, []int]) error { sums.Add(1); return nil })),
			read.Route(func(cmd, n int) int { return negative(cmd) % n }, stage.Sink("left", func(context.Context, int) error { routed.Add(1); return nil })))
		for range 200 {
			require.NoError(t, win.Submit(t.Context(), -1))
			require.NoError(t, read.Submit(t.Context(), -1))
		}
		require.NoError(t, win.Submit(t.Context(), 1))
		require.NoError(t, read.Submit(t.Context(), 1))
		require.NoError(t, p.Drain(t.Context()))
		require.NoError(t, p.Err())
		require.EqualValues(t, 1, sums.Load())
		require.EqualValues(t, 1, routed.Load())
		require.NoError(t, p.Stop(t.Context()))
	})
}

// The function runs where the command is forwarded.
func TestPrioritiesThatPanicEndNoPipeline(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		last := stage.New("last", fn(echo[int]), stage.Discipline(queue.PriorityOf(negative)))
		first := stage.New("first", fn(func(_ context.Context, cmd int) behaviour.Outcome { return behaviour.Forward(last, cmd) }))
		p := bubble(t, first, last, way)
		for range 200 {
			require.NoError(t, first.Submit(t.Context(), -1))
		}
		_, err := stage.Call[int](t.Context(), first, 1)
		require.NoError(t, err)
		require.NoError(t, p.Drain(t.Context()))
		require.NoError(t, p.Err())
		require.True(t, p.Snapshot().Balanced())
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestALimitOfTheUserEndsAPipelineOfWhichAllCommandsCrash(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		s := stage.New("s", fn(poison), stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 30}))
		p := bubble(t, s, way)
		for range 100 {
			if s.Submit(t.Context(), -1) != nil {
				break
			}
		}
		<-p.Done()
		var broken *stage.BrokenError
		require.ErrorAs(t, p.Err(), &broken)
		require.Equal(t, 32, broken.Crashes)
		require.Zero(t, broken.Unstarted)
		require.Contains(t, broken.Story(), "poison -1")
		require.Positive(t, broken.Pauses)
		atRest(t, p)
	})
}

// startOnce are factories of instances that crash for negative commands. Only the first instance can start.
var startOnce = map[string]func(first bool) behaviour.Behaviour[int]{
	"the factory": func(first bool) behaviour.Behaviour[int] {
		if !first {
			panic(errNo)
		}
		return fn(poison)
	},
	"Start": func(first bool) behaviour.Behaviour[int] {
		return &starter{err: func() error {
			if !first {
				return errNo
			}
			return nil
		}}
	},
	"Version": func(first bool) behaviour.Behaviour[int] { return named{fn(poison), first} },
}

// named is a behaviour whose Version panics unless it is good.
type named struct {
	behaviour.Behaviour[int]
	good bool
}

func (n named) Version() string {
	if !n.good {
		panic(errNo)
	}
	return "v"
}

// firstOf returns a factory whose first instance alone is the first.
func firstOf(build func(first bool) behaviour.Behaviour[int]) behaviour.Factory[int] {
	var made atomic.Int64
	return func() behaviour.Behaviour[int] { return build(made.Add(1) == 1) }
}

// The start of the pipeline succeeds, since the first instance can start.
func TestAStageThatCannotStartEndsThePipelineAlsoBesideCrashes(t *testing.T) {
	for name, build := range startOnce {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				s := stage.Each("s", firstOf(build), stage.Workers(1, 1))
				p := bubble(t, s, way)
				for range 100 {
					if s.Submit(t.Context(), -1) != nil {
						break
					}
				}
				begin := time.Now()
				<-p.Done()
				require.GreaterOrEqual(t, time.Since(begin), 30*time.Second)
				require.Less(t, time.Since(begin), 32*time.Second)
				var broken *stage.BrokenError
				require.ErrorAs(t, p.Err(), &broken)
				require.ErrorIs(t, p.Err(), errNo)
				require.Less(t, broken.Unstarted, 80, "a second between two tries")
				require.Equal(t, broken.Unstarted+1, broken.Crashes, "the crash of the handler is the first")
				require.ErrorContains(t, p.Err(), fmt.Sprintf("%d crashes in a row without a completed command, the last %d of workers that could not start",
					broken.Crashes, broken.Unstarted))
				atRest(t, p)
			})
		})
	}
}

// The database is away, so handlers crash and no instance can start, while other stages go on. However many workers try, the stage is
// there again when the database is.
func TestAStageWhoseResourceIsAwayForLessThanHalfAMinuteGoesOn(t *testing.T) {
	unraced(t)
	for name, c := range map[string]struct {
		away time.Duration
		opts []stage.Option
		ends bool
	}{
		"three seconds":         {away: 3 * time.Second},
		"twenty-five seconds":   {away: 25 * time.Second},
		"for longer":            {away: 40 * time.Second, ends: true},
		"beyond a limit":        {away: 25 * time.Second, opts: []stage.Option{stage.Restart(stage.RestartPolicy{Limit: 20})}, ends: true},
		"no limit, for an hour": {away: time.Hour, opts: []stage.Option{stage.Restart(stage.RestartPolicy{Limit: 1 << 30})}},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				var away atomic.Bool
				fails := func() error {
					if away.Load() {
						return errNo
					}
					return nil
				}
				s := stage.Each("s", func() behaviour.Behaviour[int] { return &starter{err: fails} }, append(c.opts, stage.Workers(4, 4))...)
				other := stage.Func("other", echo[int])
				p := bubble(t, s, other, way)
				_, err := stage.Call[int](t.Context(), s, 1)
				require.NoError(t, err)
				away.Store(true)
				for range 4 {
					require.NoError(t, s.Submit(t.Context(), -1)) // each crashes an instance
				}
				time.Sleep(c.away / 2)
				if !c.ends {
					_, err = stage.Call[int](t.Context(), other, 1)
					require.NoError(t, err)
				}
				time.Sleep(c.away / 2)
				away.Store(false)
				if c.ends {
					<-p.Done()
					require.ErrorIs(t, p.Err(), errNo)
					return
				}
				_, err = stage.Call[int](soon(t), s, 1)
				require.NoError(t, err)
				require.NoError(t, p.Stop(t.Context()))
				atRest(t, p)
			})
		})
	}
}

// The key of a command decides what the factory is called with, so its crash is charged to the command. With a Limit it counts as any
// other crash.
func TestAKeyedStageWhoseFactoryAlwaysPanicsGivesUpOnlyWithALimit(t *testing.T) {
	for name, limit := range map[string]int{"no limit": 0, "a limit": 30} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				s := stage.Keyed("s", func(cmd int) int { return cmd }, func(int) *starter { panic("no instance") },
					stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: limit}))
				p := bubble(t, s, way)
				for cmd := range 100 {
					if s.Submit(t.Context(), cmd) != nil {
						break
					}
				}
				if limit == 0 {
					require.NoError(t, p.Drain(t.Context()))
					require.NoError(t, p.Err())
					require.EqualValues(t, 100, p.Snapshot().DeadLettered)
					require.Equal(t, 100, p.Snapshot().Stages[0].Workers.CrashStreak)
					require.NoError(t, p.Stop(t.Context()))
					return
				}
				<-p.Done()
				var broken *stage.BrokenError
				require.ErrorAs(t, p.Err(), &broken)
				require.Equal(t, limit+2, broken.Crashes)
				require.Zero(t, broken.Unstarted)
			})
		})
	}
}

func TestAStageThatCrashesAndCompletesInTurnIsLoggedOnceAMinute(t *testing.T) {
	unraced(t)
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		var buf bytes.Buffer
		s := stage.New("s", fn(poison), stage.Workers(1, 1))
		p := bubble(t, s, way, pipeline.Logger(slog.New(slog.NewTextHandler(&buf, nil))))
		const minutes = 10
		for began := time.Now(); time.Since(began) < minutes*time.Minute; time.Sleep(500 * time.Millisecond) {
			for _, n := range []int{-1, -1, -1, 1} {
				_, err := stage.Call[int](t.Context(), s, n)
				require.Equal(t, n < 0, stage.Crashed(err))
			}
		}
		require.NoError(t, p.Stop(t.Context()))
		paused, completed := strings.Count(buf.String(), "a stage pauses"), strings.Count(buf.String(), "a stage completes")
		require.InDelta(t, minutes, paused, 1)
		require.Equal(t, paused, completed)
	})
}

func TestAStreakThatSlowsAStageDownIsLoggedWheneverItHasDoubledAndItsEndToo(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		var buf bytes.Buffer
		s := stage.New("s", fn(poison), stage.Workers(1, 1))
		p := bubble(t, s, way, pipeline.Logger(slog.New(slog.NewTextHandler(&buf, nil))))
		for range 120 {
			_, err := stage.Call[int](t.Context(), s, -1)
			require.True(t, stage.Crashed(err))
		}
		_, err := stage.Call[int](t.Context(), s, 1)
		require.NoError(t, err)
		require.NoError(t, p.Stop(t.Context()))
		var lines []string
		for line := range strings.Lines(buf.String()) {
			if _, text, ok := strings.Cut(line, `msg="a stage `); ok {
				lines = append(lines, strings.TrimSpace(text))
			}
		}
		const pauses = `pauses between crashes" pipeline=bubble stage=s "crashes in a row"=`
		require.Equal(t, []string{
			pauses + "2", pauses + "4", pauses + "8", pauses + "16", pauses + "32", pauses + "64",
			`completes commands again" pipeline=bubble stage=s "crashes in a row"=120`,
		}, lines)
	})
}
