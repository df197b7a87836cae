package stagetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

var errOrder = errors.New("the commands came out of order")

// planted is a pipeline of three stages with a planted error: it assumes that commands keep their order, but the stage
// in the middle has several workers.
func planted(workers int) func(s *stagetest.Stepper) error {
	return func(s *stagetest.Stepper) error {
		var came []int
		last := stage.Func("last", func(_ context.Context, cmd int) behaviour.Outcome {
			came = append(came, cmd)
			return behaviour.OK(nil)
		}, stage.Workers(1, 1))
		middle := stage.Func("middle", func(_ context.Context, cmd int) behaviour.Outcome {
			return behaviour.Forward(last, cmd)
		}, stage.Workers(workers, workers), stage.Batch(1))
		first := stage.Func("first", func(_ context.Context, cmd int) behaviour.Outcome {
			return behaviour.Forward(middle, cmd)
		}, stage.Workers(1, 1))
		return through(s, func() bool { return slices.IsSorted(came) && len(came) == 6 }, first, middle, last)
	}
}

// through submits six commands to the first stage and checks the results.
func through(s *stagetest.Stepper, good func() bool, first *stage.Stage[int], more ...pipeline.Part) (err error) {
	ctx := context.Background()
	p, err := pipeline.New("p", append(more, first, pipeline.Control(policy.Fixed{}), pipeline.System(s.System()))...)
	if err != nil {
		return err
	}
	if s.Do(func() { err = p.Start(ctx) }); err != nil {
		return err
	}
	for cmd := range 6 {
		if e := first.Submit(ctx, cmd); e != nil {
			return e
		}
	}
	s.Settle()
	if s.Do(func() { err = p.Stop(ctx) }); err != nil {
		return err
	}
	if snap := p.Snapshot(); !snap.Balanced() || snap.InFlight > 0 {
		return fmt.Errorf("accounts: %s", snap.Law())
	}
	if !good() {
		return errOrder
	}
	return nil
}

func TestAPlantedErrorOfOrderIsFoundAndItsSeedFindsItAgain(t *testing.T) {
	found := stagetest.Explore(t, 1000, planted(2))
	require.NotNil(t, found, "within 1000 orders")
	require.ErrorIs(t, found, errOrder)
	t.Log(found)
	for range 10 {
		order, err := stagetest.Replay(t, found.Seed, planted(2))
		require.ErrorIs(t, err, errOrder)
		again, _ := stagetest.Replay(t, found.Seed, planted(2))
		require.Equal(t, order, again, "the same seed is the same order")
	}
	moved := 0
	for _, c := range found.Order {
		if c.Place > 0 {
			moved++
		}
	}
	require.LessOrEqual(t, moved, len(found.Order)/5, "a few steps out of line are enough; which, depends on the seed")
}

func TestOneWorkerKeepsTheOrderInEveryOrderOfSteps(t *testing.T) {
	stagetest.Orders(t, 100, planted(1))
}

// awaiting is a pipeline with a similar error: it assumes that one worker keeps the order, but its handlers wait.
func awaiting(wait func(c coroutine.Context) error) func(s *stagetest.Stepper) error {
	return func(s *stagetest.Stepper) error {
		var came []int
		st := stage.Coroutine("s", func(c coroutine.Context, cmd int) behaviour.Outcome {
			if err := wait(c); err != nil {
				return behaviour.Error(err)
			}
			came = append(came, cmd)
			return behaviour.OK(nil)
		}, stage.Workers(1, 1))
		err := through(s, func() bool { return slices.IsSorted(came) && len(came) == 6 }, st)
		if errors.Is(err, errOrder) {
			return fmt.Errorf("%w: %v", err, came)
		}
		return err
	}
}

func TestHandlersThatWaitGoOnInAnOrderThatTheSeedDetermines(t *testing.T) {
	waits := map[string]func(c coroutine.Context) error{
		"sleeping": func(c coroutine.Context) error { return coroutine.Sleep(c, time.Second) },
		"awaiting an immediate result": func(c coroutine.Context) error {
			_, err := coroutine.Await(c, func(context.Context) (int, error) { return 0, nil })
			return err
		},
		"awaiting a later result": func(c coroutine.Context) error {
			_, err := coroutine.Await(c, func(context.Context) (int, error) { time.Sleep(time.Second); return 0, nil })
			return err
		},
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			found := stagetest.Explore(t, 1000, awaiting(wait))
			require.NotNil(t, found, "within 1000 orders")
			require.ErrorIs(t, found, errOrder)
			require.NotZero(t, found.Seed, "first come, first served is in order")
			order, first := stagetest.Replay(t, found.Seed, awaiting(wait))
			require.ErrorIs(t, first, errOrder)
			for range 10 {
				again, err := stagetest.Replay(t, found.Seed, awaiting(wait))
				require.Equal(t, order, again, "the same seed gives the same order")
				require.EqualError(t, err, first.Error(), "in every command")
			}
		})
	}
}

func TestAHandlerThatYieldsKeepsItsPlaceInEveryOrderOfSteps(t *testing.T) {
	stagetest.Orders(t, 50, awaiting(coroutine.Yield))
}

func TestATestThatFailsNeedNotStopItsPipeline(t *testing.T) {
	failed := errors.New("failed")
	found := stagetest.Explore(t, 3, func(s *stagetest.Stepper) error {
		st := stage.Coroutine("s", func(c coroutine.Context, _ int) behaviour.Outcome {
			return behaviour.Error(coroutine.Sleep(c, time.Hour))
		})
		p, err := pipeline.New("p", st, pipeline.System(s.System()))
		if err != nil {
			return err
		}
		if s.Do(func() { err = p.Start(context.Background()) }); err != nil {
			return err
		}
		if err := st.Submit(context.Background(), 1); err != nil {
			return err
		}
		s.Settle()
		return failed
	})
	require.NotNil(t, found)
	require.Equal(t, failed, found.Err)
}

// Crashes, restarts and the pauses of retries are steps like any other.
func TestAStageThatCrashesIsRestartedStepByStep(t *testing.T) {
	stagetest.Orders(t, 50, func(s *stagetest.Stepper) error {
		crashed, done := 0, 0
		st := stage.Func("s", func(ctx context.Context, cmd int) behaviour.Outcome {
			if cmd%2 == 0 && behaviour.Attempt(ctx) < 3 {
				crashed++
				panic("not yet")
			}
			done++
			return behaviour.OK(nil)
		}, stage.Workers(1, 2), stage.Batch(1), stage.Retry(stage.RetryPolicy{Attempts: 3}))
		return through(s, func() bool { return crashed == 6 && done == 6 }, st)
	})
}

// Suspended commands, and the stages that they wait for, are steps like any other.
func TestHandlersThatSuspendAreSteppedLikeAnyOther(t *testing.T) {
	stagetest.Orders(t, 50, func(s *stagetest.Stepper) error {
		done := 0
		twice := stage.Coroutine("twice", func(c coroutine.Context, cmd int) behaviour.Outcome {
			if err := coroutine.Sleep(c, time.Second); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(2 * cmd)
		}, stage.Workers(1, 1))
		first := stage.Coroutine("first", func(c coroutine.Context, cmd int) behaviour.Outcome {
			got, err := stage.Call[int](c, twice, cmd)
			if err == nil && coroutine.Yield(c) == nil && got == 2*cmd {
				done++
			}
			return behaviour.OK(err)
		}, stage.Workers(1, 1))
		return through(s, func() bool { return done == 6 }, first, twice)
	})
}
