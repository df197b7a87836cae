package stagetest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

// A test that runs a hundred orders in which the actors take their turns.
func ExampleOrders() {
	_ = func(t *testing.T) {
		stagetest.Orders(t, 100, func(s *stagetest.Stepper) (err error) {
			sum := 0
			add := stage.Func("add", func(_ context.Context, n int) behaviour.Outcome {
				sum += n
				return behaviour.OK(nil)
			}, stage.Workers(1, 1))
			p, err := pipeline.New("p", add, pipeline.System(s.System()))
			if err != nil {
				return err
			}
			s.Do(func() { err = p.Start(t.Context()) })
			if err != nil {
				return err
			}
			if _, err := add.SubmitAll(t.Context(), 1, 2, 3); err != nil {
				return err
			}
			s.Do(func() { err = p.Stop(t.Context()) })
			if err == nil && sum != 6 {
				err = errors.New("something was not added")
			}
			return err
		})
	}
	// Output:
}
