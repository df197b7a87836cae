package stagetest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/stagetest"
)

var errDown = errors.New("the server is down")

// The pauses of the retries take hours of virtual time and no real time.
func TestAPageIsFetchedAgainUntilTheServerIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(3 * time.Hour)
		fetch := stage.Map("fetch", func(_ context.Context, page string) (string, error) {
			if time.Now().Before(up) {
				return "", errDown
			}
			return "<" + page + ">", nil
		}, stage.Retry(stage.RetryPolicy{Attempts: 9, Backoff: time.Hour, Max: time.Hour}))
		p := stagetest.Run(t, fetch)

		text, err := fetch.Call(t.Context(), "index")
		require.NoError(t, err)
		require.Equal(t, "<index>", text)
		stagetest.Ended(t, p.Pipeline, "fetch", stagetest.Ends{OK: 1})
	})
}

// What does the program do when a stage is full?
func TestAnOrderIsRefusedWhileTheShopIsBusy(t *testing.T) {
	save := stage.Sink("save", func(context.Context, int) error { return nil }, stage.Capacity(10), stage.Overflow(overflow.Reject))
	p := stagetest.Run(t, save)

	release := stagetest.Fill(t, p.Pipeline, save.Stage, 0)
	require.ErrorIs(t, save.Submit(t.Context(), 1), stage.ErrFull)
	release()
	_, err := save.Call(t.Context(), 2)
	require.NoError(t, err)
}

// Run with -race, this test would find a plain integer.
func TestTheVisitorsAreCountedByManyHandlersAtOnce(t *testing.T) {
	var visitors atomic.Int64
	count := stage.Sink("count", func(context.Context, string) error {
		visitors.Add(1)
		return nil
	}, stage.Workers(8, 8), stage.Middleware(stagetest.Crowd(t, 8)))
	p := stagetest.Run(t, count)

	_, err := count.SubmitAll(t.Context(), make([]string, 80)...)
	require.NoError(t, err)
	stagetest.Ended(t, p.Pipeline, "count", stagetest.Ends{OK: 80})
	require.EqualValues(t, 80, visitors.Load())
}

// A pipeline with virtual time.
func ExampleRun() {
	_ = func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fetch := stage.Map("fetch", func(context.Context, string) (string, error) {
				return "", errDown
			}, stage.Retry(stage.RetryPolicy{Attempts: 5, Backoff: time.Hour}))
			p := stagetest.Run(t, fetch) // stopped and checked when the test is over
			if _, err := fetch.Call(t.Context(), "index"); !errors.Is(err, errDown) {
				t.Error(err)
			}
			stagetest.Ended(t, p.Pipeline, "fetch", stagetest.Ends{Errors: 1})
		})
	}
	// Output:
}

// A test of a crash says that it expects one.
func ExampleMayCrash() {
	_ = func(t *testing.T) {
		divide := stage.Map("divide", func(_ context.Context, n int) (int, error) { return 100 / n, nil })
		p := stagetest.Run(t, divide, stagetest.MayCrash())
		if err := divide.Submit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		stagetest.Ended(t, p.Pipeline, "divide", stagetest.Ends{DeadLettered: 1})
	}
	// Output:
}

// The accounts of a stage, when its commands have ended.
func ExampleEnded() {
	_ = func(t *testing.T) {
		even := stage.Map("even", func(_ context.Context, n int) (int, error) {
			if n%2 > 0 {
				return 0, errors.New("odd")
			}
			return n, nil
		})
		p := stagetest.Run(t, even)
		if _, err := even.SubmitAll(t.Context(), 1, 2, 3, 4, 5); err != nil {
			t.Fatal(err)
		}
		stagetest.Ended(t, p.Pipeline, "even", stagetest.Ends{OK: 2, Errors: 3})
	}
	// Output:
}

// A stage that is full.
func ExampleFill() {
	_ = func(t *testing.T) {
		save := stage.Sink("save", func(context.Context, int) error { return nil }, stage.Overflow(overflow.Reject))
		p := stagetest.Run(t, save)
		release := stagetest.Fill(t, p.Pipeline, save.Stage, 0)
		if err := save.Submit(t.Context(), 1); !errors.Is(err, stage.ErrFull) {
			t.Error("accepted")
		}
		release()
	}
	// Output:
}

// Eight handlers at once, for the race detector.
func ExampleCrowd() {
	_ = func(t *testing.T) {
		seen := 0
		count := stage.Func("count", func(context.Context, int) behaviour.Outcome {
			seen++ // a data race, which go test -race reports
			return behaviour.OK(nil)
		}, stage.Workers(8, 8), stage.Middleware(stagetest.Crowd(t, 8)))
		stagetest.Run(t, count)
		if _, err := count.SubmitAll(t.Context(), make([]int, 80)...); err != nil {
			t.Fatal(err)
		}
	}
	// Output:
}

// Faults before the handlers of a stage of any kind.
func ExampleInjector_Middleware() {
	_ = func(t *testing.T) {
		faults := stagetest.Inject(t, 42, stagetest.Faults{Panic: 0.02, Error: 0.05})
		parse := stage.Map("parse", func(_ context.Context, line string) (int, error) { return len(line), nil },
			stage.Middleware(faults.Middleware), stage.Retry(stage.RetryPolicy{Attempts: 5}))
		stagetest.Run(t, parse)
		if _, err := parse.SubmitAll(t.Context(), make([]string, 100)...); err != nil {
			t.Fatal(err)
		}
	}
	// Output:
}
