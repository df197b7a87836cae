package main

import (
	"context"
	"errors"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// crash: a handler panics in the middle of a queue. The caller of that command
// gets an error; a fresh worker handles the commands after it.
func crash(ctx context.Context, s *story) error {
	divide := stage.Func("divide", func(_ context.Context, n int) behaviour.Outcome {
		return behaviour.OK(100 / n)
	}, stage.Workers(1, 1))
	p, err := startQuietly(ctx, "crash", divide)
	if err != nil {
		return err
	}

	s.didf("Five numbers are queued for one worker, which divides 100 by each. One of them is 0.")
	numbers := []int{5, 4, 0, 2, 1}
	tickets := make([]*stage.Ticket, len(numbers))
	for i, n := range numbers {
		if tickets[i], err = divide.Ask(ctx, n); err != nil {
			return err
		}
	}
	for i, n := range numbers {
		result, err := tickets[i].Wait(ctx)
		crash, crashed := errors.AsType[*stage.CrashError](err)
		switch {
		case crashed:
			s.sawf("100 / %d crashed: %v (at %s)", n, crash.Value, place(crash.Stack))
		case err != nil:
			return err
		default:
			s.sawf("100 / %d = %v", n, result)
		}
	}
	return s.end(p) //nolint:contextcheck // it stops softly although ctx has ended
}
