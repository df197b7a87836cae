package stagetest_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

// wrapFunc puts an injector before a function.
func wrapFunc(in *stagetest.Injector, f behaviour.Func[int]) behaviour.Func[int] {
	return stagetest.Wrap[int](in, f).HandleCommand
}

func TestCheckReturnsAllInvalidFaults(t *testing.T) {
	err := stagetest.Faults{Panic: -1, Goexit: math.NaN(), Error: 2, Longest: -1}.Check()
	for _, says := range []string{"panic: -1", "goexit: NaN", "error: 2", "longest: -1ns"} {
		require.ErrorContains(t, err, says)
	}
	require.ErrorContains(t, stagetest.Faults{Panic: 0.6, Error: 0.6}.Check(), "add up to 1.2")
	require.NoError(t, stagetest.Faults{}.Check())
	require.NoError(t, stagetest.Faults{Panic: 0.1, Goexit: 0.2, Error: 0.3, Delay: 0.4}.Check())
	_, err = stagetest.NewInjector(1, stagetest.Faults{Hang: 7})
	require.ErrorContains(t, err, "hang: 7")
	w := &witness{TB: t}
	require.Panics(t, func() { stagetest.Inject(w, 1, stagetest.Faults{Hang: 7}) })
	require.Contains(t, w.said[0], "hang: 7")
}

// fates returns the faults of n commands.
func fates(t *testing.T, seed uint64, f stagetest.Faults, n int) (said []string, in *stagetest.Injector) {
	t.Helper()
	in, err := stagetest.NewInjector(seed, f)
	require.NoError(t, err)
	handle := wrapFunc(in, func(context.Context, int) behaviour.Outcome { return behaviour.OK("done") })
	for i := range n {
		said = append(said, fate(handle, i))
	}
	return said, in
}

func fate(handle behaviour.Func[int], cmd int) (said string) {
	defer func() {
		if v := recover(); v != nil {
			said = fmt.Sprint(v)
		}
	}()
	o := handle(context.Background(), cmd)
	return fmt.Sprint(o.Kind(), o.Result(), o.Err())
}

func TestTheSameSeedGivesACommandTheSameFaultInAnyOrder(t *testing.T) {
	f := stagetest.Faults{Panic: 0.2, Error: 0.2, Poison: 0.1, Key: func(cmd any) uint64 { return uint64(cmd.(int)) }}
	first, _ := fates(t, 7, f, 100)
	again, _ := fates(t, 7, f, 100)
	other, _ := fates(t, 8, f, 100)
	require.Equal(t, first, again)
	require.NotEqual(t, first, other)

	in, err := stagetest.NewInjector(7, f)
	require.NoError(t, err)
	handle := wrapFunc(in, func(context.Context, int) behaviour.Outcome { return behaviour.OK("done") })
	for i := 99; i >= 0; i-- {
		require.Equal(t, first[i], fate(handle, i))
	}
}

func TestFaultsHaveTheirProbabilities(t *testing.T) {
	const n = 20_000
	_, in := fates(t, 3, stagetest.Faults{Panic: 0.1, Error: 0.2, Poison: 0.05}, n)
	for f, p := range map[stagetest.Fault]float64{
		stagetest.Panic: 0.95 * 0.1, stagetest.Error: 0.95 * 0.2, stagetest.Poison: 0.05, stagetest.Goexit: 0,
	} {
		require.InDelta(t, p*n, float64(in.Count(f)), 5*math.Sqrt(n*p*(1-p))+0.5, f.String())
	}
	require.Zero(t, in.Count(stagetest.Fault(99)))
	require.Equal(t, "fault(99)", stagetest.Fault(99).String())
}

// all is a behaviour that implements every optional interface.
type all struct{ story *[]string }

func (a all) tell(what string) { *a.story = append(*a.story, what) }

func (a all) Start(context.Context) error                              { a.tell("start"); return nil }
func (a all) Stop()                                                    { a.tell("stop") }
func (a all) Version() string                                          { return "v7" }
func (a all) HandleCommand(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) }
func (a all) HandleBatch(_ context.Context, ns []int) []behaviour.Outcome {
	a.tell(fmt.Sprint(ns))
	out := make([]behaviour.Outcome, len(ns))
	for i, n := range ns {
		out[i] = behaviour.OK(n)
	}
	return out
}

func TestAWrappedBehaviourKeepsItsInterfaces(t *testing.T) {
	var story []string
	in := stagetest.Inject(t, 1, stagetest.Faults{})
	b := stagetest.Wrap[int](in, all{&story})
	require.NoError(t, b.(behaviour.Starter).Start(t.Context()))
	require.Equal(t, "v7", b.(behaviour.Versioned).Version())
	require.Len(t, b.(behaviour.Batcher[int]).HandleBatch(t.Context(), []int{1, 2}), 2)
	b.(behaviour.Stopper).Stop()
	require.Equal(t, []string{"start", "[1 2]", "stop"}, story)

	_, many := stagetest.Wrap[int](in, behaviour.Func[int](nil)).(behaviour.Batcher[int])
	require.False(t, many, "a behaviour without batches does not become a batcher")
	require.Nil(t, stagetest.Wrap[int](in, nil), "the stage reports it")
}

func TestAnErrorInABatchIsRemovedFromIt(t *testing.T) {
	var story []string
	in := stagetest.Inject(t, 5, stagetest.Faults{Error: 0.5, Key: func(cmd any) uint64 { return uint64(cmd.(int)) }})
	b := stagetest.Wrap[int](in, all{&story}).(behaviour.Batcher[int])
	out := b.HandleBatch(t.Context(), []int{0, 1, 2, 3, 4, 5, 6, 7})
	require.Len(t, out, 8)
	var left []int
	for i, o := range out {
		if o.Kind() == behaviour.KindOK {
			require.Equal(t, i, o.Result(), "each has its own answer")
			left = append(left, i)
			continue
		}
		var injected *stagetest.InjectedError
		require.ErrorAs(t, o.Err(), &injected)
		require.Equal(t, stagetest.Error, injected.Fault)
	}
	require.Equal(t, []string{fmt.Sprint(left)}, story)
	require.NotEmpty(t, left)
	require.Less(t, len(left), 8)
}

func TestAHandlerHangsUntilItsContextEndsAndIsStuckUntilItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := stagetest.Inject(t, 1, stagetest.Faults{Hang: 1})
		stuck := stagetest.Inject(t, 1, stagetest.Faults{Stuck: 1})
		ok := func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }
		began := time.Now()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, stage.ErrTimeout)
		defer cancel()
		require.ErrorIs(t, wrapFunc(hang, ok)(ctx, 1).Err(), stage.ErrTimeout)
		require.Equal(t, time.Second, time.Since(began))
		time.AfterFunc(time.Hour, stuck.Release)
		require.ErrorContains(t, wrapFunc(stuck, ok)(ctx, 1).Err(), "injected stuck")
		require.Equal(t, time.Hour+time.Second, time.Since(began))
		stuck.Release()
		require.Equal(t, map[string]uint64{"hang": 1}, hang.Counts())
	})
}

func TestADelayIsNoLongerThanTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := stagetest.Inject(t, 1, stagetest.Faults{Delay: 1, Longest: time.Minute})
		handle := wrapFunc(in, func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
		longest := time.Duration(0)
		for range 100 {
			began := time.Now()
			require.NoError(t, handle(t.Context(), 1).Err())
			longest = max(longest, time.Since(began))
		}
		require.LessOrEqual(t, longest, time.Minute)
		require.Greater(t, longest, 45*time.Second)
	})
}
