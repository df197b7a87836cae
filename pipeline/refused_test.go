package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// asks is the error of a service that has too much to do.
type asks struct {
	after time.Duration
	tried bool
}

func (asks) Error() string { return "too much to do" }

func (a asks) Overload() (stage.Overload, bool) {
	return stage.Overload{Reason: "service", RetryAfter: a.after, Tried: a.tried}, true
}

// refusedStage returns a stage that is refused with an error for the first n calls, and where the times between its calls are.
func refusedStage(n int, err error, opts ...stage.Option) (s *stage.Flow[int, struct{}], pauses *[]time.Duration, attempts *[]int) {
	pauses, attempts = new([]time.Duration), new([]int)
	var last time.Time
	return stage.Sink("s", func(ctx context.Context, _ int) error {
		if len(*attempts) > 0 {
			*pauses = append(*pauses, time.Since(last))
		}
		last = time.Now()
		*attempts = append(*attempts, behaviour.Attempt(ctx))
		if len(*attempts) <= n {
			return err
		}
		return nil
	}, append(opts, stage.Workers(1, 1))...), pauses, attempts
}

func TestARefusalProlongsThePauseAndUsesUpNoAttempt(t *testing.T) {
	second := stage.RetryPolicy{Attempts: 2, Backoff: time.Second}
	for name, row := range map[string]struct {
		err    error
		policy stage.RetryPolicy
		want   []time.Duration
	}{
		"it asks for more than the backoff":  {asks{after: 7 * time.Second}, second, []time.Duration{7e9, 7e9, 7e9}},
		"it asks for less":                   {asks{after: time.Millisecond}, second, []time.Duration{1e9, 2e9, 4e9}},
		"it does not say for how long":       {asks{}, second, []time.Duration{1e9, 2e9, 4e9}},
		"it asks for longer than a minute":   {asks{after: 68 * 365 * 24 * time.Hour}, second, []time.Duration{60e9, 60e9, 60e9}},
		"the policy bounds the pause":        {asks{after: time.Hour}, stage.RetryPolicy{Attempts: 2, Max: 2 * time.Second}, []time.Duration{2e9, 2e9, 2e9}},
		"the policy allows a longer one":     {asks{after: time.Hour}, stage.RetryPolicy{Attempts: 2, Max: 2 * time.Hour}, []time.Duration{3600e9, 3600e9, 3600e9}},
		"the policy says nothing":            {asks{after: time.Second}, stage.RetryPolicy{Attempts: 2}, []time.Duration{1e9, 1e9, 1e9}},
		"the budget is not for what refuses": {asks{after: time.Second}, stage.RetryPolicy{Attempts: 2, Budget: 0.001}, []time.Duration{1e9, 1e9, 1e9}},
		"another stage is full":              {fmt.Errorf("x: %w", stage.ErrFull), second, []time.Duration{1e9, 2e9, 4e9}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s, pauses, attempts := refusedStage(3, row.err, stage.Retry(row.policy))
				p := bubble(t, s)
				_, err := s.Call(t.Context(), 1)
				require.NoError(t, err)
				require.Equal(t, row.want, *pauses)
				require.Equal(t, []int{1, 1, 1, 1}, *attempts)
				require.NoError(t, p.Stop(t.Context()))
				atRest(t, p)
			})
		})
	}
}

func TestAnOverloadThatWasTriedUsesUpAnAttempt(t *testing.T) {
	for _, e := range []error{
		asks{tried: true}, stage.ErrRetryBudget, stage.ErrMaxInFlight, stage.ErrClosed, stage.ErrExpired, errors.New("no"),
	} {
		t.Run(e.Error(), func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s, _, attempts := refusedStage(9, e, stage.Retry(stage.RetryPolicy{Attempts: 3}))
				p := bubble(t, s)
				_, err := s.Call(t.Context(), 1)
				require.ErrorIs(t, err, e)
				require.Equal(t, []int{1, 2, 3}, *attempts)
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

// The TTL is of the time since the command came, although it was queued for each try.
func TestACommandThatIsRefusedForEverIsEnded(t *testing.T) {
	policy := stage.RetryPolicy{Attempts: 2, Backoff: time.Second}
	ends := map[string]struct {
		opts []stage.Option
		call func(ctx context.Context, s *stage.Flow[int, struct{}], p *pipeline.Pipeline) error
		is   error
	}{
		"by its TTL": {[]stage.Option{stage.TTL(10 * time.Second)}, func(ctx context.Context, s *stage.Flow[int, struct{}], _ *pipeline.Pipeline) error {
			_, err := s.Call(ctx, 1)
			return err
		}, stage.ErrExpired},
		"by its deadline": {nil, func(ctx context.Context, s *stage.Flow[int, struct{}], _ *pipeline.Pipeline) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_, err := s.Call(ctx, 1)
			return err
		}, context.DeadlineExceeded},
		"by a hard stop": {nil, func(ctx context.Context, s *stage.Flow[int, struct{}], p *pipeline.Pipeline) error {
			ticket, err := s.Ask(ctx, 1)
			if err != nil {
				return err
			}
			stop, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_ = p.Stop(stop)
			_, err = ticket.Wait(ctx)
			return err
		}, stage.ErrStopped},
	}
	for name, row := range ends {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s, _, _ := refusedStage(1<<20, asks{after: time.Second}, append(row.opts, stage.Retry(policy))...)
				p := bubble(t, s)
				began := time.Now()
				require.ErrorIs(t, row.call(t.Context(), s, p), row.is)
				require.WithinDuration(t, began.Add(10*time.Second), time.Now(), 500*time.Millisecond)
				_ = p.Stop(t.Context()) // it is stopped already in one row
				atRest(t, p)
			})
		})
	}
}

func TestAPauseThatWasCutIsLoggedOnceInAMinute(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var log bytes.Buffer
		s, _, _ := refusedStage(30, asks{after: time.Hour}, stage.Retry(stage.RetryPolicy{Attempts: 2, Max: 10 * time.Second}))
		p := bubble(t, s, pipeline.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		_, err := s.Call(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, 5, strings.Count(log.String(), "asked=1h0m0s pause=10s"), "%s", &log)
	})
}

// badRefusal is an error whose method panics.
type badRefusal struct{ error }

func (badRefusal) Overload() (stage.Overload, bool) { panic("no") }

func TestAnErrorWhoseMethodOverloadPanicsCountsAsATry(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s, _, attempts := refusedStage(9, badRefusal{errNo}, stage.Retry(stage.RetryPolicy{Attempts: 2}))
		p := bubble(t, s)
		require.NoError(t, s.Submit(t.Context(), 1))
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, []int{1, 2}, *attempts)
	})
}
