package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// This file tests the clocks that no other test covers; docs/testing.md has a table of all clocks.

func TestJitterChangesAPauseByItsShareAtMost(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var at []time.Time
		s := stage.New("s", fn(func(context.Context, int) behaviour.Outcome {
			at = append(at, time.Now())
			return behaviour.Error(errNo)
		}), stage.Workers(1, 1), stage.Retry(stage.RetryPolicy{Attempts: 200, Backoff: time.Second, Max: 4 * time.Second, Jitter: 0.25}))
		p := bubble(t, s)
		_, err := stage.Call[int](t.Context(), s, 1)
		require.ErrorIs(t, err, errNo)
		least, most := time.Hour, time.Duration(0)
		for i := 1; i < len(at); i++ {
			want := min(time.Second<<min(i-1, 10), 4*time.Second)
			pause := at[i].Sub(at[i-1])
			require.InDelta(t, float64(want), float64(pause), 0.25*float64(want)+float64(time.Millisecond), "pause %d", i)
			if i > 3 {
				least, most = min(least, pause), max(most, pause)
			}
		}
		require.Len(t, at, 200)
		require.Less(t, least, 3500*time.Millisecond, "some pauses are shorter")
		require.Greater(t, most, 4500*time.Millisecond, "some pauses are longer")
		require.NoError(t, p.Stop(t.Context()))
	})
}

// As many consecutive crashes as there are workers cause a restart at once. Each further crash causes a pause twice as long as the
// last, up to the longest, minus a fifth at most.
func TestAStageThatOnlyCrashesPausesLongerAndLonger(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		var at []time.Time
		s := stage.New("s", fn(func(context.Context, int) behaviour.Outcome {
			at = append(at, time.Now())
			panic("again")
		}), stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 7, Backoff: time.Second, Max: 8 * time.Second, Within: time.Hour}))
		p := bubble(t, s, way)
		for range 12 {
			require.NoError(t, s.Submit(t.Context(), 1))
		}
		<-p.Done()
		require.ErrorContains(t, p.Err(), "gave up")
		require.Len(t, at, 1+7+1, "one for the worker, the limit, and one too many")
		for i := 1; i < len(at); i++ {
			pause := at[i].Sub(at[i-1])
			if i == 1 {
				require.Less(t, pause, 10*time.Millisecond, "the first crash causes a restart at once")
				continue
			}
			longest := min(time.Second<<(i-2), 8*time.Second)
			require.LessOrEqual(t, pause, longest+10*time.Millisecond, "pause %d", i)
			require.GreaterOrEqual(t, pause, longest*4/5, "pause %d", i)
		}
		require.True(t, p.Snapshot().Balanced())
		time.Sleep(time.Second)
	})
}

func TestTheDefaultGraceOfAStuckHandlerIsItsTimeLimitWithAMinimum(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{
		3 * time.Second: 6 * time.Second, time.Millisecond: 101 * time.Millisecond,
	} {
		bubbled(t, func(t *testing.T) {
			let := make(chan struct{})
			s := stage.Func("s", func(context.Context, int) behaviour.Outcome { <-let; return behaviour.OK(nil) }, stage.Timeout(limit))
			p := bubble(t, s)
			begin := time.Now()
			_, err := stage.Call[any](t.Context(), s, 1)
			require.ErrorIs(t, err, stage.ErrStuck)
			require.Equal(t, want, time.Since(begin).Round(time.Millisecond))
			close(let)
			require.NoError(t, p.Stop(t.Context()))
			time.Sleep(time.Second) // protoactor throttles its log of late messages
		})
	}
}

// held returns a pipeline with a handler that waits for its context, or that hangs.
func held(t *testing.T, listens bool, parts ...pipeline.Part) (p *pipeline.Pipeline, let chan struct{}) {
	t.Helper()
	let = make(chan struct{})
	s := stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome {
		if listens {
			<-ctx.Done()
		} else {
			<-let
		}
		return behaviour.OK(nil)
	})
	p = bubble(t, append(parts, s)...)
	require.NoError(t, s.Submit(t.Context(), 1))
	synctest.Wait()
	return p, let
}

func TestASoftStopIsSoftForAsLongAsItsContext(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		p, _ := held(t, true)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		begin := time.Now()
		var report *pipeline.StopError
		require.ErrorAs(t, p.Stop(ctx), &report)
		require.EqualValues(t, 1, report.Drain.InFlight)
		require.Equal(t, 7*time.Second, time.Since(begin).Round(time.Millisecond))
	})
}

func TestADrainLastsAsLongAsItsContext(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		p, let := held(t, false)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, p.Drain(ctx), context.DeadlineExceeded)
		require.Equal(t, 7*time.Second, time.Since(begin).Round(time.Millisecond))
		close(let)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestRunDrainsForAsLongAsItsTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{5 * time.Second: 5 * time.Second, 0: 0} {
		bubbled(t, func(t *testing.T) {
			s := stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome { <-ctx.Done(); return behaviour.OK(nil) })
			p, err := pipeline.New("run", s, quiet, pipeline.DrainTimeout(timeout))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- p.Run(ctx) }()
			synctest.Wait()
			require.NoError(t, s.Submit(t.Context(), 1))
			synctest.Wait()
			cancel()
			begin := time.Now()
			var report *pipeline.StopError
			require.ErrorAs(t, <-ran, &report)
			require.Equal(t, want, time.Since(begin).Round(time.Millisecond))
		})
	}
}

func TestAHardStopWaitsForItsGraceWithAMinimum(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{4 * time.Second: 4 * time.Second, 0: 100 * time.Millisecond} {
		bubbled(t, func(t *testing.T) {
			p, let := held(t, false, pipeline.Grace(grace))
			now, cancel := context.WithCancel(t.Context())
			cancel()
			begin := time.Now()
			var report *pipeline.StopError
			require.ErrorAs(t, p.Stop(now), &report)
			require.Equal(t, []string{"s"}, report.Left)
			require.Equal(t, want, time.Since(begin).Round(time.Millisecond))
			close(let)
		})
	}
}

func TestASubscriberHasTheGraceOfAHardStop(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		letters := make(chan stage.DeadLetter)
		s := stage.New("s", fn(echo[int]))
		p := bubble(t, s, pipeline.Grace(3*time.Second), pipeline.DeadLetters(func(l stage.DeadLetter) { letters <- l }))
		require.NoError(t, p.Pause(s))
		require.NoError(t, s.Submit(t.Context(), 1))
		now, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		var report *pipeline.StopError
		require.ErrorAs(t, p.Stop(now), &report)
		require.Equal(t, 1, report.Unheard)
		require.Equal(t, 3*time.Second, time.Since(begin).Round(time.Millisecond))
		<-letters // end its goroutine
	})
}

// An actor has no context, so a full stage blocks it for five seconds.
func TestAFullStageBlocksAnActorThatSendsForFiveSeconds(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		let := make(chan struct{})
		s := stage.Func("s", func(context.Context, int) behaviour.Outcome { <-let; return behaviour.OK(nil) },
			stage.Workers(1, 1), stage.Capacity(1), stage.Batch(1))
		sys := actor.NewSystem(slog.New(slog.DiscardHandler))
		p := bubble(t, s, pipeline.System(sys))
		require.NoError(t, s.Submit(t.Context(), 1))
		synctest.Wait()
		require.NoError(t, s.Submit(t.Context(), 2))
		replies := make(chan *stage.Reply, 1)
		door, ok := actor.OpenEndpoint(sys, "asker", func(m any, _ *actor.PID) { replies <- m.(*stage.Reply) })
		require.True(t, ok)
		begin := time.Now()
		sys.Root.RequestWithCustomSender(s.PID(), 3, door.PID())
		require.ErrorIs(t, (<-replies).Err, stage.ErrFull)
		require.Equal(t, 5*time.Second, time.Since(begin).Round(time.Millisecond))
		door.Close()
		close(let)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestIntensityForgetsRestartsOlderThanItsPeriod(t *testing.T) {
	for pause, survives := range map[time.Duration]bool{time.Hour + time.Minute: true, 20 * time.Minute: false} {
		bubbled(t, func(t *testing.T) {
			s := stage.New("s", fn(poison), stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: -1}))
			p := bubble(t, s, pipeline.Intensity(1, time.Hour))
			for range 3 {
				for range 2 { // one that the worker endures, and one more
					_, _ = stage.Call[int](t.Context(), s, -1)
				}
				time.Sleep(pause)
			}
			if survives {
				require.NoError(t, p.Err())
				_, err := stage.Call[int](t.Context(), s, 1)
				require.NoError(t, err)
			} else {
				_, ok := errors.AsType[*supervisor.EscalationError](p.Err())
				require.True(t, ok, p.Err())
			}
			_ = p.Stop(t.Context())
		})
	}
}

func TestThePausesBeforeRestartsOfAStageGrow(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", fn(poison), stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: -1}))
		p := bubble(t, s, pipeline.Intensity(4, time.Hour), pipeline.Backoff(supervisor.Backoff{
			First: time.Second, Max: 3 * time.Second, Jitter: -1, Calm: time.Minute,
		}))
		for _, pause := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, time.Second} {
			for range 2 { // one that the worker endures, and one more
				_, _ = stage.Call[int](t.Context(), s, -1)
			}
			begin := time.Now()
			_, err := stage.Call[int](t.Context(), s, 1)
			require.NoError(t, err, "queued commands wait")
			require.Equal(t, pause, time.Since(begin).Round(100*time.Millisecond))
			if pause == 3*time.Second {
				time.Sleep(time.Minute) // calm
			}
		}
		require.NoError(t, p.Stop(t.Context()))
	})
}

// scribe counts the lines of a log by message, and those that were left out.
type scribe struct {
	slog.Handler
	mu    sync.Mutex
	lines map[string]int
	left  int64
}

func (s *scribe) Enabled(context.Context, slog.Level) bool { return true }
func (s *scribe) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *scribe) Handle(_ context.Context, r slog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines[r.Message]++
	r.Attrs(func(a slog.Attr) bool {
		if strings.HasPrefix(a.Key, "left_out") {
			s.left += a.Value.Int64()
		}
		return true
	})
	return nil
}

func (s *scribe) told(what string) (lines int, left int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines[what], s.left
}

func TestAFloodIsLoggedWithTenLinesASecondAndACountOfTheRest(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		log := &scribe{lines: map[string]int{}}
		s := stage.Func("s", func(context.Context, int) behaviour.Outcome { return behaviour.Error(errNo) })
		p := bubble(t, s, pipeline.Logger(slog.New(log)))
		fail := func(n int) {
			for range n {
				require.NoError(t, s.Submit(t.Context(), 1))
			}
			synctest.Wait()
		}
		fail(100)
		lines, left := log.told("command failed")
		require.Equal(t, 10, lines)
		require.Zero(t, left)
		time.Sleep(999 * time.Millisecond)
		fail(1)
		lines, _ = log.told("command failed")
		require.Equal(t, 10, lines)
		time.Sleep(time.Millisecond)
		fail(15)
		lines, left = log.told("command failed")
		require.Equal(t, 20, lines)
		require.EqualValues(t, 91, left)
		require.NoError(t, p.Stop(t.Context()))
		_, left = log.told("command failed")
		require.EqualValues(t, 91+5, left, "the rest is logged at the end")
	})
}
