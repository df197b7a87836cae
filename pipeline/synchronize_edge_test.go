package pipeline_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

func TestARuleThatPanicsCrashesTheCommandThatItWasCalledFor(t *testing.T) {
	bad := func(r guard.Request, n int) {
		if r.Args.(sheet).n == n {
			panic(fmt.Sprint("bad rule for ", n))
		}
	}
	ok := func(context.Context, sheet) behaviour.Outcome { return behaviour.OK(nil) }
	a, b, c := stage.Func("a", ok), stage.Func("b", ok), stage.Func("c", ok)
	d := stage.Func("d", func(context.Context, any) behaviour.Outcome { return behaviour.OK(nil) })
	running(t, a, b, c, d,
		pipeline.Synchronize("S", func(s *synchronizer.Synchronizer) {
			s.AtMost(1, on(a, "sheet"), on(b, "sheet"))
			s.Constrain(a, "sheet", func(r guard.Request) bool { bad(r, 1); return true })
			s.Trigger(a, "sheet", synchronizer.Accepted, func(r guard.Request) { bad(r, 2) })
			s.Trigger(a, "sheet", synchronizer.Completed, func(r guard.Request) { bad(r, 3) })
		}),
		pipeline.Synchronize("T", func(s *synchronizer.Synchronizer) {
			pattern := synchronizer.Event{Of: c, Method: "sheet", If: func(r guard.Request) bool { bad(r, 1); return r.Args.(sheet).n == 5 }}
			s.Atomic(pattern, on(d, "never"))
		}))
	for n := range 5 {
		_, err := stage.Call[any](t.Context(), a, sheet{n})
		if n == 0 || n == 4 {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, fmt.Sprint("bad rule for ", n))
	}
	_, err := stage.Call[any](t.Context(), b, sheet{})
	require.NoError(t, err, "no slot of AtMost is lost")
	_, err = stage.Call[any](t.Context(), c, sheet{1})
	require.ErrorContains(t, err, "bad rule for 1")
	_, err = stage.Call[any](t.Context(), c, sheet{2})
	require.NoError(t, err)
	m := a.Snapshot().Methods[0]
	require.Equal(t, guard.Counters{Invocations: 5, Accepted: 5, Completed: 5}, m.Counters)
	require.EqualValues(t, 3, a.Snapshot().DeadLetteredBy[reason.Crash])
}

func TestAStageThatIsRemovedHoldsBackNoOthers(t *testing.T) {
	ok := func(context.Context, sheet) behaviour.Outcome { return behaviour.OK(nil) }
	a, c := stage.Func("a", ok), stage.Func("c", ok)
	b := stage.Func("b", func(context.Context, any) behaviour.Outcome { return behaviour.OK(nil) })
	terminated := make(chan string, 4)
	p := running(t, a, b, c,
		pipeline.Synchronize("round", func(s *synchronizer.Synchronizer) {
			s.OncePerRound(on(a, "sheet"), on(b, "sheet"))
			s.OnTerminated(func(of synchronizer.Member) { terminated <- of.Name() })
		}),
		pipeline.Synchronize("both", func(s *synchronizer.Synchronizer) { s.Atomic(on(c, "sheet"), on(b, "other")) }))
	var waits []func() error
	for range 3 {
		for _, s := range []*stage.Stage[sheet]{a, c} {
			f, err := s.Ask(t.Context(), sheet{})
			require.NoError(t, err)
			waits = append(waits, func() error { _, err := f.Wait(t.Context()); return err })
		}
	}
	require.Eventually(t, func() bool { return p.Snapshot().InFlight == 5 }, 10*time.Second, time.Millisecond)
	require.NoError(t, p.Remove(t.Context(), b))
	require.Equal(t, "b", <-terminated)
	for _, wait := range waits {
		require.NoError(t, wait())
	}
	again := stage.Func("b", ok)
	require.NoError(t, p.Add(t.Context(), again))
	_, err := stage.Call[any](t.Context(), again, sheet{})
	require.NoError(t, err)
	require.NoError(t, p.Remove(t.Context(), again))
	require.Empty(t, terminated, "it was no member")
}

// occupied is a stage of one worker for commands of two methods, of which "other" waits until it is let go.
func occupied(name string, ran *atomic.Int32, free <-chan struct{}, opts ...stage.Option) *stage.Stage[any] {
	return stage.Func(name, func(_ context.Context, cmd any) behaviour.Outcome {
		if cmd.(work).method == "other" {
			<-free
		} else {
			ran.Add(1)
		}
		return behaviour.OK(nil)
	}, append([]stage.Option{stage.Workers(1, 1)}, opts...)...)
}

func TestAStageWhoseWorkersAreBusyOrPausedDoesNotKeepItsTurn(t *testing.T) {
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprint("paused ", paused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran [2]atomic.Int32
				free, device := make(chan struct{}), make(chan struct{})
				a := stage.Func("a", func(context.Context, sheet) behaviour.Outcome {
					<-device
					ran[0].Add(1)
					return behaviour.OK(nil)
				})
				b := occupied("b", &ran[1], free)
				p := running(t, a, b, pipeline.Synchronize("device", func(s *synchronizer.Synchronizer) {
					s.AtMost(1, on(a, "sheet"), on(b, "free"))
				}))
				for i := range 3 {
					require.NoError(t, a.Submit(t.Context(), sheet{i}))
				}
				synctest.Wait()
				require.NoError(t, b.Submit(t.Context(), work{method: "free"}))
				synctest.Wait() // it was refused, and is next
				if paused {
					require.NoError(t, p.Pause(b))
				} else {
					require.NoError(t, b.Submit(t.Context(), work{method: "other"}))
				}
				synctest.Wait()
				close(device)
				synctest.Wait()
				require.EqualValues(t, 3, ran[0].Load())
				require.Zero(t, ran[1].Load())
				close(free)
				require.NoError(t, p.Resume(b))
				synctest.Wait()
				require.EqualValues(t, 1, ran[1].Load())
			})
		})
	}
}

func TestWhatAnAtomicRuleHasAllowedIsGivenOutEvenIfTheStageIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran [2]atomic.Int32
		free := make(chan struct{})
		a, b := occupied("a", &ran[0], free), occupied("b", &ran[1], free)
		p := running(t, a, b, pipeline.Synchronize("both", func(s *synchronizer.Synchronizer) { s.Atomic(on(a, "pair"), on(b, "pair")) }))
		require.NoError(t, p.Pause(b))
		require.NoError(t, b.Submit(t.Context(), work{method: "pair"}))
		require.NoError(t, a.Submit(t.Context(), work{method: "pair"}))
		synctest.Wait()
		require.Zero(t, ran[0].Load()+ran[1].Load(), "a stage that is paused offers nothing")
		require.NoError(t, p.Resume(b))
		synctest.Wait()
		require.EqualValues(t, 1, ran[0].Load())
		require.EqualValues(t, 1, ran[1].Load())

		require.NoError(t, b.Submit(t.Context(), work{method: "other"})) // its worker is busy
		synctest.Wait()
		require.NoError(t, b.Submit(t.Context(), work{method: "pair"}))
		require.NoError(t, a.Submit(t.Context(), work{method: "pair"}))
		synctest.Wait()
		require.EqualValues(t, 2, ran[0].Load())
		require.EqualValues(t, 1, ran[1].Load())
		require.NoError(t, p.Pause(b))
		close(free)
		synctest.Wait()
		require.EqualValues(t, 2, ran[1].Load())
		require.NoError(t, p.Resume(b))
	})
}

func TestAnOfferStandsOnlyWhileItsGuardsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran [2]atomic.Int32
		free := make(chan struct{})
		a := occupied("a", &ran[0], free)
		b := occupied("b", &ran[1], free, stage.Workers(2, 2), stage.Guard("pair", func(count func(string) guard.Counters) bool {
			return count("other").Current == 0
		}))
		running(t, a, b, pipeline.Synchronize("both", func(s *synchronizer.Synchronizer) { s.Atomic(on(a, "pair"), on(b, "pair")) }))
		require.NoError(t, b.Submit(t.Context(), work{method: "pair"}))
		require.NoError(t, b.Submit(t.Context(), work{method: "other"}))
		synctest.Wait()
		require.NoError(t, a.Submit(t.Context(), work{method: "pair"}))
		synctest.Wait()
		require.Zero(t, ran[0].Load()+ran[1].Load(), "the guard of b holds back its command")
		close(free)
		synctest.Wait()
		require.EqualValues(t, 1, ran[0].Load())
		require.EqualValues(t, 1, ran[1].Load())
	})
}

func TestCommandsThatARuleHoldsEndWithAHardStop(t *testing.T) {
	var ran [2]atomic.Int32
	a, b := occupied("a", &ran[0], nil), occupied("b", &ran[1], nil)
	p, err := pipeline.New("test", a, b, quiet, pipeline.Synchronize("both", func(s *synchronizer.Synchronizer) {
		s.Atomic(on(a, "pair"), on(b, "pair"))
		s.OncePerRound(on(a, "turn"), on(b, "turn"))
	}))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	for range 10 {
		require.NoError(t, a.Submit(t.Context(), work{method: "pair"}))
		require.NoError(t, a.Submit(t.Context(), work{method: "turn"}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.Error(t, p.Stop(ctx))
	s := p.Snapshot()
	require.True(t, s.Balanced(), s.Law())
	require.Zero(t, s.InFlight)
	require.EqualValues(t, 1, ran[0].Load())
	require.EqualValues(t, 19, s.DeadLettered)
}

func TestARuleMayCountAMethodThatNoRuleNames(t *testing.T) {
	ok := func(context.Context, sheet) behaviour.Outcome { return behaviour.OK(nil) }
	a := stage.Func("a", ok)
	b := stage.Func("b", func(context.Context, any) behaviour.Outcome { return behaviour.OK(nil) })
	p := running(t, a, b,
		pipeline.Synchronize("after", func(s *synchronizer.Synchronizer) {
			s.Constrain(a, "sheet", func(guard.Request) bool { return s.Count(b, "other").Completed > 0 })
		}),
		pipeline.Synchronize("names b", func(s *synchronizer.Synchronizer) { s.AtMost(1, on(b, "free")) }))
	f, err := a.Ask(t.Context(), sheet{})
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Snapshot().InFlight)
	_, err = stage.Call[any](t.Context(), b, any(work{method: "other"}))
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.NoError(t, err)
}

func TestARuleThatEndsItsGoroutineLeavesNoLockTaken(t *testing.T) {
	for _, where := range []string{"constraint", "accepted", "completed", "pattern"} {
		t.Run(where, func(t *testing.T) {
			once := new(atomic.Bool)
			exit := func(at string) {
				if at == where && !once.Swap(true) {
					runtime.Goexit()
				}
			}
			any1 := func(context.Context, any) behaviour.Outcome { return behaviour.OK(nil) }
			a, b := stage.Func("a", any1), stage.Func("b", any1)
			p, err := pipeline.New("test", a, b, quiet, pipeline.Synchronize("S", func(s *synchronizer.Synchronizer) {
				s.AtMost(1, on(a, "free"), on(b, "free"))
				s.Constrain(a, "free", func(guard.Request) bool { exit("constraint"); return true })
				s.Trigger(a, "free", synchronizer.Accepted, func(guard.Request) { exit("accepted") })
				s.Trigger(a, "free", synchronizer.Completed, func(guard.Request) { exit("completed") })
				pattern := func(guard.Request) bool { exit("pattern"); return false }
				s.Atomic(synchronizer.Event{Of: a, Method: "pair", If: pattern}, on(b, "pair"))
			}))
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			go func() { // the goroutine may be that of the caller
				_ = a.Submit(context.Background(), work{method: "free"})
			}()
			go func() { _ = a.Submit(context.Background(), work{method: "pair"}) }()
			require.Eventually(t, once.Load, 10*time.Second, time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err = stage.Call[any](ctx, b, any(work{method: "other"}))
			require.NoError(t, err)
			_, err = stage.Call[any](ctx, a, any(work{method: "other"}))
			require.NoError(t, err)
			p.Snapshot()
			cancel()
			_ = p.Stop(ctx)
		})
	}
}

func TestAnOfferThatLapsesIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran [2]atomic.Int32
		a, b := occupied("a", &ran[0], nil, stage.TTL(time.Second)), occupied("b", &ran[1], nil)
		running(t, a, b, pipeline.Synchronize("both", func(s *synchronizer.Synchronizer) { s.Atomic(on(a, "pair"), on(b, "pair")) }))
		_, err := stage.Call[any](t.Context(), a, any(work{method: "pair"}))
		require.ErrorIs(t, err, stage.ErrExpired)
		require.NoError(t, b.Submit(t.Context(), work{method: "pair"}))
		synctest.Wait()
		require.Zero(t, ran[1].Load())
		require.NoError(t, a.Submit(t.Context(), work{method: "pair"}))
		synctest.Wait()
		require.EqualValues(t, 1, ran[0].Load())
		require.EqualValues(t, 1, ran[1].Load())
	})
}
