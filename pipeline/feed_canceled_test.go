package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// cancelable is a source of commands that end with contexts.
type cancelable struct {
	until  time.Time // their deadline; zero if they have none
	heard  *hearing
	cancel [3]context.CancelCauseFunc
	ends   [3]context.Context
}

func newCancelable(until time.Time) *cancelable {
	c := &cancelable{until: until, heard: newHearing()}
	for n := range c.ends {
		c.ends[n], c.cancel[n] = context.WithCancelCause(context.Background())
	}
	return c
}

func (c *cancelable) feed() source.Source[int] {
	return source.Ends(func(ctx context.Context, submit func(int, func(error)) error) error {
		for n, end := range c.ends {
			err := feed.Of(ctx).Within(feed.Span{Until: c.until, Ends: end}, func() error { return submit(n, c.heard.of(n)) })
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// error returns the error of a command that has ended, and whether it has.
func (c *cancelable) error(n int) (err error, ended bool) {
	c.heard.mu.Lock()
	defer c.heard.mu.Unlock()
	return c.heard.errs[n], c.heard.times[n] == 1
}

func TestACommandEndsWithTheContextOfItsSourceAndTheHandlerSeesTheCause(t *testing.T) {
	canceled := errors.New("the job is canceled")
	begun := make(chan int, 8)
	causes := make(chan error, 8)
	waits := func(ctx context.Context, n int) error {
		begun <- n
		if n == 2 {
			return nil
		}
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		<-within.Done()
		require.Equal(t, context.Cause(ctx), context.Cause(within))
		causes <- context.Cause(ctx)
		return ctx.Err()
	}
	one := stage.Workers(1, 1)
	for name, parts := range map[string]func(c *cancelable) []pipeline.Part{
		"of a plain handler": func(c *cancelable) []pipeline.Part {
			return []pipeline.Part{pipeline.Feed("jobs", stage.Sink("work", waits, one), c.feed())}
		},
		"of a handler with a time limit": func(c *cancelable) []pipeline.Part {
			return []pipeline.Part{pipeline.Feed("jobs", stage.Sink("work", waits, one, stage.Timeout(time.Hour)), c.feed())}
		},
		"of a handler that is tried again": func(c *cancelable) []pipeline.Part {
			work := stage.Sink("work", waits, one, stage.Retry(stage.RetryPolicy{Attempts: 9, Backoff: time.Hour, Max: time.Hour}))
			return []pipeline.Part{pipeline.Feed("jobs", work, c.feed())}
		},
		"of a handler that suspends": func(c *cancelable) []pipeline.Part {
			work := stage.Coroutine("work", func(co coroutine.Context, n int) behaviour.Outcome {
				begun <- n
				if n == 2 {
					return behaviour.OK(nil)
				}
				err := coroutine.Sleep(co, time.Hour)
				causes <- context.Cause(co)
				return behaviour.Error(err)
			}, stage.Instances(1))
			return []pipeline.Part{pipeline.Feed("jobs", work, c.feed())}
		},
		"of the next stage": func(c *cancelable) []pipeline.Part {
			first := stage.Map("first", func(_ context.Context, n int) (int, error) { return n, nil }, one) // in order
			last := stage.Sink("last", waits, one)
			return []pipeline.Part{first.To(last), last, pipeline.Feed("jobs", first, c.feed())}
		},
	} {
		for what, until := range map[string]time.Time{"without a deadline": {}, "with a deadline": time.Now().Add(time.Hour)} {
			t.Run(name+" "+what, func(t *testing.T) {
				c := newCancelable(until)
				p, err := pipeline.New("jobs", append(parts(c), quiet)...)
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				defer func() { require.NoError(t, p.Stop(context.Background())) }()
				require.Equal(t, 0, <-begun)
				c.cancel[1](canceled) // it waits in the queue
				require.Eventually(t, func() bool { _, ended := c.error(1); return ended }, time.Minute, time.Millisecond)
				c.cancel[0](canceled)
				require.ErrorIs(t, <-causes, canceled)
				require.Equal(t, 2, <-begun, "the command that was canceled while it waited is not begun")
				require.Eventually(t, func() bool { _, ended := c.error(2); return ended }, time.Minute, time.Millisecond)
				for n, want := range []error{context.Canceled, context.Canceled, nil} {
					err, _ := c.error(n)
					require.ErrorIs(t, err, want)
					require.NotErrorIs(t, err, stage.ErrExpired)
				}
				require.True(t, p.Snapshot().Balanced())
			})
		}
	}
}

func TestACommandThatAHandlerSubmitsDoesNotEndWithTheContextOfTheSource(t *testing.T) {
	begun, release, canceled := make(chan context.Context, 3), make(chan struct{}), errors.New("the job is canceled")
	apart := stage.Sink("apart", func(ctx context.Context, _ int) error {
		begun <- ctx
		<-release
		return ctx.Err()
	}, stage.Workers(3, 3))
	work := stage.Sink("work", func(ctx context.Context, n int) error { return apart.Submit(ctx, n) })
	c := newCancelable(time.Time{})
	p, err := pipeline.New("jobs", work, apart, pipeline.Feed("jobs", work, c.feed()), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	all := []context.Context{<-begun, <-begun, <-begun}
	for _, cancel := range c.cancel {
		cancel(canceled)
	}
	for _, ctx := range all {
		require.NoError(t, ctx.Err())
	}
	close(release)
	require.NoError(t, p.Stop(context.Background()))
	require.EqualValues(t, 3, apart.Snapshot().Counts.OK)
}
