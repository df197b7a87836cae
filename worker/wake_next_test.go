package worker_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// goroutine returns a name for the calling goroutine that no other goroutine has.
func goroutine() string {
	buf := make([]byte, 64)
	return string(buf[:runtime.Stack(buf, false)][:len("goroutine 1234567")])
}

// line returns stages in a row, each of which does something and forwards.
func line(do ...func(cmd string)) (first *stage.Stage[string], parts []pipeline.Part) {
	for i, does := range slices.Backward(do) {
		next := first
		first = stage.Func(string(rune('a'+i)), func(_ context.Context, cmd string) behaviour.Outcome {
			does(cmd)
			if next == nil {
				return behaviour.OK(nil)
			}
			return behaviour.Forward(next, cmd)
		}, stage.Workers(1, 1))
		parts = append(parts, first)
	}
	return first, parts
}

func TestALoneCommandPassesIdleStagesOnOneGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var on []string
		note := func(string) { on = append(on, goroutine()) }
		first, parts := line(note, note, note)
		p := run(t, parts...)
		for round := range 3 {
			require.NoError(t, first.Submit(t.Context(), "one"))
			synctest.Wait()
			if round > 0 { // the workers are started lazily, when they are first called
				require.Equal(t, []string{on[0], on[0], on[0]}, on)
			}
			on = nil
		}
		stop(t, p)
	})
}

func TestAStageWorksWhileTheNextOneIsStuckOnTheGoroutineItHadBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var firsts, seconds []string
		stuck := make(chan struct{})
		first, parts := line(
			func(cmd string) { firsts = append(firsts, cmd) },
			func(cmd string) {
				seconds = append(seconds, cmd)
				<-stuck
			})
		p := run(t, parts...)
		for _, cmd := range []string{"one", "two", "three"} {
			require.NoError(t, first.Submit(t.Context(), cmd))
			synctest.Wait()
		}
		require.Equal(t, []string{"one", "two", "three"}, firsts)
		require.Equal(t, []string{"one"}, seconds)
		close(stuck)
		stop(t, p)
		require.Equal(t, firsts, seconds)
	})
}

func TestACrashOnAGoroutineThatWasTakenOverIsCountedAtTheStageThatCrashed(t *testing.T) {
	for name, crash := range map[string]func(){"panic": func() { panic(errBoom) }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				first, parts := line(
					func(string) {},
					func(cmd string) {
						if cmd == "bad" {
							crash()
						}
					},
					func(string) {})
				p := run(t, parts...)
				ends := map[string]string{}
				for _, cmd := range []string{"good", "bad", "good", "bad", "good"} {
					_, err := stage.Call[any](t.Context(), first, cmd)
					if err == nil {
						ends[cmd] += "ok "
						continue
					}
					var crash *stage.CrashError
					require.ErrorAs(t, err, &crash)
					ends[cmd] += crash.Stage + " "
				}
				require.Equal(t, map[string]string{"good": "ok ok ok ", "bad": "b b "}, ends)
				var crashes []uint64
				for _, s := range p.Snapshot().Stages {
					crashes = append(crashes, s.Counts.Crashes)
				}
				require.ElementsMatch(t, []uint64{0, 2, 0}, crashes)
				stop(t, p)
			})
		})
	}
}

// The first worker has more to do, and is stuck with it.
func TestAWorkerThatGoesOnWakesTheWorkerItHasCalled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seconds []string
		stuck := make(chan struct{})
		first, parts := line(
			func(cmd string) {
				if cmd == "two" {
					<-stuck
				}
			},
			func(cmd string) { seconds = append(seconds, cmd) })
		p := run(t, parts...)
		require.NoError(t, p.Pause(first))
		for _, cmd := range []string{"one", "two"} {
			require.NoError(t, first.Submit(t.Context(), cmd))
		}
		require.NoError(t, p.Resume(first))
		synctest.Wait()
		require.Equal(t, []string{"one"}, seconds)
		close(stuck)
		stop(t, p)
	})
}

// The command for the other stage is dropped, and the subscriber that is notified of it blocks.
func TestTheNextStageDoesNotWaitForASubscriberOfDroppedCommands(t *testing.T) {
	bubble(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var handled []string
		b := stage.Func("b", func(_ context.Context, cmd string) behaviour.Outcome {
			handled = append(handled, cmd)
			return behaviour.OK(nil)
		}, stage.Workers(1, 1))
		full := stage.Func("full", func(context.Context, string) behaviour.Outcome {
			<-stuck
			return behaviour.OK(nil)
		}, stage.Workers(1, 1), stage.Capacity(1), stage.Overflow(overflow.DropNewest))
		a := stage.Func("a", func(ctx context.Context, cmd string) behaviour.Outcome {
			if cmd == "both ways" {
				require.NoError(t, behaviour.Emit(ctx, full, cmd))
			}
			return behaviour.Forward(b, cmd)
		}, stage.Workers(1, 1))
		p := run(t, a, b, full, pipeline.DeadLetters(func(stage.DeadLetter) { <-stuck }))
		require.NoError(t, a.Submit(t.Context(), "one way"))
		for range 2 { // one is being handled then, and one is queued
			require.NoError(t, full.Submit(t.Context(), "more"))
			synctest.Wait()
		}
		require.NoError(t, a.Submit(t.Context(), "both ways"))
		synctest.Wait()
		require.Equal(t, []string{"one way", "both ways"}, handled)
		close(stuck)
		stop(t, p)
	})
}

// farewell is a behaviour whose Stop may block.
type farewell struct {
	behaviour.Func[string]
	stop func()
}

func (f farewell) Stop() { f.stop() }

// The worker that forwards renews its instance when it rests.
func TestTheNextStageDoesNotWaitForAnInstanceToBeRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		handled, stopping := 0, 0
		b := stage.Func("b", func(context.Context, string) behaviour.Outcome {
			handled++
			return behaviour.OK(nil)
		}, stage.Workers(1, 1))
		forward := func(context.Context, string) behaviour.Outcome { return behaviour.Forward(b, "") }
		held, stuck := make(chan struct{}), make(chan struct{})
		a := stage.Each("a", func() behaviour.Behaviour[string] {
			return farewell{
				func(ctx context.Context, cmd string) behaviour.Outcome { <-held; return forward(ctx, cmd) },
				func() { stopping++; <-stuck },
			}
		}, stage.Workers(1, 1))
		p := run(t, a, b)
		require.NoError(t, a.Submit(t.Context(), "one"))
		synctest.Wait()
		_, err := a.Upgrade(t.Context(), func() behaviour.Behaviour[string] { return behaviour.Func[string](forward) })
		require.NoError(t, err)
		close(held)
		synctest.Wait()
		require.Equal(t, 1, stopping)
		require.Equal(t, 1, handled)
		close(stuck)
		stop(t, p)
	})
}
