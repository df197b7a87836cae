package stagetest_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/window"
)

var errOdd = errors.New("odd")

// half is a stage whose handler fails for odd numbers, and crashes for negative ones.
func half(opts ...stage.Option) *stage.Flow[int, int] {
	return stage.Map("half", func(_ context.Context, n int) (int, error) {
		if n < 0 {
			panic("negative")
		}
		if n%2 > 0 {
			return 0, errOdd
		}
		return n / 2, nil
	}, opts...)
}

func TestRunFailsATestWhoseHandlersCrashUnexpectedly(t *testing.T) {
	retry := stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Microsecond})
	calls := 0
	once := stage.Func("once", func(_ context.Context, n int) behaviour.Outcome {
		if calls++; calls == 1 {
			panic("once")
		}
		return behaviour.OK(n)
	}, retry, stage.Workers(1, 1))
	for name, row := range map[string]struct {
		s     *stage.Stage[int]
		parts []pipeline.Part
		says  string
	}{
		"a dead letter":               {half().Stage, nil, "crash at attempt 1: negative"},
		"a crash that is tried again": {once, nil, "panic=once"},
		"with a logger of its own":    {half().Stage, []pipeline.Part{pipeline.Logger(slog.New(slog.DiscardHandler))}, "crash at attempt 1: negative"},
		"an expected one":             {half().Stage, []pipeline.Part{stagetest.MayCrash()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{TB: t}
			stagetest.Run(w, append(row.parts, row.s)...)
			_, _ = stage.Call[int](t.Context(), row.s, -1)
			w.end()
			if row.says == "" {
				require.Empty(t, w.said)
				require.Empty(t, w.logged)
				return
			}
			require.Len(t, w.said, 1)
			require.Contains(t, w.said[0], "crashes: ")
			require.Contains(t, w.said[0], row.says)
			require.Contains(t, w.said[0], "stagetest.MayCrash()")
		})
	}
}

func TestATestThatFailsLogsTheLettersAndTheLogOfThePipeline(t *testing.T) {
	w := &witness{TB: t}
	s := half()
	p := stagetest.Run(w, s, stagetest.MayCrash())
	for n := range 200 {
		require.NoError(t, s.Submit(t.Context(), 2*n+1))
	}
	_, err := s.Call(t.Context(), -4)
	require.Error(t, err)
	stagetest.Ended(w, p.Pipeline, "half", stagetest.Ends{OK: 1})
	w.end()
	require.Len(t, w.said, 1)
	log := strings.Join(w.logged, "\n")
	for _, says := range []string{
		"accepted 201 = replied 0 + failed 200 + shed 0 + dead-lettered 1", "failures, 200:", `stage "half", error at try 1 of `,
		"quarantine, 1:", "of -4: ", "the log:", "INFO ", "handler crashed", "drained",
	} {
		require.Contains(t, log, says)
	}
	require.Less(t, strings.Count(log, "odd"), 20, "few of many letters")
}

func TestAPipelineRunsInVirtualTime(t *testing.T) {
	outside := time.Now()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
			time.Sleep(time.Minute)
			return behaviour.OK(n)
		}, stage.Rate(1, time.Hour, 1), stage.Workers(1, 1))
		p := stagetest.Run(t, s)
		for n := range 3 {
			m, err := stage.Call[int](t.Context(), s, n)
			require.NoError(t, err)
			require.Equal(t, n, m)
		}
		require.Equal(t, 2*time.Hour+time.Minute, time.Since(began))
		stagetest.Ended(t, p.Pipeline, "s", stagetest.Ends{OK: 3})
	})
	require.Less(t, time.Since(outside), time.Minute)
}

// What waits for a time waits for as long as it likes: that takes no real time.
func TestWaitsOfHoursInVirtualTimeAreNoHangs(t *testing.T) {
	hour := time.Hour
	if testing.Short() {
		hour /= 6
	}
	echo := func(_ context.Context, n int) (int, error) { return n, nil }
	call := func(f *stage.Flow[int, int]) func(*testing.T) {
		return func(t *testing.T) {
			for n := range 3 {
				_, err := f.Call(t.Context(), n)
				require.NoError(t, err)
			}
		}
	}
	submit := func(f *stage.Flow[int, int]) func(*testing.T) {
		return func(t *testing.T) {
			for n := range 3 {
				require.NoError(t, f.Submit(t.Context(), n))
			}
		}
	}
	type scene struct {
		part pipeline.Part
		do   func(*testing.T)
	}
	for name, build := range map[string]func() scene{
		"a rate": func() scene {
			f := stage.Map("s", echo, stage.Rate(1, hour, 1))
			return scene{f, call(f)}
		},
		"a rate of a key": func() scene {
			f := stage.Map("s", echo, stage.RateBy(func(int) int { return 1 }, 1, hour, 1))
			return scene{f, call(f)}
		},
		"a rate, and the test is over": func() scene {
			f := stage.Map("s", echo, stage.Rate(1, hour, 1))
			return scene{f, submit(f)}
		},
		"a handler that sleeps": func() scene {
			f := stage.Map("s", func(_ context.Context, n int) (int, error) { time.Sleep(hour); return n, nil })
			return scene{f, call(f)}
		},
		"a handler that sleeps, and the test is over": func() scene {
			f := stage.Map("s", func(_ context.Context, n int) (int, error) { time.Sleep(hour); return n, nil })
			return scene{f, submit(f)}
		},
		"a coroutine that sleeps": func() scene {
			s := stage.Coroutine("s", func(c coroutine.Context, n int) behaviour.Outcome {
				if err := coroutine.Sleep(c, hour); err != nil {
					return behaviour.Error(err)
				}
				return behaviour.OK(n)
			})
			return scene{s, func(t *testing.T) {
				_, err := stage.Call[int](t.Context(), s, 1)
				require.NoError(t, err)
			}}
		},
		"a retry": func() scene {
			f := stage.Map("s", func(ctx context.Context, n int) (int, error) {
				if behaviour.Attempt(ctx) < 3 {
					return 0, errors.New("not yet")
				}
				return n, nil
			}, stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: hour, Max: hour}))
			return scene{f, call(f)}
		},
		"a batch that lingers": func() scene {
			f := stage.Map("s", echo, stage.Linger(hour))
			return scene{f, call(f)}
		},
		"a window": func() scene {
			f := led(window.All("s", window.Bounds[int]{Time: hour}))
			return scene{f, func(t *testing.T) {
				got, err := f.Call(t.Context(), 1)
				require.NoError(t, err)
				require.Equal(t, window.Due, got.Why)
			}}
		},
		"a debounce": func() scene {
			f := led(window.Debounce("s", func(int) string { return "all" }, hour, 0))
			return scene{f, call(f)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := build()
				stagetest.Run(t, one.part)
				one.do(t)
			})
		})
	}
}

func TestAHangInVirtualTimeIsReportedAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{TB: t}
		s := stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome { <-ctx.Done(); return behaviour.OK(1) })
		stagetest.Run(w, s, stagetest.Patience(200*time.Millisecond))
		began := time.Now()
		_, _ = stage.Call[int](t.Context(), s, 1) // returns because the pipeline is stopped hard
		require.Greater(t, time.Since(began), time.Minute, "virtual time does not count")
		w.end()
		require.Contains(t, w.said[0], "nothing has happened for ")
	})
}

func TestAPipelineThatDoesNotDrainInVirtualTimeIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{TB: t}
		s := stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome { <-ctx.Done(); return behaviour.OK(1) })
		stagetest.Run(w, s, stagetest.Patience(200*time.Millisecond))
		require.NoError(t, s.Submit(t.Context(), 1))
		w.end() // which drains
		require.Contains(t, strings.Join(w.said, "\n"), "nothing has happened for ")
	})
}

func TestEndedComparesTheAccountsAndShowsTheRow(t *testing.T) {
	s := half()
	p := stagetest.Run(t, s)
	for n := range 10 {
		require.NoError(t, s.Submit(t.Context(), n))
	}
	stagetest.Ended(t, p.Pipeline, "half", stagetest.Ends{OK: 5, Errors: 5})
	for name, row := range map[string]struct {
		stage string
		want  stagetest.Ends
		says  []string
	}{
		"too few":       {"half", stagetest.Ends{OK: 5, Errors: 6}, []string{`stage "half": OK 5, Errors 5; want OK 5, Errors 6`, "accepted 10 (submitted 10, received 0)", "crashes 0"}},
		"too many":      {"half", stagetest.Ends{OK: 4, Errors: 5}, []string{"want OK 4, Errors 5"}},
		"none":          {"half", stagetest.Ends{}, []string{"want none"}},
		"no such stage": {"whole", stagetest.Ends{}, []string{`no stage "whole"`, `["half"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{TB: t}
			stagetest.Ended(w, p.Pipeline, row.stage, row.want)
			require.Len(t, w.said, 1)
			for _, says := range row.says {
				require.Contains(t, w.said[0], says)
			}
		})
	}
}

func TestEndedWaitsForCommandsInFlightButNotForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := stage.Sink("slow", func(context.Context, int) error { time.Sleep(5 * time.Second); return nil })
		p := stagetest.Run(t, slow)
		require.NoError(t, slow.Submit(t.Context(), 1))
		stagetest.Ended(t, p.Pipeline, "slow", stagetest.Ends{OK: 1})

		stuck := stage.Sink("stuck", func(context.Context, int) error { time.Sleep(15 * time.Second); return nil })
		q := stagetest.Run(t, stuck)
		require.NoError(t, stuck.Submit(t.Context(), 1))
		w := &witness{TB: t}
		stagetest.Ended(w, q.Pipeline, "stuck", stagetest.Ends{OK: 1})
		require.Contains(t, w.said[0], "1 in hand")
	})
}

func TestAFilledStageIsFullUntilItIsReleased(t *testing.T) {
	for name, row := range map[string]struct {
		opts []stage.Option
		err  error
	}{
		"it rejects":            {[]stage.Option{stage.Overflow(overflow.Reject)}, stage.ErrFull},
		"it waits":              {nil, context.DeadlineExceeded},
		"it drops the oldest":   {[]stage.Option{stage.Overflow(overflow.DropOldest)}, nil},
		"another discipline":    {[]stage.Option{stage.Overflow(overflow.Reject), stage.Discipline(queue.LIFO{})}, stage.ErrFull},
		"with commands in hand": {[]stage.Option{stage.Overflow(overflow.Reject), stage.Workers(2, 2), stage.Batch(1)}, stage.ErrFull},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var handled []int
			s := stage.Sink("s", func(_ context.Context, n int) error {
				mu.Lock()
				defer mu.Unlock()
				handled = append(handled, n)
				return nil
			}, append(row.opts, stage.Capacity(5))...)
			p := stagetest.Run(t, s)
			require.NoError(t, s.Submit(t.Context(), 1))
			if row.err == nil { // the command must not be dropped
				stagetest.Ended(t, p.Pipeline, "s", stagetest.Ends{OK: 1})
			}
			release := stagetest.Fill(t, p.Pipeline, s.Stage, 99)
			st := p.Snapshot().Stages[0]
			require.Equal(t, 5, st.Queue.Queued)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, s.Submit(ctx, 2), row.err)
			release()
			release()
			_, err := s.Call(t.Context(), 3)
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			require.NotContains(t, handled, 99)
			require.Contains(t, handled, 1)
			require.Contains(t, handled, 3)
		})
	}
}

func TestFillFailsTheTestIfTheStageCannotBeFilled(t *testing.T) {
	s, other := half(), half()
	p := stagetest.Run(t, s, pipeline.MaxInFlight(3))
	w := &witness{TB: t}
	require.Panics(t, func() { stagetest.Fill(w, p.Pipeline, other.Stage, 1) })
	require.Contains(t, w.said[0], "stagetest: Fill: ")
	w.end()
}

func TestAStageThatIsNotReleasedIsWhenTheTestIsOver(t *testing.T) {
	w := &witness{TB: t}
	s := half(stage.Capacity(3))
	p := stagetest.Run(w, s)
	stagetest.Fill(w, p.Pipeline, s.Stage, 2)
	w.end()
	require.Empty(t, w.said)
}

func TestACrowdOfHandlersIsThereAtOnce(t *testing.T) {
	const n = 6
	var inside, most atomic.Int64
	s := stage.Sink("s", func(context.Context, int) error {
		now := inside.Add(1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); {
			m = most.Load()
		}
		time.Sleep(5 * time.Millisecond)
		inside.Add(-1)
		return nil
	}, stage.Workers(n, n), stage.Batch(1), stage.Middleware(stagetest.Crowd(t, n)))
	p := stagetest.Run(t, s)
	_, err := s.SubmitAll(t.Context(), make([]int, 3*n+1)...)
	require.NoError(t, err)
	stagetest.Ended(t, p.Pipeline, "s", stagetest.Ends{OK: 3*n + 1})
	require.EqualValues(t, n, most.Load())
}

func TestACrowdThatNeverMeetsFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{TB: t}
		s := stage.Sink("s", func(context.Context, int) error { return nil }, stage.Workers(2, 2), stage.Batch(1), stage.Middleware(stagetest.Crowd(w, 4)))
		p := stagetest.Run(t, s)
		_, err := s.SubmitAll(t.Context(), make([]int, 8)...)
		require.NoError(t, err)
		stagetest.Ended(t, p.Pipeline, "s", stagetest.Ends{OK: 8})
		w.end()
		require.Equal(t, []string{"stagetest: Crowd(4): at most 2 handlers were there at once; the stage needs stage.Workers(4, 4) and as many commands"}, w.said)
		require.Panics(t, func() { stagetest.Crowd(w, 1) })
	})
}

func TestAPartForRunIsNoneForNew(t *testing.T) {
	s := stage.Sink("s", func(context.Context, int) error { return nil })
	for _, part := range []pipeline.Part{stagetest.MayCrash(), stagetest.Patience(time.Hour)} {
		_, err := pipeline.New("p", part, s)
		require.EqualError(t, err, `pipeline "p": part 1: is a part for stagetest.Run, which New does not take`)
	}
}

func TestFillOfNothingFailsTheTest(t *testing.T) {
	s := half()
	p := stagetest.Run(t, s)
	for says, fill := range map[string]func(tb testing.TB){
		"stagetest: Fill: the stage is nil":    func(tb testing.TB) { stagetest.Fill(tb, p.Pipeline, nil, 1) },
		"stagetest: Fill: the pipeline is nil": func(tb testing.TB) { stagetest.Fill(tb, nil, s.Stage, 1) },
	} {
		w := &witness{TB: t}
		require.Panics(t, func() { fill(w) }) // as the witness does at a Fatal
		require.Equal(t, []string{says}, w.said)
	}
}

// led has the results of a flow answer the callers, by a last stage.
func led[In, Out any](of *stage.Flow[In, Out]) *stage.Flow[In, Out] {
	return stage.Chain(of, stage.Map("end", func(_ context.Context, out Out) (Out, error) { return out, nil }))
}
