package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// bunches are ways to run stages: each with its own workers, or all with shared ones.
var bunches = map[string]func(parts ...pipeline.Part) pipeline.Part{
	"own workers": pipeline.Subgraph,
	"a group":     func(parts ...pipeline.Part) pipeline.Part { return pipeline.Group("g", 2, 2, parts...) },
	"polled": func(parts ...pipeline.Part) pipeline.Part {
		return pipeline.Subgraph(append(parts, pipeline.Control(policy.Cohort{}))...)
	},
}

func eachBunch(t *testing.T, check func(t *testing.T, bunch func(parts ...pipeline.Part) pipeline.Part)) {
	t.Helper()
	for name, bunch := range bunches {
		t.Run(name, func(t *testing.T) { check(t, bunch) })
	}
}

func at(p *pipeline.Pipeline, name string) stage.Snapshot {
	for _, s := range p.Snapshot().Stages {
		if s.Name == name {
			return s
		}
	}
	panic("no stage " + name)
}

func TestADrainedStageIsEmptyAndHoldsBackTheStagesBeforeIt(t *testing.T) {
	eachBunch(t, func(t *testing.T, bunch func(...pipeline.Part) pipeline.Part) {
		last := stage.Func("last", echo[int])
		mid := stage.Func("mid", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(last, n) })
		out := behaviour.NewPort[int]("out")
		first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(out, n) },
			stage.Out(out), stage.Capacity(8))
		p := run(t, bunch(first, mid, last), pipeline.Wire(out, mid))
		for i := range 100 {
			require.NoError(t, first.Submit(t.Context(), i))
		}
		require.NoError(t, p.Drain(soon(t), mid))
		st := at(p, "mid")
		require.True(t, st.Draining && st.Drained && !st.Paused)
		require.Zero(t, st.Queue.Load())
		require.False(t, at(p, "first").Draining)
		err := mid.Submit(t.Context(), 1)
		require.ErrorIs(t, err, stage.ErrDraining)
		require.ErrorIs(t, err, stage.ErrClosed)
		require.ErrorContains(t, err, `stage "mid": closed: draining`)
		// The stages before it fill up and refuse no command; those after it go on.
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		n := 0
		for first.Submit(ctx, n) == nil {
			n++
		}
		require.Less(t, n, 50, "it fills up")
		require.NoError(t, last.Submit(t.Context(), 1))
		require.True(t, p.Snapshot().Balanced())
		require.Zero(t, p.Snapshot().Shed)
		require.True(t, at(p, "mid").Drained)
		require.NoError(t, p.Reopen(mid))
		require.False(t, at(p, "mid").Draining)
		require.NoError(t, mid.Submit(t.Context(), 1))
		eventually(t, "all has gone through", func() bool { return p.Snapshot().InFlight == 0 })
		require.EqualValues(t, 100+n+2, p.Snapshot().Replied)
	})
}

func TestAStageThatShedsHoldsBackInsteadWhileItIsDrained(t *testing.T) {
	for name, rule := range map[string]overflow.Rule{"reject": overflow.Reject, "drop newest": overflow.DropNewest, "drop oldest": overflow.DropOldest} {
		t.Run(name, func(t *testing.T) {
			last := stage.Func("last", echo[int], stage.Overflow(rule), stage.Capacity(100))
			first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(last, n) })
			p := run(t, first, last)
			require.NoError(t, first.Submit(t.Context(), 0)) // so that the edge is known
			require.NoError(t, p.Drain(soon(t), last))
			for i := range 50 {
				require.NoError(t, first.Submit(t.Context(), i))
			}
			eventually(t, "it is held back", func() bool { return at(p, "first").Queue.InHand > 0 })
			require.Zero(t, at(p, "last").Queue.Queued)
			require.NoError(t, p.Reopen())
			eventually(t, "all has gone through", func() bool { return p.Snapshot().Replied == 51 })
		})
	}
}

func TestEmittedCommandsAreHeldBackToo(t *testing.T) {
	last := stage.Func("last", echo[int])
	first := stage.Func("first", func(ctx context.Context, n int) behaviour.Outcome {
		for i := range n { // Emit blocks beyond a number of commands
			if err := behaviour.Emit(ctx, last, i); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(nil)
	}, stage.Workers(2, 2))
	p := run(t, first, last)
	require.NoError(t, p.Drain(soon(t), last))
	require.NoError(t, first.Submit(t.Context(), 10))
	require.NoError(t, first.Submit(t.Context(), 1000))
	time.Sleep(10 * time.Millisecond)
	require.True(t, at(p, "last").Drained)
	require.NoError(t, p.Reopen(last))
	eventually(t, "all has gone through", func() bool { return p.Snapshot().Replied == 1012 })
}

// chronicle records which stages the log says were drained, in order, and takes a snapshot each time.
type chronicle struct {
	slog.Handler
	mu   sync.Mutex
	list []string
	look func(stages string)
}

func (s *chronicle) Enabled(context.Context, slog.Level) bool { return true }
func (s *chronicle) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *chronicle) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "stages" || a.Key == "stage" && r.Level == slog.LevelWarn {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.list = append(s.list, r.Message+": "+a.Value.String())
			if s.look != nil && a.Key == "stages" {
				s.look(a.Value.String())
			}
		}
		return true
	})
	return nil
}

func (s *chronicle) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// The stages are given in the wrong order on purpose, and each command takes some time.
func TestStagesAreDrainedInTheOrderOfTheGraph(t *testing.T) {
	eachBunch(t, func(t *testing.T, bunch func(...pipeline.Part) pipeline.Part) {
		slow := func() { time.Sleep(100 * time.Microsecond) }
		toB, toC, toD, toE, again := behaviour.NewPort[int]("b"), behaviour.NewPort[int]("c"), behaviour.NewPort[int]("d"), behaviour.NewPort[int]("e"), behaviour.NewPort[int]("again")
		e := stage.Func("e", func(_ context.Context, n int) behaviour.Outcome { slow(); return behaviour.OK(n) })
		d := stage.Func("d", func(_ context.Context, n int) behaviour.Outcome {
			slow()
			if n > 0 {
				return behaviour.Forward(again, n-1)
			}
			return behaviour.Forward(toE, n)
		}, stage.Out(again), stage.Out(toE))
		b := stage.Func("b", func(_ context.Context, n int) behaviour.Outcome { slow(); return behaviour.Forward(toD, n) }, stage.Out(toD))
		c := stage.Func("c", func(_ context.Context, n int) behaviour.Outcome { slow(); return behaviour.Forward(toE, n) }, stage.Out(toE))
		a := stage.Func("a", func(_ context.Context, n int) behaviour.Outcome {
			slow()
			if n%2 == 0 {
				return behaviour.Forward(toB, n)
			}
			return behaviour.Forward(toC, n)
		}, stage.Out(toB), stage.Out(toC))
		log := &chronicle{}
		p := run(t, bunch(e, d, c, b, a), pipeline.Logger(slog.New(log)), pipeline.Wire(toB, b), pipeline.Wire(toC, c), pipeline.Wire(toD, d),
			pipeline.Wire(toE, e), pipeline.Wire(again, b))
		empty := map[string]bool{}
		log.look = func(stages string) {
			for name := range strings.SplitSeq(stages, ", ") {
				empty[name] = true
			}
			s := p.Snapshot()
			assert.True(t, s.Balanced(), s.Law())
			for _, st := range s.Stages {
				assert.False(t, empty[st.Name] && st.Queue.Load() > 0, "%s after %v", st.Name, empty)
			}
		}
		for i := range 200 {
			require.NoError(t, a.Submit(t.Context(), i%8))
		}
		require.NoError(t, p.Drain(soon(t)))
		told := log.told()
		require.Len(t, told, 4, told)
		order := map[string]int{}
		for i, line := range told {
			order[strings.TrimPrefix(line, "drained: ")] = i
		}
		require.Equal(t, 0, order["a"])
		require.Contains(t, order, "b, d", "a loop is drained as one")
		require.Contains(t, order, "c")
		require.Equal(t, 3, order["e"])
		require.EqualValues(t, 200, p.Snapshot().Replied)
		for _, st := range p.Snapshot().Stages {
			require.True(t, st.Drained, st.Name)
		}
	})
}

func TestAHandlerMaySubmitToALaterStageUntilAllStagesAreDrained(t *testing.T) {
	for _, whole := range []bool{true, false} {
		t.Run(fmt.Sprint("whole ", whole), func(t *testing.T) {
			release := make(chan struct{})
			at := make(chan struct{})
			later := stage.Func("later", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(2 * n) })
			var kept context.Context
			asks := stage.Func("asks", func(ctx context.Context, n int) behaviour.Outcome {
				kept = ctx //nolint:fatcontext // what no handler should do
				close(at)
				<-release
				twice, err := stage.Call[int](ctx, later, n) // an edge that is not declared
				if err != nil {
					return behaviour.Error(err)
				}
				return behaviour.OK(twice)
			})
			p := run(t, later, asks)
			ticket, err := asks.Ask(t.Context(), 21)
			require.NoError(t, err)
			<-at
			drained := make(chan error, 1)
			parts := []pipeline.Part{asks, later}
			if whole {
				parts = nil
			}
			go func() { drained <- p.Drain(soon(t), parts...) }()
			eventually(t, "it drains", func() bool { return p.Snapshot().Stages[0].Draining })
			require.ErrorIs(t, later.Submit(t.Context(), 1), stage.ErrDraining, "from outside")
			close(release)
			got, err := ticket.Wait(soon(t))
			require.NoError(t, err)
			require.Equal(t, 42, got)
			require.NoError(t, <-drained)
			require.ErrorIs(t, later.Submit(kept, 1), stage.ErrDraining, "its time limit has passed")
		})
	}
}

func TestAHandlerOfAStageThatIsNotDrainedCountsAsOutside(t *testing.T) {
	later := stage.Func("later", echo[int])
	asks := stage.Func("asks", func(ctx context.Context, n int) behaviour.Outcome { return behaviour.Error(later.Submit(ctx, n)) })
	p := run(t, asks, later)
	require.NoError(t, p.Drain(soon(t), later))
	_, err := stage.Call[int](soon(t), asks, 1)
	require.ErrorIs(t, err, stage.ErrDraining)
}

// loop returns a loop of stages; each command passes it as often as the command says.
func loop(length int) (entry *stage.Stage[int], parts []pipeline.Part) {
	ports := make([]*behaviour.Port[int], length)
	for i := range ports {
		ports[i] = behaviour.NewPort[int]("next")
	}
	stages := make([]*stage.Stage[int], length)
	for i := range stages {
		stages[i] = stage.Func(string(rune('a'+i)), func(_ context.Context, n int) behaviour.Outcome {
			if n == 0 {
				return behaviour.OK(nil)
			}
			return behaviour.Forward(ports[i], n-1)
		}, stage.Out(ports[i]), stage.Capacity(4))
		parts = append(parts, stages[i])
	}
	for i, port := range ports {
		parts = append(parts, pipeline.Wire(port, stages[(i+1)%length]))
	}
	return stages[0], parts
}

func TestLoopsMayBeDrainedAsAWholeOrInPart(t *testing.T) {
	for _, length := range []int{1, 2, 3} {
		eachBunch(t, func(t *testing.T, bunch func(...pipeline.Part) pipeline.Part) {
			for drained := range length + 1 { // all, or one of them
				t.Run(fmt.Sprint(length, " stages, drained ", drained), func(t *testing.T) {
					entry, parts := loop(length)
					p := run(t, bunch(parts...))
					for range 50 {
						require.NoError(t, entry.Submit(t.Context(), 100))
					}
					if drained == length {
						require.NoError(t, p.Drain(soon(t), parts[:length]...))
						require.Zero(t, p.Snapshot().InFlight)
					} else {
						require.NoError(t, p.Drain(soon(t), parts[drained]))
						require.True(t, p.Snapshot().Balanced())
					}
					require.NoError(t, p.Reopen())
					require.NoError(t, entry.Submit(t.Context(), 100))
					eventually(t, "all has ended", func() bool { return p.Snapshot().Replied == 51 })
				})
			}
		})
	}
}

func TestADrainWaitsForRetriesAndForAPauseToEnd(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome {
			if behaviour.Attempt(ctx) == 1 {
				return behaviour.Error(errNo)
			}
			return behaviour.OK(nil)
		}, stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Hour, Max: time.Hour}))
		other := stage.Func("other", echo[int])
		log := &chronicle{}
		p := bubble(t, s, other, pipeline.Logger(slog.New(log)))
		require.NoError(t, s.Submit(t.Context(), 1))
		begin := time.Now()
		require.NoError(t, p.Drain(t.Context(), s))
		require.Greater(t, time.Since(begin), 40*time.Minute, "it has waited for its retry")
		require.EqualValues(t, 1, p.Snapshot().Replied)

		require.NoError(t, p.Reopen(s))
		require.NoError(t, p.Pause(s))
		require.NoError(t, s.Submit(t.Context(), 1))
		drained := make(chan error, 1)
		go func() { drained <- p.Drain(t.Context(), s) }()
		synctest.Wait()
		st := p.Snapshot().Stages[0]
		require.True(t, st.Paused && st.Draining && !st.Drained)
		require.Contains(t, log.told(), "a drain waits for a stage that is paused: s")
		require.NoError(t, p.Resume(s))
		require.NoError(t, <-drained)
		require.NoError(t, p.Pause(s))
		st = p.Snapshot().Stages[0]
		require.True(t, st.Paused && st.Drained, "pause and drain are independent")
		require.NoError(t, p.Reopen(s))
		st = p.Snapshot().Stages[0]
		require.True(t, st.Paused && !st.Drained && !st.Draining)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestADrainReportsAHandlerThatHangsAndMayBeRepeated(t *testing.T) {
	eachBunch(t, func(t *testing.T, bunch func(...pipeline.Part) pipeline.Part) {
		c := &clog{}
		c.mu.Lock()
		hangs := stage.New("hangs", c, stage.Workers(1, 1))
		fine := stage.Func("fine", echo[int])
		p := run(t, bunch(hangs, fine))
		require.NoError(t, hangs.Submit(t.Context(), 0))
		isStuck(t)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		err := p.Drain(ctx, hangs)
		var report *pipeline.DrainError
		require.ErrorAs(t, err, &report)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 1, report.InFlight)
		require.Len(t, report.Where, 1)
		require.Contains(t, report.Where[0].Handlers[0].At, "lockForever")
		st := at(p, "hangs")
		require.True(t, st.Draining && !st.Drained)
		require.ErrorIs(t, hangs.Submit(t.Context(), 1), stage.ErrDraining, "it stays closed")
		require.NoError(t, fine.Submit(t.Context(), 1))
		c.mu.Unlock()
		require.NoError(t, p.Drain(soon(t), hangs))
		require.True(t, at(p, "hangs").Drained)
	})
}

func TestCrashesDuringADrainCostOnlyTheirCommands(t *testing.T) {
	eachBunch(t, func(t *testing.T, bunch func(...pipeline.Part) pipeline.Part) {
		last := stage.Func("last", echo[int], stage.Capacity(4))
		var n atomic.Int64
		first := stage.Func("first", func(_ context.Context, cmd int) behaviour.Outcome {
			switch n.Add(1) % 20 {
			case 3:
				panic("no")
			case 13:
				runtime.Goexit()
			}
			return behaviour.Forward(last, cmd)
		}, stage.Restart(stage.RestartPolicy{Limit: 100}))
		p := run(t, bunch(first, last))
		for i := range 200 {
			require.NoError(t, first.Submit(t.Context(), i))
		}
		require.NoError(t, p.Drain(soon(t), first))
		require.NoError(t, p.Drain(soon(t), last))
		s := p.Snapshot()
		require.True(t, s.Balanced(), s.Law())
		require.Zero(t, s.InFlight)
		require.EqualValues(t, 20, s.DeadLettered)
	})
}

// A caller that gets ErrDraining may try again later, which is of no use for a stage that was removed.
func TestARemovedStageIsClosedAndNotDraining(t *testing.T) {
	gone := func(t *testing.T, s *stage.Stage[int]) {
		t.Helper()
		err := s.Submit(t.Context(), 1)
		require.ErrorIs(t, err, stage.ErrClosed)
		require.NotErrorIs(t, err, stage.ErrDraining)
	}
	t.Run("removed when it was drained", func(t *testing.T) {
		s, other := stage.Func("s", echo[int]), stage.Func("other", echo[int])
		p := made(t, s, other)
		require.NoError(t, p.Start(t.Context()))
		require.NoError(t, p.Drain(soon(t), s))
		require.NoError(t, p.Remove(soon(t), s))
		gone(t, s)
		require.NoError(t, p.Stop(soon(t)))
	})
	t.Run("stopped hard", func(t *testing.T) {
		s := stage.Func("s", echo[int])
		p := made(t, s)
		require.NoError(t, p.Start(t.Context()))
		require.NoError(t, p.Pause(s))
		ticket, err := s.Ask(t.Context(), 1)
		require.NoError(t, err)
		now, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, p.Stop(now))
		gone(t, s)
		require.ErrorIs(t, ticket.Err(), stage.ErrStopped)
		require.ErrorContains(t, ticket.Err(), `stage "s": `, "the error names the stage")
	})
	t.Run("broken", func(t *testing.T) {
		s := stage.Func("s", func(context.Context, int) behaviour.Outcome { panic("ever") },
			stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: -1}))
		p := made(t, s)
		require.NoError(t, p.Start(t.Context()))
		require.NoError(t, s.Submit(t.Context(), 1))
		require.NoError(t, s.Submit(t.Context(), 2))
		<-p.Done()
		gone(t, s)
	})
}

func TestDrainAtOddTimesIsRefusedOrHarmless(t *testing.T) {
	s, other := stage.Func("s", echo[int]), stage.Func("other", echo[int])
	p := made(t, s, other)
	require.NoError(t, p.Drain(t.Context()), "before the start there is nothing")
	require.NoError(t, p.Drain(t.Context(), s))
	require.ErrorIs(t, p.Reopen(s), pipeline.ErrNotRunning)
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, s.Submit(t.Context(), 1), "nothing was closed either")
	require.ErrorIs(t, p.Drain(t.Context(), stage.Func("foreign", echo[int])), pipeline.ErrNotPart)
	require.ErrorIs(t, p.Reopen(stage.Func("foreign", echo[int])), pipeline.ErrNotPart)
	require.ErrorContains(t, p.Drain(t.Context(), pipeline.Grace(0)), "is not a stage")
	require.NoError(t, p.Reopen(), "nothing is drained")
	require.NoError(t, p.Drain(soon(t), s, s, pipeline.Subgraph(s)))
	require.NoError(t, p.Drain(soon(t), s), "twice")
	require.NoError(t, p.Drain(soon(t)))
	require.NoError(t, p.Reopen(), "all of them")
	require.NoError(t, s.Submit(t.Context(), 1))
	require.NoError(t, other.Submit(t.Context(), 1))
	require.NoError(t, p.Drain(soon(t), s))
	require.NoError(t, p.Stop(soon(t)))
	require.NoError(t, p.Drain(soon(t), s))
	require.ErrorIs(t, p.Reopen(s), pipeline.ErrNotRunning)
	err := s.Submit(t.Context(), 1)
	require.ErrorIs(t, err, stage.ErrClosed)
	require.NotErrorIs(t, err, stage.ErrDraining, "it is over")
	atRest(t, p)
}

func TestReopenEndsADrainThatIsUnderWay(t *testing.T) {
	for _, whole := range []bool{true, false} {
		release := make(chan struct{})
		s := stage.Func("s", func(context.Context, int) behaviour.Outcome { <-release; return behaviour.OK(nil) })
		p := run(t, s, stage.Func("other", echo[int]))
		require.NoError(t, s.Submit(t.Context(), 1))
		drained := make(chan error, 1)
		parts := []pipeline.Part{s}
		if whole {
			parts = nil
		}
		go func() { drained <- p.Drain(soon(t), parts...) }()
		eventually(t, "it drains", func() bool { return p.Snapshot().Stages[0].Draining })
		require.NoError(t, p.Reopen())
		require.ErrorIs(t, <-drained, pipeline.ErrReopened)
		require.NoError(t, s.Submit(t.Context(), 1))
		close(release)
	}
}

// Whichever comes last has its way at all stages.
func TestADrainAndAReopenAtOnceLeaveAllStagesOpenOrAllClosed(t *testing.T) {
	var parts []pipeline.Part
	for i := range 256 {
		parts = append(parts, stage.New(fmt.Sprint("s", i), fn(echo[int])))
	}
	p := run(t, parts...)
	over, cancel := context.WithCancel(t.Context())
	cancel() // the drain closes the stages and does not wait
	for range fewer(1000) {
		var both sync.WaitGroup
		both.Go(func() { _ = p.Drain(over) })
		both.Go(func() { assert.NoError(t, p.Reopen()) })
		both.Go(func() { p.Snapshot() }) // it takes the locks of all stages, so that one of the others may overtake
		both.Wait()
		closed := 0
		for _, s := range p.Snapshot().Stages {
			if s.Draining {
				closed++
			}
		}
		require.Contains(t, []int{0, len(parts)}, closed)
		require.NoError(t, p.Reopen())
	}
}

func TestAStopFinishesCommandsThatADrainedStageHeldBack(t *testing.T) {
	eachBunch(t, func(t *testing.T, bunch func(...pipeline.Part) pipeline.Part) {
		last := stage.Func("last", echo[int], stage.Capacity(2))
		first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(last, n) })
		p := start(t, bunch(first, last))
		require.NoError(t, p.Drain(soon(t), last))
		for i := range 30 {
			require.NoError(t, first.Submit(t.Context(), i))
		}
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, p.Stop(soon(t)))
		atRest(t, p)
		require.EqualValues(t, 30, p.Snapshot().Replied)
	})
}

func TestAHardStopEndsCommandsThatADrainedStageHeldBack(t *testing.T) {
	c := &clog{}
	c.mu.Lock()
	last := stage.New("last", c)
	first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(last, n) }, stage.Workers(1, 1))
	p := start(t, first, last, pipeline.Grace(0))
	require.NoError(t, last.Submit(t.Context(), 0))
	isStuck(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Drain(ended, last))
	for i := range 30 {
		require.NoError(t, first.Submit(t.Context(), i))
	}
	eventually(t, "it is held back", func() bool { return at(p, "first").Queue.InHand > 0 })
	var report *pipeline.StopError
	require.ErrorAs(t, p.Stop(ended), &report)
	s := p.Snapshot()
	require.True(t, s.Balanced(), s.Law())
	require.Zero(t, s.InFlight)
	require.EqualValues(t, 31, s.DeadLettered, "the command that hangs, too")
	c.mu.Unlock()
	eventually(t, "it has come back", func() bool { return at(p, "last").Workers.Abandoned == 0 })
	require.EqualValues(t, 31, p.Snapshot().DeadLettered)
}

// Many overlapping drains of random stages end, some by a time limit or by a reopening, while commands pass a graph with a
// loop. The accounting law holds at every instant, and all commands end.
func TestManyRandomDrainsLoseNothing(t *testing.T) {
	eachBunch(t, func(t *testing.T, bunch func(...pipeline.Part) pipeline.Part) {
		toB, toC, back := behaviour.NewPort[int]("b"), behaviour.NewPort[int]("c"), behaviour.NewPort[int]("back")
		c := stage.Func("c", echo[int], stage.Capacity(4))
		b := stage.Func("b", func(_ context.Context, n int) behaviour.Outcome {
			if n > 0 {
				return behaviour.Forward(back, n-1)
			}
			return behaviour.Forward(toC, n)
		}, stage.Out(back), stage.Out(toC), stage.Capacity(4))
		a := stage.Func("a", func(_ context.Context, n int) behaviour.Outcome {
			if n == 7 {
				panic("seven")
			}
			return behaviour.Forward(toB, n)
		}, stage.Out(toB), stage.Capacity(4), stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Max: time.Millisecond}))
		p := run(t, bunch(a, b, c), pipeline.Wire(toB, b), pipeline.Wire(toC, c), pipeline.Wire(back, a))
		parts := []pipeline.Part{a, b, c}
		stop := make(chan struct{})
		var accepted atomic.Uint64
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
					if a.Submit(ctx, i%9) == nil {
						accepted.Add(1)
					}
					cancel()
				}
			})
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(4_000_000)))
					_ = p.Drain(ctx, parts[rand.IntN(3):]...)
					cancel()
					switch rand.IntN(4) {
					case 0:
						assert.NoError(t, p.Reopen(parts[rand.IntN(3)]))
					case 1, 2:
						assert.NoError(t, p.Reopen())
					}
				}
			})
		}
		end, s := time.Now().Add(lasting(500*time.Millisecond, 10*time.Second)), p.Snapshot()
		for time.Now().Before(end) || s.Replied < 100 {
			s = p.Snapshot()
			require.True(t, s.Balanced(), s.Law())
		}
		close(stop)
		wg.Wait()
		require.NoError(t, p.Reopen())
		eventually(t, "all has ended", func() bool { return p.Snapshot().InFlight == 0 })
		s = p.Snapshot()
		require.Equal(t, accepted.Load(), s.Replied+s.DeadLettered)
	})
}

func TestManyDrainsOfOverlappingPartsAllEnd(t *testing.T) {
	for range 30 {
		entry, parts := loop(3)
		p := run(t, parts...)
		for range 20 {
			require.NoError(t, entry.Submit(t.Context(), 50))
		}
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				which := parts[i%3 : min(i%3+2, 3)]
				if i == 5 {
					which = nil
				}
				assert.NoError(t, p.Drain(soon(t), which...))
			})
		}
		wg.Wait()
		require.Zero(t, p.Snapshot().InFlight)
	}
}
