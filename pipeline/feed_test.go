package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/supervisor"
)

// tally counts how often each command was handled.
type tally struct {
	mu sync.Mutex
	of map[int]int
}

func (c *tally) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[int]int{}
	}
	c.of[n]++
}

func (c *tally) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of)
}

// onceEach requires that the commands from 0 to before n were handled once each, and no others.
func (c *tally) onceEach(t *testing.T, n int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.of) != n {
		t.Fatalf("%d commands were handled, not %d", len(c.of), n)
	}
	for i, times := range c.of {
		require.Equal(t, 1, times, "command %d", i)
	}
}

// counts is a stage that counts its commands.
func (c *tally) counts(name string, opts ...stage.Option) *stage.Flow[int, struct{}] {
	return stage.Sink(name, func(_ context.Context, n int) error { c.add(n); return nil }, opts...)
}

// below submits the numbers from the position to before n.
func below(n int) source.Source[int] {
	return func(ctx context.Context, submit func(int) error) error {
		for i := int(source.Position(ctx)); i < n; i++ {
			if err := submit(i); err != nil {
				return err
			}
		}
		return nil
	}
}

// endless submits numbers until its feed ends.
func endless(ctx context.Context, submit func(int) error) error {
	for n := int(source.Position(ctx)); ; n++ {
		if err := submit(n); err != nil {
			return err
		}
	}
}

func newPipeline(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("test", append([]pipeline.Part{quiet, pipeline.System(system())}, parts...)...)
	require.NoError(t, err)
	return p
}

// feedOf returns the state of the pipeline's first feed.
func feedOf(p *pipeline.Pipeline) pipeline.FeedSnapshot { return p.Snapshot().Feeds[0] }

func TestRunEndsWhenAllFeedsAreExhaustedAndAllIsHandled(t *testing.T) {
	const n = 2000
	halves := func(from, to int) source.Source[int] {
		return source.Seq(func(yield func(int) bool) {
			for i := from; i < to; i++ {
				if !yield(i) {
					return
				}
			}
		})
	}
	for name, parts := range map[string]func(first, last *stage.Flow[int, struct{}], mid *stage.Flow[int, int]) []pipeline.Part{
		"one feed": func(_, _ *stage.Flow[int, struct{}], mid *stage.Flow[int, int]) []pipeline.Part {
			return []pipeline.Part{pipeline.Feed("all", mid, below(n))}
		},
		"two feeds of one stage": func(_, _ *stage.Flow[int, struct{}], mid *stage.Flow[int, int]) []pipeline.Part {
			return []pipeline.Part{pipeline.Feed("low", mid, halves(0, n/2)), pipeline.Feed("high", mid, halves(n/2, n))}
		},
		"feeds of two stages": func(_, last *stage.Flow[int, struct{}], mid *stage.Flow[int, int]) []pipeline.Part {
			return []pipeline.Part{pipeline.Feed("low", mid, halves(0, n/2)), pipeline.Feed("high", last, halves(n/2, n))}
		},
		"a feed in a join": func(_, _ *stage.Flow[int, struct{}], mid *stage.Flow[int, int]) []pipeline.Part {
			return []pipeline.Part{pipeline.Subgraph(pipeline.Feed("all", mid, below(n)))}
		},
		"a feed of a group": func(_, last *stage.Flow[int, struct{}], mid *stage.Flow[int, int]) []pipeline.Part {
			return []pipeline.Part{pipeline.Group("g", 1, 2, mid, last, pipeline.Feed("all", mid, below(n)))}
		},
		"a feed and an empty one": func(_, _ *stage.Flow[int, struct{}], mid *stage.Flow[int, int]) []pipeline.Part {
			return []pipeline.Part{pipeline.Feed("none", mid, source.Slice[int](nil)), pipeline.Feed("all", mid, below(n))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got tally
			last := got.counts("last", stage.Capacity(8))
			mid := stage.Map("mid", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Capacity(8))
			p := newPipeline(t, append(parts(nil, last, mid), mid.To(last))...)
			require.NoError(t, p.Run(soon(t)))
			got.onceEach(t, n)
			require.Equal(t, pipeline.Ending{Ended: true, Exhausted: true}, p.Ending())
			require.Equal(t, "exhausted", p.Ending().String())
			atRest(t, p)
			for _, f := range p.Snapshot().Feeds {
				require.Equal(t, "exhausted", f.State, f.Name)
				require.NoError(t, f.Err)
			}
		})
	}
}

func TestAPipelineRunsUntilItsContextEndsIfAFeedNeverEnds(t *testing.T) {
	var got tally
	s := got.counts("s")
	p := newPipeline(t, pipeline.Feed("short", s, source.Slice([]int{-1, -2})), pipeline.Feed("long", s, endless))
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	eventually(t, "a thousand commands", func() bool { return got.len() > 1000 && feedOf(p).State == "exhausted" })
	select {
	case err := <-ran:
		require.Fail(t, "Run has returned", err)
	default:
	}
	cancel()
	require.NoError(t, <-ran)
	feeds := p.Snapshot().Feeds
	require.Equal(t, "exhausted", feeds[0].State)
	require.Equal(t, "stopped", feeds[1].State)
	require.Equal(t, pipeline.Ending{Ended: true}, p.Ending())
	got.mu.Lock()
	defer got.mu.Unlock()
	require.Len(t, got.of, int(feeds[0].Submitted+feeds[1].Submitted), "all that was accepted was handled")
	for n, times := range got.of {
		require.Equal(t, 1, times, n)
	}
}

func TestExhaustedFeedsWaitForWhatWasSubmittedOtherwiseHoweverLongItTakes(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var done atomic.Int32
		s := stage.Sink("s", func(context.Context, int) error { time.Sleep(time.Hour); done.Add(1); return nil }, stage.Workers(1, 1))
		p, err := pipeline.New("slow", quiet, s, pipeline.Feed("one", s, func(ctx context.Context, submit func(int) error) error {
			time.Sleep(time.Minute)
			return submit(1)
		}))
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- p.Run(t.Context()) }()
		<-p.Started()
		require.NoError(t, s.Submit(t.Context(), 2))
		time.Sleep(2 * time.Minute)
		require.ErrorIs(t, s.Submit(t.Context(), 3), stage.ErrDraining)
		require.NoError(t, <-ran)
		require.EqualValues(t, 2, done.Load())
	})
}

func TestAnExhaustedPipelineThatIsReopenedRunsUntilItsContextEnds(t *testing.T) {
	hold := make(chan struct{})
	s := stage.Sink("s", func(context.Context, int) error { <-hold; return nil })
	p := newPipeline(t, pipeline.Feed("one", s, source.Slice([]int{1})))
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	eventually(t, "draining", func() bool { return errors.Is(s.Submit(t.Context(), 2), stage.ErrDraining) })
	require.NoError(t, p.Reopen())
	require.NoError(t, s.Submit(t.Context(), 3))
	close(hold)
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, s.Submit(t.Context(), 4))
	cancel()
	require.NoError(t, <-ran)
	require.Equal(t, "stopped", p.Ending().String())
}

func TestASourceIsHeldBackByAFullStage(t *testing.T) {
	var got tally
	hold := make(chan struct{})
	s := stage.Sink("s", func(_ context.Context, n int) error { <-hold; got.add(n); return nil }, stage.Workers(1, 1), stage.Capacity(3))
	p := newPipeline(t, pipeline.Feed("numbers", s, below(500)))
	ran := make(chan error, 1)
	go func() { ran <- p.Run(soon(t)) }()
	eventually(t, "full", func() bool { return len(p.Snapshot().Feeds) == 1 && feedOf(p).Submitted >= 3 })
	time.Sleep(20 * time.Millisecond)
	require.LessOrEqual(t, feedOf(p).Submitted, uint64(5), "the capacity, and what the worker has taken")
	close(hold)
	require.NoError(t, <-ran)
	got.onceEach(t, 500)
}

// What refuses commands for a while delays a source and loses nothing.
func TestAFeedWaitsWhileItsStageRefusesCommands(t *testing.T) {
	t.Run("a stage that rejects when it is full", func(t *testing.T) {
		var got tally
		s := stage.Sink("s", func(_ context.Context, n int) error { time.Sleep(time.Millisecond); got.add(n); return nil },
			stage.Workers(1, 1), stage.Capacity(2), stage.Overflow(overflow.Reject))
		p := newPipeline(t, pipeline.Feed("numbers", s, below(50)))
		require.NoError(t, p.Run(soon(t)))
		got.onceEach(t, 50)
		require.Zero(t, feedOf(p).Refused)
		require.Zero(t, feedOf(p).Restarts)
	})
	t.Run("a drained pipeline", func(t *testing.T) {
		var got tally
		s := got.counts("s")
		gate := make(chan int)
		p := run(t, pipeline.Feed("numbers", s, source.Chan(gate)))
		gate <- 0
		eventually(t, "accepted", func() bool { return feedOf(p).Submitted == 1 })
		require.NoError(t, p.Drain(soon(t)))
		gate <- 1
		time.Sleep(5 * time.Millisecond)
		require.EqualValues(t, 1, feedOf(p).Submitted)
		require.Equal(t, "running", feedOf(p).State)
		require.NoError(t, p.Reopen())
		gate <- 2
		eventually(t, "three commands", func() bool { return got.len() == 3 })
		got.onceEach(t, 3)
	})
	t.Run("a paused stage", func(t *testing.T) {
		var got tally
		s := got.counts("s", stage.Capacity(4))
		ready := make(chan struct{})
		p := start(t, s, pipeline.Feed("numbers", s, func(ctx context.Context, submit func(int) error) error {
			<-ready
			return below(100)(ctx, submit)
		}))
		require.NoError(t, p.Pause(s))
		close(ready)
		eventually(t, "full", func() bool { return feedOf(p).Submitted == 4 })
		require.Zero(t, got.len())
		require.NoError(t, p.Resume(s))
		eventually(t, "exhausted", func() bool { return feedOf(p).State == "exhausted" })
		require.NoError(t, p.Stop(soon(t)))
		got.onceEach(t, 100)
	})
}

func TestASourceThatFailsContinuesWhereItWas(t *testing.T) {
	for name, fail := range map[string]func() error{
		"an error":               func() error { return errNo },
		"a panic":                func() error { panic("no") },
		"a panic with nil error": func() error { panic(error(nil)) },
		"runtime.Goexit":         func() error { runtime.Goexit(); return nil },
		"an error that would be a shutdown for a supervisor": func() error { return supervisor.ErrShutdown },
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var got tally
				s := got.counts("s", stage.Capacity(5))
				runs := 0
				p, err := pipeline.New("p", quiet, pipeline.Feed("numbers", s, func(ctx context.Context, submit func(int) error) error {
					runs++
					for i := int(source.Position(ctx)); i < 100; i++ {
						if runs <= 8 && i == 10*runs {
							return fail()
						}
						if err := submit(i); err != nil {
							return err
						}
					}
					return nil
				}))
				require.NoError(t, err)
				require.NoError(t, p.Run(t.Context()))
				got.onceEach(t, 100)
				f := feedOf(p)
				require.Error(t, f.Err)
				f.Err = nil
				require.Equal(t, pipeline.FeedSnapshot{
					Name: "numbers", Stage: "s", State: "exhausted", Submitted: 100, Restarts: 8, Position: 100,
				}, f)
			})
		})
	}
}

func TestAFeedThatFailsAgainAndAgainEndsThePipeline(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.Sink("s", func(context.Context, int) error { return nil })
		tries := 0
		p, err := pipeline.New("p", quiet, pipeline.Feed("numbers", s, func(context.Context, func(int) error) error {
			tries++
			return errNo
		}))
		require.NoError(t, err)
		begin := time.Now()
		err = p.Run(t.Context())
		require.ErrorIs(t, err, errNo)
		var gaveUp *supervisor.EscalationError
		require.ErrorAs(t, err, &gaveUp)
		require.ErrorContains(t, err, `feed "numbers": gave up after 10 restarts within 5m0s: `)
		require.Contains(t, gaveUp.Story(), "restarted after")
		require.Equal(t, 11, tries)
		require.Greater(t, time.Since(begin), 20*time.Second, "the pauses grow")
		require.Less(t, time.Since(begin), 45*time.Second)
		require.Equal(t, pipeline.Ending{Ended: true, GaveUp: true}, p.Ending())
		require.Equal(t, "gave up", feedOf(p).State)
		require.ErrorIs(t, feedOf(p).Err, errNo)
	})
}

func TestAFatalErrorOfASourceEndsThePipelineAtOnce(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		for _, fatal := range []func() error{
			func() error { return source.Fatal(errNo) },
			func() error { return fmt.Errorf("wrapped: %w", source.Fatal(errNo)) },
			func() error { panic(source.Fatal(errNo)) },
		} {
			s := stage.Sink("s", func(context.Context, int) error { return nil })
			p, err := pipeline.New("p", quiet, pipeline.Feed("numbers", s, func(context.Context, func(int) error) error { return fatal() }))
			require.NoError(t, err)
			begin := time.Now()
			require.ErrorIs(t, p.Run(t.Context()), errNo)
			require.Less(t, time.Since(begin), 10*time.Millisecond)
			require.Zero(t, feedOf(p).Restarts)
		}
	})
}

func TestStopEndsASourceInEachPhase(t *testing.T) {
	tests := map[string]struct {
		source source.Source[int]
		until  string // the state in which it is stopped
		opts   []stage.Option
		left   []string
	}{
		"while it waits for its context":     {source: func(ctx context.Context, _ func(int) error) error { <-ctx.Done(); return ctx.Err() }, until: "running"},
		"while it submits":                   {source: endless, until: "running"},
		"while it waits for a free slot":     {source: endless, until: "running", opts: []stage.Option{stage.Capacity(1), stage.Workers(1, 1)}},
		"while it is to be restarted":        {source: func(context.Context, func(int) error) error { return errNo }, until: "restarting"},
		"when it is exhausted":               {source: source.Slice([]int{1}), until: "exhausted"},
		"and it panics then":                 {source: func(ctx context.Context, _ func(int) error) error { <-ctx.Done(); panic("no") }, until: "running"},
		"and it returns an error of its own": {source: func(ctx context.Context, _ func(int) error) error { <-ctx.Done(); return errNo }, until: "running"},
	}
	for name, test := range tests {
		for _, hard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hard %v", name, hard), func(t *testing.T) {
				bubbled(t, func(t *testing.T) {
					var got tally
					s := stage.Sink("s", func(_ context.Context, n int) error { time.Sleep(time.Millisecond); got.add(n); return nil }, test.opts...)
					p, err := pipeline.New("p", quiet, pipeline.Feed("numbers", s, test.source))
					require.NoError(t, err)
					require.NoError(t, p.Start(t.Context()))
					for feedOf(p).State != test.until {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(10 * time.Millisecond)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if hard {
						cancel()
					}
					begin := time.Now()
					err = p.Stop(ctx)
					if !hard {
						require.NoError(t, err)
						require.EqualValues(t, feedOf(p).Submitted, got.len(), "all that was accepted is handled")
					}
					require.Less(t, time.Since(begin), 3*time.Second)
					atRest(t, p)
					require.Contains(t, []string{"stopped", "exhausted"}, feedOf(p).State)
				})
			})
		}
	}
}

func TestAPipelineThatNeverStartsRunsNoSource(t *testing.T) {
	s := stage.Sink("s", func(context.Context, int) error { return nil })
	p := newPipeline(t, pipeline.Feed("numbers", s, func(context.Context, func(int) error) error { panic("runs") }))
	require.Equal(t, "waiting", feedOf(p).State)
	require.NoError(t, p.Stop(soon(t)))
	require.ErrorIs(t, p.Run(soon(t)), pipeline.ErrStopped)
	require.Equal(t, "waiting", feedOf(p).State)

	sick := stage.New("sick", &unstartable{})
	p = newPipeline(t, sick, pipeline.Feed("numbers", sick, func(context.Context, func(int) error) error { panic("runs") }))
	require.ErrorIs(t, p.Run(soon(t)), errNo)
}

// unstartable cannot start.
type unstartable struct{}

func (*unstartable) Start(context.Context) error                          { return errNo }
func (*unstartable) Stop() error                                          { return nil }
func (*unstartable) HandleCommand(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }

func TestASourceThatDoesNotReturnIsAbandonedAndRefusedLater(t *testing.T) {
	for _, hard := range []bool{false, true} {
		bubbled(t, func(t *testing.T) {
			var got tally
			s := got.counts("s")
			let, late := make(chan struct{}), make(chan error, 1)
			p, err := pipeline.New("p", quiet, pipeline.Grace(2*time.Second), pipeline.Feed("deaf", s, func(_ context.Context, submit func(int) error) error {
				if err := submit(0); err != nil {
					return err
				}
				<-let
				late <- submit(1)
				return nil
			}))
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if hard {
				cancel()
			}
			begin := time.Now()
			var report *pipeline.StopError
			require.ErrorAs(t, p.Stop(ctx), &report)
			require.Equal(t, []string{"feed deaf"}, report.Left)
			require.ErrorContains(t, report, `"feed deaf" did not stop and was abandoned`)
			require.Equal(t, 2*time.Second, time.Since(begin).Round(100*time.Millisecond))
			close(let)
			err = <-late
			require.ErrorIs(t, err, source.ErrEnded)
			require.ErrorContains(t, err, `feed "deaf"`)
			got.onceEach(t, 1)
			require.EqualValues(t, 1, feedOf(p).Refused)
			atRest(t, p)
		})
	}
}

func TestASubmitAfterTheSourceHasReturnedIsRefused(t *testing.T) {
	var got tally
	s := got.counts("s")
	leaked := make(chan func(int) error, 1)
	p := newPipeline(t, pipeline.Feed("leaky", s, func(_ context.Context, submit func(int) error) error { leaked <- submit; return nil }))
	require.NoError(t, p.Start(t.Context()))
	eventually(t, "exhausted", func() bool { return feedOf(p).State == "exhausted" })
	require.ErrorIs(t, (<-leaked)(7), source.ErrEnded)
	require.NoError(t, p.Stop(soon(t)))
	require.Zero(t, got.len())
}

func TestSeveralGoroutinesOfASourceMaySubmit(t *testing.T) {
	var got tally
	s := got.counts("s", stage.Capacity(4))
	p := newPipeline(t, pipeline.Feed("many", s, func(_ context.Context, submit func(int) error) error {
		var wait sync.WaitGroup
		for g := range 4 {
			wait.Go(func() {
				for i := range 100 {
					assert.NoError(t, submit(100*g+i))
				}
			})
		}
		wait.Wait()
		return nil
	}))
	require.NoError(t, p.Run(soon(t)))
	got.onceEach(t, 400)
	require.EqualValues(t, 400, feedOf(p).Position)
}

func TestHandlersSeeTheValuesOfTheStartThroughAFeed(t *testing.T) {
	type key struct{}
	for _, checkpointed := range []bool{false, true} {
		got := make(chan any, 1)
		s := stage.Sink("s", func(ctx context.Context, _ int) error { got <- ctx.Value(key{}); return ctx.Err() })
		src := source.Slice([]int{1})
		if checkpointed {
			src = source.Checkpoint(src, 0, func(context.Context, int64) error { return nil })
		}
		p := newPipeline(t, pipeline.Feed("one", s, src))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "there"))
		require.NoError(t, p.Run(ctx))
		cancel()
		require.Equal(t, "there", <-got)
		require.Empty(t, p.Failures().List(letters.Filter{}))
	}
}

func TestAFeedIsAddedAndRemovedWithItsStage(t *testing.T) {
	var first, second, third tally
	a, b := first.counts("a"), second.counts("b")
	p := start(t, a, pipeline.Feed("to a", a, endless))
	require.NoError(t, p.Add(t.Context(), pipeline.Feed("to b", b, endless)))
	require.NoError(t, p.Add(t.Context(), pipeline.Feed("also to a", a, source.Slice([]int{-1}))), "of a stage that is there")
	eventually(t, "both", func() bool { return first.len() > 10 && second.len() > 10 })
	require.ErrorContains(t, p.Add(t.Context(), pipeline.Feed("to b", b, endless)), `Feed "to b": there is another feed of that name`)

	require.NoError(t, p.Remove(soon(t), b))
	feeds := p.Snapshot().Feeds
	require.Len(t, feeds, 3)
	require.Equal(t, "stopped", feeds[1].State)
	require.EqualValues(t, feeds[1].Submitted, second.len(), "all that was accepted is handled")

	c := third.counts("c")
	require.NoError(t, p.Add(t.Context(), pipeline.Feed("to b", c, below(100))), "the name is free again")
	eventually(t, "exhausted", func() bool { return p.Snapshot().Feeds[2].State == "exhausted" })
	require.NoError(t, p.Stop(soon(t)))
	third.onceEach(t, 100)
	require.ErrorIs(t, p.Add(t.Context(), pipeline.Feed("late", a, endless)), pipeline.ErrNotRunning)
}

func TestAPipelineEndsWhenTheOnlyFeedThatIsNotExhaustedIsRemoved(t *testing.T) {
	var got tally
	a, b := got.counts("a"), stage.Sink("b", func(context.Context, int) error { return nil })
	p := newPipeline(t, pipeline.Feed("short", a, below(10)), pipeline.Feed("long", b, endless))
	ran := make(chan error, 1)
	go func() { ran <- p.Run(soon(t)) }()
	eventually(t, "short is exhausted", func() bool { return feedOf(p).State == "exhausted" })
	require.NoError(t, p.Remove(soon(t), b))
	require.NoError(t, <-ran)
	require.Equal(t, "exhausted", p.Ending().String())
}

func TestAddRefusesFeedsOfAPipelineThatIsExhausted(t *testing.T) {
	hold := make(chan struct{})
	s := stage.Sink("s", func(context.Context, int) error { <-hold; return nil })
	p := newPipeline(t, pipeline.Feed("one", s, source.Slice([]int{1})))
	ran := make(chan error, 1)
	go func() { ran <- p.Run(soon(t)) }()
	eventually(t, "draining", func() bool { return errors.Is(s.Submit(t.Context(), 2), stage.ErrDraining) })
	require.ErrorIs(t, p.Add(t.Context(), pipeline.Feed("more", s, endless)), pipeline.ErrNotRunning)
	close(hold)
	require.NoError(t, <-ran)
}

func TestAWrongFeedIsNamed(t *testing.T) {
	s := func() *stage.Stage[int] { return stage.New("s", fn(echo[int])) }
	port := behaviour.NewPort[int]("out")
	require.NoError(t, port.Connect(s()))
	var none *stage.Flow[int, int]
	shared := s()
	tests := map[string]struct {
		parts []pipeline.Part
		want  string
	}{
		"no name":              {[]pipeline.Part{pipeline.Feed("", s(), endless)}, "a feed needs a name"},
		"a name that is taken": {[]pipeline.Part{pipeline.Feed("f", shared, endless), pipeline.Feed("f", shared, endless)}, `Feed "f": there is another feed of that name`},
		"no stage":             {[]pipeline.Part{s(), pipeline.Feed[int]("f", nil, endless)}, `Feed "f": the stage is nil`},
		"a nil flow":           {[]pipeline.Part{s(), pipeline.Feed("f", none, endless)}, `Feed "f": the stage is nil`},
		"an empty stage":       {[]pipeline.Part{s(), pipeline.Feed("f", &stage.Stage[int]{}, endless)}, `Feed "f": the stage is nil`},
		"a port":               {[]pipeline.Part{s(), pipeline.Feed("f", port, endless)}, `Feed "f": *behaviour.Port[int] is not a stage`},
		"no source":            {[]pipeline.Part{pipeline.Feed[int]("f", s(), nil)}, `Feed "f": the source is nil`},
		"a source of nothing":  {[]pipeline.Part{pipeline.Feed("f", s(), source.Chan[int](nil))}, `Feed "f": source: Chan: the channel is nil`},
		"an odd name":          {[]pipeline.Part{pipeline.Feed("f\xff", s(), endless)}, "the name is not UTF-8"},
		"only a wrong feed":    {[]pipeline.Part{pipeline.Feed[int]("f", nil, nil)}, `Feed "f": the stage is nil`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New("p", test.parts...)
			require.ErrorContains(t, err, test.want)
			var fault *pipeline.PartError
			require.ErrorAs(t, err, &fault)
		})
	}
}

func TestAFeedMakesItsStageAnEntry(t *testing.T) {
	a, b := stage.New("a", fn(echo[int])), stage.New("b", fn(echo[int]))
	_, err := pipeline.New("p", a, b, pipeline.Entry(a), pipeline.Feed("f", b, endless))
	require.NoError(t, err)
}

func TestADrawingHasTheFeeds(t *testing.T) {
	s := stage.New("s", fn(echo[int]))
	p := newPipeline(t, pipeline.Feed(`"f"`, s, endless))
	require.Contains(t, p.Mermaid(), "    f0([\"#quot;f#quot;\"]) --> s0\n")
	require.Contains(t, p.DOT(), "    f0 [label=\"\\\"f\\\"\", shape=ellipse]\n    f0 -> s0 ")
}

// saves keeps what was saved.
type saves struct {
	mu  sync.Mutex
	all []int64
}

func (s *saves) save(_ context.Context, at int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, at)
	return nil
}

func (s *saves) last() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return 0
	}
	return s.all[len(s.all)-1]
}

func TestACheckpointIsBehindTheFirstCommandThatHasNotEnded(t *testing.T) {
	var kept saves
	hold := map[int]chan struct{}{}
	for i := range 5 {
		hold[i] = make(chan struct{})
	}
	s := stage.Sink("s", func(_ context.Context, n int) error {
		<-hold[n]
		if n == 3 {
			return errNo // ended all the same
		}
		return nil
	}, stage.Workers(5, 5))
	p := newPipeline(t, pipeline.Feed("numbers", s, source.Checkpoint(below(5), 0, kept.save)))
	ran := make(chan error, 1)
	go func() { ran <- p.Run(soon(t)) }()
	for _, step := range []struct {
		ends int
		want int64
	}{{1, 0}, {3, 0}, {0, 2}, {2, 4}} {
		close(hold[step.ends])
		eventually(t, "checkpoint", func() bool { return feedOf(p).Checkpoint == step.want })
		time.Sleep(2 * time.Millisecond)
		eventually(t, "saved", func() bool { return kept.last() == step.want })
	}
	close(hold[4])
	require.NoError(t, <-ran)
	require.EqualValues(t, 5, kept.last(), "the last checkpoint is saved before Run returns")
	require.True(t, slices.IsSorted(kept.all))
	failed := p.Failures().List(letters.Filter{})
	require.Len(t, failed, 1, "the failure of a command that only its checkpoint waits for leaves a letter")
	require.Equal(t, 3, failed[0].Command)
	require.Equal(t, reason.Error, failed[0].Reason)
}

// A checkpoint counts what follows from a command, in other stages too.
func TestACheckpointWaitsForAllThatACommandEmitted(t *testing.T) {
	var kept saves
	hold := make(chan struct{})
	last := stage.Sink("last", func(context.Context, int) error { <-hold; return nil })
	fan := stage.FlatMap("fan", func(_ context.Context, n int, emit func(int) error) error { return errors.Join(emit(n), emit(n)) })
	p := newPipeline(t, fan.To(last), pipeline.Feed("numbers", fan, source.Checkpoint(below(3), 0, kept.save)))
	ran := make(chan error, 1)
	go func() { ran <- p.Run(soon(t)) }()
	eventually(t, "fanned out", func() bool { return fan.Snapshot().Counts.Emitted == 6 })
	require.Zero(t, feedOf(p).Checkpoint)
	close(hold)
	require.NoError(t, <-ran)
	require.EqualValues(t, 3, kept.last())
}

func TestACheckpointNeverPassesACommandThatAHardStopHasEnded(t *testing.T) {
	var kept saves
	s := stage.Sink("s", func(ctx context.Context, n int) error {
		if n == 2 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}, stage.Workers(1, 1))
	p := newPipeline(t, pipeline.Feed("numbers", s, source.Checkpoint(below(100), 0, kept.save)))
	require.NoError(t, p.Start(t.Context()))
	eventually(t, "two", func() bool { return feedOf(p).Checkpoint == 2 && feedOf(p).State == "exhausted" })
	now, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Stop(now))
	require.EqualValues(t, 2, kept.last())
}

func TestAFailedSaveRestartsTheSourceAndIsTriedAgain(t *testing.T) {
	for name, fail := range map[string]func() error{
		"an error": func() error { return errNo },
		"a panic":  func() error { panic(errNo) },
		"Goexit":   func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var got tally
				var kept saves
				s := got.counts("s")
				calls := 0
				p, err := pipeline.New("p", quiet, pipeline.Feed("numbers", s, source.Checkpoint(
					func(ctx context.Context, submit func(int) error) error {
						for i := int(source.Position(ctx)); i < 20; i++ {
							select {
							case <-time.After(time.Second):
							case <-ctx.Done():
								return nil // not the error: the failure counts all the same
							}
							if err := submit(i); err != nil {
								return err
							}
						}
						return nil
					}, 0, func(ctx context.Context, at int64) error {
						if calls++; calls == 3 || calls == 4 {
							return fail()
						}
						return kept.save(ctx, at)
					})))
				require.NoError(t, err)
				require.NoError(t, p.Run(t.Context()))
				got.onceEach(t, 20)
				require.EqualValues(t, 20, kept.last())
				require.EqualValues(t, 2, feedOf(p).Restarts)
				require.ErrorContains(t, feedOf(p).Err, "the checkpoint 3 was not saved")
			})
		})
	}
}

func TestALastCheckpointThatCannotBeSavedIsReported(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		for name, save := range map[string]func(context.Context, int64) error{
			"an error": func(context.Context, int64) error { return errNo },
			"too long": func(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() },
		} {
			s := stage.Sink("s", func(context.Context, int) error { return nil })
			p, err := pipeline.New("p", quiet, pipeline.Feed("numbers", s, source.Checkpoint(below(3), 0, save)))
			require.NoError(t, err)
			var report *pipeline.StopError
			require.ErrorAs(t, p.Run(t.Context()), &report, name)
			require.Equal(t, []string{"checkpoint of feed numbers"}, report.Left)
			require.ErrorContains(t, report, "the last checkpoint of feed numbers was not saved")
			require.NotContains(t, report.Error(), "abandoned")
		}
	})
}

func TestTheWindowOfACheckpointIsBounded(t *testing.T) {
	hold := make(chan struct{})
	s := stage.Sink("s", func(_ context.Context, n int) error {
		if n == 0 {
			<-hold
		}
		return nil
	}, stage.Workers(2, 2))
	var kept saves
	p := newPipeline(t, pipeline.Feed("numbers", s, source.Checkpoint(below(40_000), 0, kept.save)))
	ran := make(chan error, 1)
	go func() { ran <- p.Run(soon(t)) }()
	eventually(t, "the window is full", func() bool { return feedOf(p).Submitted == 16_384 })
	time.Sleep(5 * time.Millisecond)
	require.EqualValues(t, 16_384, feedOf(p).Submitted)
	close(hold)
	require.NoError(t, <-ran)
	require.EqualValues(t, 40_000, kept.last())
}

func TestATickerFeedsAStageInVirtualTime(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		s := stage.Sink("s", func(context.Context, time.Time) error { at = append(at, time.Since(begin)); return nil }, stage.Workers(1, 1))
		p, err := pipeline.New("p", quiet, pipeline.Feed("every hour", s, source.Every(time.Hour)))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Minute)
		defer cancel()
		require.NoError(t, p.Run(ctx))
		require.Equal(t, []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour}, at)
	})
}

func TestLinesAreCountedOnceEachAlthoughTheSourceCrashes(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var text strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&text, "line %d\n", i)
		}
		var mu sync.Mutex
		got := map[string]int{}
		s := stage.Sink("s", func(_ context.Context, line string) error {
			mu.Lock()
			defer mu.Unlock()
			got[line]++
			return nil
		})
		lines := source.Lines(strings.NewReader(text.String()), 0)
		var n atomic.Int32
		p, err := pipeline.New("p", quiet, pipeline.Feed("lines", s, func(ctx context.Context, submit func(string) error) error {
			return lines(ctx, func(line string) error {
				if n.Add(1)%400 == 0 {
					panic(line)
				}
				return submit(line)
			})
		}))
		require.NoError(t, err)
		require.NoError(t, p.Run(t.Context()))
		require.Len(t, got, 3000)
		require.Equal(t, []int{1}, slices.Compact(slices.Sorted(maps.Values(got))))
		require.EqualValues(t, text.Len(), feedOf(p).Position)
		require.EqualValues(t, 7, feedOf(p).Restarts)
	})
}

func TestAPipelineWhoseContextHasEndedHasNotEndedAndMayBeRunAgain(t *testing.T) {
	s := stage.Sink("s", func(context.Context, int) error { return nil })
	p, err := pipeline.New("p", quiet, pipeline.Feed("numbers", s, source.Slice([]int{1, 2})))
	require.NoError(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Run(over), context.Canceled)
	require.Equal(t, pipeline.Ending{}, p.Ending())
	require.NoError(t, p.Run(soon(t)))
	require.Equal(t, pipeline.Ending{Ended: true, Exhausted: true}, p.Ending())
}

func TestRunEndsWhenItsFeedsAreExhaustedAlthoughADrainOfAStageIsEnded(t *testing.T) {
	slow := make(chan struct{})
	save := stage.Sink("save", func(context.Context, int) error { <-slow; return nil }, stage.Workers(1, 1))
	parse := stage.Map("parse", func(_ context.Context, n int) (int, error) { return n, nil })
	p, err := pipeline.New("p", parse.To(save), quiet, pipeline.Feed("numbers", parse, source.Slice([]int{1, 2, 3})))
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- p.Run(soon(t)) }()
	eventually(t, "all are at save", func() bool { return save.Snapshot().Counts.Submitted+save.Snapshot().Counts.Received == 3 })
	drained := make(chan error, 1)
	go func() { drained <- p.Drain(soon(t), save) }()
	eventually(t, "it drains", func() bool { return save.Snapshot().Draining })
	require.NoError(t, p.Reopen(save))
	close(slow)
	<-drained
	select {
	case err := <-ran:
		require.NoError(t, err)
	case <-time.After(enough):
		t.Fatal("Run does not return")
	}
	require.Equal(t, "exhausted", p.Ending().String())
	require.EqualValues(t, 3, save.Snapshot().Counts.OK)
}
