package stagetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

var errOrder = errors.New("the commands came out of order")

// planted is a pipeline of three stages with an error: its author thinks that commands
// keep their order, but the stage in the middle has two workers.
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

// through hands six commands to the first stage and checks what came of them.
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
	require.LessOrEqual(t, moved, 3, "and few steps out of line do it")
}

func TestOneWorkerKeepsTheOrderWhateverTheOrderOfSteps(t *testing.T) {
	stagetest.Orders(t, 100, planted(1))
}

// Crashes and restarts, and the retries' pauses, are steps like any other.
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
