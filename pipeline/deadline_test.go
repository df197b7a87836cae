package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// deadlineTest runs a test of a running pipeline in virtual time, with a context whose deadline is a minute from now.
func deadlineTest(t *testing.T, make func() []pipeline.Part, test func(t *testing.T, ctx context.Context, p *pipeline.Pipeline)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, err := pipeline.New("test", append(make(), pipeline.Logger(slog.New(slog.DiscardHandler)))...)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		ctx, cancel := stage.WithDeadline(t.Context(), time.Now().Add(time.Minute))
		defer cancel()
		test(t, ctx, p)
		require.NoError(t, p.Stop(t.Context()))
	})
}

// sleepFor sleeps in virtual time, until all that is due then has been done.
func sleepFor(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestACommandWhoseDeadlineHasPassedIsNotHandled(t *testing.T) {
	for name, submit := range map[string]func(context.Context, *stage.Stage[time.Duration]) error{
		"Submit": func(ctx context.Context, s *stage.Stage[time.Duration]) error { return s.Submit(ctx, 2) },
		"SubmitAll": func(ctx context.Context, s *stage.Stage[time.Duration]) error {
			_, err := s.SubmitAll(ctx, 2)
			return err
		},
		"a derived context": func(ctx context.Context, s *stage.Stage[time.Duration]) error {
			return s.Submit(context.WithValue(ctx, traceKey{}, 1), 2)
		},
		"a later deadline within": func(ctx context.Context, s *stage.Stage[time.Duration]) error {
			ctx, cancel := stage.WithDeadline(ctx, time.Now().Add(time.Hour))
			defer cancel()
			return s.Submit(ctx, 2)
		},
		"its context was cancelled": func(ctx context.Context, s *stage.Stage[time.Duration]) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return s.Submit(ctx, 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var handled []time.Duration
			var sleep *stage.Flow[time.Duration, struct{}]
			deadlineTest(t, func() []pipeline.Part {
				sleep = stage.Sink("sleep", func(_ context.Context, d time.Duration) error {
					handled = append(handled, d)
					time.Sleep(d)
					return nil
				}, stage.Workers(1, 1), stage.Retry(stage.RetryPolicy{Attempts: 3}))
				return []pipeline.Part{sleep}
			}, func(t *testing.T, ctx context.Context, p *pipeline.Pipeline) {
				require.NoError(t, sleep.Submit(ctx, 50*time.Second))
				require.NoError(t, submit(ctx, sleep.Stage))
				sleepFor(55 * time.Second)
				assert.Equal(t, []time.Duration{50 * time.Second, 2}, handled, "in time")
				require.NoError(t, sleep.Submit(ctx, 50*time.Second))
				require.NoError(t, submit(ctx, sleep.Stage))
				require.NoError(t, sleep.Submit(t.Context(), 3)) //nolint:contextcheck // it has no deadline
				sleepFor(time.Hour)
				assert.Equal(t, []time.Duration{50 * time.Second, 2, 50 * time.Second, 3}, handled)
				list := p.DeadLetters().List(letters.Filter{})
				require.Len(t, list, 1)
				assert.Equal(t, reason.Expired, list[0].Reason)
				assert.ErrorIs(t, list[0].Err, stage.ErrExpired)
			})
		})
	}
}

// What comes of a command has its deadline: by forward, by emission, and if a handler submits with its context.
func TestADeadlineTravelsWithWhatComesOfACommand(t *testing.T) {
	var mu sync.Mutex
	var ends []time.Duration
	var first *stage.Flow[int, int]
	deadlineTest(t, func() []pipeline.Part {
		var begin time.Time
		waits := func(name string) *stage.Flow[int, struct{}] {
			return stage.Sink(name, func(ctx context.Context, _ int) error {
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, time.Since(begin))
				return ctx.Err()
			}, stage.Workers(1, 1))
		}
		forwarded, emitted, own, derived := waits("forwarded"), waits("emitted"), waits("own"), waits("derived")
		first = stage.Map("first", func(ctx context.Context, n int) (int, error) {
			begin = time.Now()
			time.Sleep(time.Second)
			assert.NoError(t, own.Submit(ctx, n))
			assert.NoError(t, derived.Submit(context.WithValue(ctx, traceKey{}, 1), n))
			return n, nil
		})
		return []pipeline.Part{first.To(forwarded, emitted), own, derived}
	}, func(t *testing.T, ctx context.Context, p *pipeline.Pipeline) {
		require.NoError(t, first.Submit(ctx, 1))
		sleepFor(time.Hour)
		assert.Equal(t, []time.Duration{time.Minute, time.Minute, time.Minute, time.Minute}, ends)
		assert.Equal(t, 4, p.Failures().Len(), "they were handled, and each says how it ended")
	})
}

func TestADeadlineEndsASuspension(t *testing.T) {
	var took time.Duration
	var sleep *stage.Stage[int]
	deadlineTest(t, func() []pipeline.Part {
		sleep = stage.Coroutine("sleep", func(c coroutine.Context, _ int) behaviour.Outcome {
			begin := time.Now()
			at, ok := c.Deadline()
			assert.True(t, ok && at.Equal(begin.Add(time.Minute)))
			err := coroutine.Sleep(c, time.Hour)
			took = time.Since(begin)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			return behaviour.Error(err)
		})
		return []pipeline.Part{sleep}
	}, func(t *testing.T, ctx context.Context, p *pipeline.Pipeline) {
		require.NoError(t, sleep.Submit(ctx, 1))
		sleepFor(2 * time.Hour)
		assert.Equal(t, time.Minute, took)
		assert.Equal(t, 1, p.Failures().Len())
	})
}

func TestAHandlersContextHasTheDeadlineOfItsCommand(t *testing.T) {
	var check *stage.Flow[int, struct{}]
	deadlineTest(t, func() []pipeline.Part {
		check = stage.Sink("check", func(ctx context.Context, _ int) error {
			begin := time.Now()
			at, ok := ctx.Deadline()
			assert.True(t, ok && at.Equal(begin.Add(time.Minute)))
			assert.NoError(t, ctx.Err())
			inner, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			<-inner.Done()
			assert.Equal(t, time.Minute, time.Since(begin))
			assert.Equal(t, context.DeadlineExceeded, inner.Err())
			assert.Equal(t, context.DeadlineExceeded, context.Cause(inner))
			assert.Equal(t, context.DeadlineExceeded, ctx.Err())
			return nil
		})
		return []pipeline.Part{check}
	}, func(t *testing.T, ctx context.Context, p *pipeline.Pipeline) {
		require.NoError(t, check.Submit(ctx, 1))
		sleepFor(time.Hour)
		assert.EqualValues(t, 1, p.Snapshot().Replied, "a handler that answers all the same has succeeded")
	})
}

func TestACommandThatIsSubmittedAfterItsDeadlineIsRefused(t *testing.T) {
	var check *stage.Flow[int, struct{}]
	deadlineTest(t, func() []pipeline.Part {
		check = stage.Sink("check", func(context.Context, int) error { t.Error("handled"); return nil })
		return []pipeline.Part{check}
	}, func(t *testing.T, ctx context.Context, p *pipeline.Pipeline) {
		sleepFor(time.Minute + 1)
		require.ErrorIs(t, check.Submit(ctx, 1), context.DeadlineExceeded)
		_, err := check.Call(ctx, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, p.Snapshot().Accepted)
	})
}

// A run with a deadline gives it to the commands of all feeds, also of those that hear how each of their commands ends.
func TestTheCommandsOfFeedsHaveTheDeadlineOfTheRun(t *testing.T) {
	sent := []time.Duration{50 * time.Second, 50 * time.Second, 1}
	for name, feed := range map[string]func(ended func(error)) source.Source[time.Duration]{
		"a source that hears nothing": func(func(error)) source.Source[time.Duration] { return source.Slice(sent) },
		"a source that hears the ends": func(ended func(error)) source.Source[time.Duration] {
			return source.Ends(func(_ context.Context, submit func(time.Duration, func(error)) error) error {
				for _, d := range sent {
					if err := submit(d, ended); err != nil {
						return err
					}
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, handled := time.Now(), []time.Duration{} // when each ended
				sleep := stage.Sink("sleep", func(ctx context.Context, d time.Duration) error {
					select {
					case <-time.After(d):
					case <-ctx.Done():
					}
					handled = append(handled, time.Since(begin))
					return ctx.Err()
				}, stage.Workers(1, 1))
				var mu sync.Mutex
				var ends []error
				ended := func(err error) {
					mu.Lock()
					defer mu.Unlock()
					ends = append(ends, err)
				}
				p, err := pipeline.New("test", sleep, pipeline.Feed("feed", sleep, feed(ended)), pipeline.Logger(slog.New(slog.DiscardHandler)))
				require.NoError(t, err)
				ctx, cancel := stage.WithDeadline(t.Context(), time.Now().Add(time.Minute))
				defer cancel()
				_ = p.Run(ctx)
				require.Equal(t, []time.Duration{50 * time.Second, time.Minute}, handled)
				require.EqualValues(t, 1, sleep.Snapshot().Counts.Shed)
				if len(ends) > 0 {
					require.Len(t, ends, 3)
					require.ErrorIs(t, errors.Join(ends...), stage.ErrExpired)
				}
			})
		})
	}
}
