package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// forEachOwner runs a check with stages that have their own workers, and with stages that share one.
func forEachOwner(t *testing.T, check func(t *testing.T, law controller.Policy)) {
	t.Helper()
	for name, law := range map[string]controller.Policy{
		"own":    policy.Fixed{},
		"fifo":   sharing(controller.SharedFIFO, nil),
		"polled": sharing(controller.Polled, nil),
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) { check(t, law) })
		})
	}
}

func TestAPausedStageFillsUpAndContinuesWhenItIsResumed(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		s := newLock("s", stage.Capacity(3), stage.Workers(1, 1))
		other := stage.New("other", fn(echo[int]))
		p := bubble(t, s, other, pipeline.Control(law))
		submit(t, s, 0)
		synctest.Wait()
		require.NoError(t, p.Pause(s))
		require.NoError(t, p.Pause(s), "a second call has no effect")
		require.True(t, p.Snapshot().Stages[0].Paused)
		s.open()
		synctest.Wait()
		require.EqualValues(t, 1, p.Snapshot().Replied, "what was in hand is finished")
		submit(t, s, 1, 2, 3)
		_, err := stage.Call[int](t.Context(), other, 1)
		require.NoError(t, err, "the others continue")
		let := make(chan error, 1)
		go func() { let <- s.Submit(t.Context(), 4) }()
		time.Sleep(time.Hour)
		require.Empty(t, let)
		require.Equal(t, 3, p.Snapshot().Stages[0].Queue.Queued)
		require.NoError(t, p.Resume(s))
		require.NoError(t, <-let)
		end(t, p)
		require.EqualValues(t, 6, p.Snapshot().Replied)
	})
}

func TestADrainWaitsForAStageThatIsPaused(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		s := stage.New("s", fn(echo[int]))
		p := bubble(t, s, pipeline.Control(law))
		require.NoError(t, p.Pause(s))
		submit(t, s, 1)
		drained := make(chan error, 1)
		go func() { drained <- p.Drain(t.Context()) }()
		time.Sleep(time.Hour)
		require.Empty(t, drained)
		require.NoError(t, p.Resume(s))
		require.NoError(t, <-drained)
		end(t, p)
	})
}

func TestAPauseCanBeEndedWhileAStopWaits(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", fn(echo[int]))
		p := bubble(t, s)
		require.NoError(t, p.Pause(s))
		submit(t, s, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		stopped := make(chan error, 1)
		go func() { stopped <- p.Stop(ctx) }()
		synctest.Wait()
		err := p.Resume(s)
		require.NoError(t, <-stopped)
		require.NoError(t, err)
	})
}

func TestAHardStopEndsTheCommandsOfAPausedStage(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		letters := make(chan stage.DeadLetter, 10)
		s := stage.New("s", fn(echo[int]), stage.Capacity(1))
		p := bubble(t, s, pipeline.Control(law), pipeline.DeadLetters(func(l stage.DeadLetter) { letters <- l }))
		require.NoError(t, p.Pause(s))
		ticket, err := s.Ask(t.Context(), 1)
		require.NoError(t, err)
		let := make(chan error, 1)
		go func() { let <- s.Submit(t.Context(), 2) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var report *pipeline.StopError
		require.ErrorAs(t, p.Stop(ctx), &report)
		require.EqualValues(t, 1, report.Drain.InFlight)
		require.ErrorIs(t, <-let, stage.ErrClosed)
		_, err = ticket.Wait(t.Context())
		require.ErrorIs(t, err, stage.ErrStopped)
		require.Equal(t, reason.Stopped, (<-letters).Reason)
		atRest(t, p)
		require.ErrorIs(t, p.Pause(s), pipeline.ErrStopped)
		require.ErrorIs(t, p.Resume(s), pipeline.ErrStopped)
	})
}

func TestAPolicyCannotEndAPause(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", fn(echo[int]))
		p, err := pipeline.New("test", s, quiet, pipeline.Control(policy.Fixed{}))
		require.NoError(t, err)
		require.NoError(t, p.Pause(s), "before the start")
		require.NoError(t, p.Start(t.Context()))
		submit(t, s, 1)
		for _, law := range append(laws(t), once(func(s *controller.Snapshot, d *controller.Decisions) {
			require.True(t, s.Stages[0].Paused)
			controller.KnobEnabled.Set(d, 0, true, "test")
			controller.KnobPriority.Set(d, 0, 4, "test")
		}), sharing(controller.Polled, nil), policy.Fixed{}) {
			require.NoError(t, p.SetPolicy(law))
			time.Sleep(2 * time.Second)
			require.True(t, p.Snapshot().Stages[0].Paused)
			require.Equal(t, 1, p.Snapshot().Stages[0].Queue.Queued, law.Name())
		}
		require.NoError(t, p.Resume(s))
		synctest.Wait()
		require.EqualValues(t, 1, p.Snapshot().Replied)
		end(t, p)
	})
}

func TestPauseRefusesPartsThatAreNotStagesOfThePipeline(t *testing.T) {
	p := run(t, stage.New("s", fn(echo[int])))
	foreign := stage.New("s", fn(echo[int]))
	require.ErrorIs(t, p.Pause(foreign), pipeline.ErrNotPart)
	require.ErrorIs(t, p.Resume(foreign), pipeline.ErrNotPart)
	require.ErrorIs(t, p.Remove(soon(t), foreign), pipeline.ErrNotPart)
	require.ErrorContains(t, p.Pause(quiet), "is not a stage")
	require.ErrorContains(t, p.Remove(soon(t), nil), "is not a stage")
}

// slow is a behaviour whose Start returns when it is released.
type slow struct{ begun, let chan struct{} }

func (s slow) HandleCommand(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }
func (s slow) Start(context.Context) error                          { close(s.begun); <-s.let; return nil }

func TestCallsWhileThePipelineStartsTakeEffect(t *testing.T) {
	for name, order := range map[string]func(p *pipeline.Pipeline, s pipeline.Part) error{
		"pause": func(p *pipeline.Pipeline, s pipeline.Part) error { return p.Pause(s) },
		"use":   func(p *pipeline.Pipeline, _ pipeline.Part) error { return p.SetPolicy(policy.Cohort{}) },
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				b := slow{make(chan struct{}), make(chan struct{})}
				s := stage.New("s", b)
				p, err := pipeline.New("test", s, quiet, pipeline.Control(policy.Fixed{}))
				require.NoError(t, err)
				started, done := make(chan error, 1), make(chan error, 1)
				go func() { started <- p.Start(context.Background()) }()
				<-b.begun
				go func() { done <- order(p, s) }()
				synctest.Wait()
				close(b.let)
				require.NoError(t, <-started)
				time.Sleep(time.Minute)
				carried := len(done)
				require.NoError(t, p.Stop(t.Context()))
				require.Equal(t, 1, carried)
			})
		})
	}
}

func TestStagesAreAddedWithTheirWires(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		var told story
		old := teller(&told, "old")
		p := bubble(t, old, pipeline.Control(law))
		out, on := behaviour.NewPort[int]("out"), behaviour.NewPort[int]("on")
		second := stage.Func("second", func(_ context.Context, n int) behaviour.Outcome {
			told.add("second")
			return behaviour.Forward(on, n)
		}, stage.Out(on))
		first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome {
			told.add("first")
			return behaviour.Forward(out, n)
		}, stage.Out(out))
		require.ErrorIs(t, first.Submit(t.Context(), 1), stage.ErrNotRunning)
		require.NoError(t, p.Add(t.Context(), pipeline.Subgraph(first, second), pipeline.Wire(out, second), pipeline.Wire(on, old)))
		n, err := stage.Call[int](t.Context(), first, 7)
		require.NoError(t, err)
		require.Equal(t, 7, n)
		require.Equal(t, "first second old", told.take())
		s := p.Snapshot()
		require.Equal(t, []string{"old", "first", "second"}, []string{s.Stages[0].Name, s.Stages[1].Name, s.Stages[2].Name})
		require.NotNil(t, first.PID())
		require.Contains(t, p.Mermaid(), `s1 -->|"out"| s2`)
		require.Contains(t, p.Mermaid(), `s2 -->|"on"| s0`)
		end(t, p)
		require.ErrorIs(t, first.Submit(t.Context(), 1), stage.ErrClosed)
	})
}

func TestEachFaultOfAddedPartsIsReportedAndNothingChanges(t *testing.T) {
	old := stage.New("old", fn(echo[int]))
	wired := behaviour.NewPort[int]("wired")
	source := stage.New("source", fn(echo[int]), stage.Out(wired))
	p := run(t, old, source, pipeline.Wire(wired, old))
	port := func() *behaviour.Port[int] { return behaviour.NewPort[int]("out") }
	fresh := func(opts ...stage.Option) *stage.Stage[int] { return stage.New("fresh", fn(echo[int]), opts...) }
	out := port()
	rows := map[string]struct {
		parts []pipeline.Part
		says  []string
	}{
		"nothing":                      {nil, []string{"at least one stage"}},
		"a doubled name":               {[]pipeline.Part{stage.New("old", fn(echo[int]))}, []string{`stage "old": there is another stage of that name`}},
		"two of one name":              {[]pipeline.Part{fresh(), fresh()}, []string{`stage "fresh": there is another stage of that name`}},
		"one that is there":            {[]pipeline.Part{old}, []string{`stage "old": is part of this pipeline already`}},
		"a port not wired":             {[]pipeline.Part{fresh(stage.Out(port()))}, []string{`port "out" is not wired`}},
		"a wire out":                   {[]pipeline.Part{fresh(stage.Out(out)), pipeline.Wire(out, stage.New("far", fn(echo[int])))}, []string{`stage "far", which is not part of this pipeline`}},
		"a wire of an undeclared port": {[]pipeline.Part{fresh(), pipeline.Wire(port(), old)}, []string{"no stage declares it"}},
		"a wire that is there":         {[]pipeline.Part{fresh(), pipeline.Wire(wired, old)}, []string{`port "wired": is wired twice`}},
		"options":                      {[]pipeline.Part{fresh(), quiet, pipeline.Grace(time.Second)}, []string{"part 2: is an option, which only New takes", "part 3: is an option"}},
		"a group":                      {[]pipeline.Part{pipeline.Group("g", 1, 1, fresh())}, []string{"cannot be in a group"}},
		"an entry":                     {[]pipeline.Part{pipeline.Entry(fresh())}, []string{"Entry: is for New"}},
		"a stage's own faults":         {[]pipeline.Part{fresh(stage.Capacity(0)), nil}, []string{"Capacity(0)", "part 2: is nil"}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			err := p.Add(soon(t), row.parts...)
			for _, says := range row.says {
				require.ErrorContains(t, err, says)
			}
			require.Len(t, p.Snapshot().Stages, 2)
		})
	}
	elsewhere := stage.New("elsewhere", fn(echo[int]))
	made(t, elsewhere)
	require.ErrorContains(t, p.Add(soon(t), fresh(), elsewhere), "is part of another pipeline already")
	again := fresh(stage.Out(out))
	require.NoError(t, p.Add(soon(t), again, pipeline.Wire(out, old)), "a refused stage may be used elsewhere")
}

func TestStagesAreAddedAndRemovedOnlyWhileThePipelineRuns(t *testing.T) {
	s, fresh := stage.New("s", fn(echo[int])), stage.New("fresh", fn(echo[int]))
	p := made(t, s, stage.New("other", fn(echo[int])))
	require.ErrorIs(t, p.Add(t.Context(), fresh), pipeline.ErrNotRunning)
	require.ErrorIs(t, p.Remove(t.Context(), s), pipeline.ErrNotRunning)
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, p.Add(t.Context(), fresh))
	require.NoError(t, p.Stop(soon(t)))
	require.ErrorIs(t, p.Add(t.Context(), stage.New("late", fn(echo[int]))), pipeline.ErrNotRunning)
	require.ErrorIs(t, p.Remove(t.Context(), s), pipeline.ErrNotRunning)
}

func TestAStageThatIsAddedToADrainedPipelineAcceptsNothing(t *testing.T) {
	p := run(t, stage.New("s", fn(echo[int])))
	require.NoError(t, p.Drain(soon(t)))
	late := stage.New("late", fn(echo[int]))
	if p.Add(soon(t), late) == nil {
		require.ErrorIs(t, late.Submit(soon(t), 1), stage.ErrClosed)
	}
}

func TestAStageThatCannotStartLeavesNothingBehind(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		old := stage.New("old", fn(echo[int]))
		p := bubble(t, old, pipeline.Control(law))
		var all lived
		good := all.each("good", echo[int], stage.Workers(2, 2))
		bad := stage.Each("bad", func() behaviour.Behaviour[int] { return &starter{err: func() error { return errNo }} })
		require.ErrorIs(t, p.Add(t.Context(), good, bad), errNo)
		synctest.Wait()
		require.Len(t, p.Snapshot().Stages, 1)
		all.requireAllStopped(t)
		require.Nil(t, bad.PID())
		require.Error(t, good.Submit(t.Context(), 1))
		require.NotContains(t, p.Mermaid(), "good")
		require.NoError(t, p.Add(t.Context(), all.each("good", echo[int])), "the names are free")
		end(t, p)
		require.NoError(t, p.Err())
		all.requireAllStopped(t)
	})
}

func TestAStageThatHangsInItsStartIsNotAddedWhenTheContextEnds(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		p := bubble(t, stage.New("old", fn(echo[int])))
		b := slow{make(chan struct{}), make(chan struct{})}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errNo)
		defer cancel()
		require.ErrorIs(t, p.Add(ctx, stage.New("slow", b)), errNo)
		require.Len(t, p.Snapshot().Stages, 1)
		close(b.let)
		end(t, p)
	})
}

func TestAnAddedStageThatFailsEndsThePipeline(t *testing.T) {
	p := start(t, stage.New("old", fn(echo[int])))
	bad := stage.Func("bad", func(context.Context, int) behaviour.Outcome { panic(errNo) }, stage.Restart(stage.RestartPolicy{Limit: -1}), stage.Workers(1, 1))
	require.NoError(t, p.Add(soon(t), bad))
	for i := range 10 {
		_ = bad.Submit(soon(t), i)
	}
	<-p.Done()
	var broken *stage.BrokenError
	require.ErrorAs(t, p.Err(), &broken)
	require.Equal(t, "bad", broken.Stage)
	atRest(t, p)
}

func TestAHardStopReportsTheHandlerOfAnAddedStageThatDoesNotStop(t *testing.T) {
	release, at := make(chan struct{}), make(chan struct{})
	defer close(release)
	p := start(t, stage.New("old", fn(echo[int])), pipeline.Grace(20*time.Millisecond))
	stuck := stage.Func("stuck", func(context.Context, int) behaviour.Outcome {
		close(at)
		<-release
		return behaviour.OK(nil)
	})
	require.NoError(t, p.Add(soon(t), stuck))
	require.NoError(t, stuck.Submit(soon(t), 1))
	<-at
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var report *pipeline.StopError
	require.ErrorAs(t, p.Stop(ctx), &report)
	require.Len(t, report.Stuck, 1)
	require.Equal(t, "stuck", report.Stuck[0].Stage)
}

// A policy is asked after a stage was added and before the control loop's state has the stage.
func TestADecisionAboutAStageThatWasJustAddedMakesNoPool(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		hold, asked := make(chan struct{}), make(chan struct{}, 10)
		crash := stage.New("crash", fn(poison))
		law := rules2(func(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
			if ev.Kind == controller.EventQueueFull {
				asked <- struct{}{}
				<-hold
			}
			if len(s.Stages) > 2 {
				controller.KnobWorkers.Set(d, 2, 2, "test")
			}
		})
		full := newLock("full", stage.Capacity(1), stage.Workers(1, 1))
		p := bubble(t, crash, full, pipeline.Control(law))
		submit(t, full, 1)
		synctest.Wait()
		submit(t, full, 1) // the policy is busy with this event
		<-asked
		time.Sleep(time.Second)
		submit(t, crash, -1) // and is then notified of this one
		synctest.Wait()
		added := make(chan error, 1)
		go func() { added <- p.Add(t.Context(), stage.New("new", fn(echo[int]), stage.Workers(1, 4))) }()
		synctest.Wait()
		require.Len(t, p.Snapshot().Stages, 3)
		close(hold)
		require.NoError(t, <-added)
		full.open()
		synctest.Wait()
		require.Empty(t, p.Snapshot().Pools)
		require.Equal(t, 2, workers(p, 2))
		end(t, p)
	})
}

// rules2 is a policy made of a function that is called at every event.
type rules2 func(ev controller.Event, s *controller.Snapshot, d *controller.Decisions)

func (rules2) Name() string                 { return "rules" }
func (rules2) Check() error                 { return nil }
func (r rules2) New() controller.Controller { return r }
func (r rules2) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	r(ev, s, d)
}

func TestAStageIsDrainedBeforeItIsRemoved(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		var all lived
		gone := all.each("gone", func(_ context.Context, n int) behaviour.Outcome {
			time.Sleep(time.Second)
			return behaviour.OK(n)
		}, stage.Workers(1, 1))
		last := stage.New("last", fn(echo[int]))
		p := bubble(t, gone, last, pipeline.Control(law))
		var tickets []*stage.Ticket
		for i := range 10 {
			ticket, err := gone.Ask(t.Context(), i)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		require.NoError(t, p.Remove(t.Context(), gone))
		for _, ticket := range tickets {
			_, err := ticket.Wait(t.Context())
			require.NoError(t, err)
		}
		require.ErrorIs(t, gone.Submit(t.Context(), 1), stage.ErrClosed)
		require.Nil(t, gone.PID())
		require.ErrorIs(t, p.Remove(t.Context(), gone), pipeline.ErrNotPart)
		require.ErrorContains(t, p.Remove(t.Context(), last), "the last stage cannot be removed")
		s := p.Snapshot()
		require.Len(t, s.Stages, 1)
		require.EqualValues(t, 10, s.Accepted, "its accounts are the pipeline's")
		require.True(t, s.Balanced())
		require.NotContains(t, p.DOT(), "gone")
		end(t, p)
		all.requireAllStopped(t)
	})
}

func TestARemovalThatTakesTooLongLeavesTheStageClosed(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newLock("s", stage.Workers(1, 1))
		p := bubble(t, s, stage.New("other", fn(echo[int])))
		submit(t, s, 1, 2)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errNo)
		defer cancel()
		err := p.Remove(ctx, s)
		require.ErrorIs(t, err, errNo)
		require.ErrorContains(t, err, `remove stage "s": 2 commands are still there`)
		require.ErrorIs(t, s.Submit(t.Context(), 1), stage.ErrClosed)
		require.Len(t, p.Snapshot().Stages, 2)
		s.open()
		require.NoError(t, p.Remove(t.Context(), s), "a second try")
		end(t, p)
	})
}

func TestACommandForwardedToARemovedStageEndsThere(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		letters := make(chan stage.DeadLetter, 10)
		gone := stage.New("gone", fn(echo[int]))
		first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(gone, n) }, stage.Workers(1, 1))
		fresh := stage.Func("fresh", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(gone, n) }, stage.Workers(1, 1))
		p := bubble(t, first, fresh, gone, pipeline.Control(law), pipeline.DeadLetters(func(l stage.DeadLetter) { letters <- l }))
		_, err := stage.Call[int](t.Context(), first, 1)
		require.NoError(t, err)
		require.NoError(t, p.Remove(t.Context(), gone))
		_, err = stage.Call[int](t.Context(), first, 2)
		require.ErrorIs(t, err, stage.ErrStopped, "the worker knew the edge")
		letter := <-letters
		require.Equal(t, "gone", letter.Stage)
		require.Equal(t, reason.Stopped, letter.Reason)
		_, err = stage.Call[int](t.Context(), fresh, 3)
		require.ErrorIs(t, err, stage.ErrForeign, "the worker did not")
		end(t, p)
		s := p.Snapshot()
		require.EqualValues(t, 3, s.Accepted)
		require.EqualValues(t, 1, s.DeadLettered)
		require.EqualValues(t, 1, s.Failed)
	})
}

// The worker of the removed stage is blocked with commands for the next stage, which is full.
func TestCommandsThatARemovedStageStillHoldsAreNotLost(t *testing.T) {
	for name, added := range map[string]bool{"given to New": false, "added": true} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				last := newLock("last", stage.Capacity(1), stage.Workers(1, 1))
				gone := stage.Func("gone", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(last.Stage, n) }, stage.Workers(1, 1))
				var p *pipeline.Pipeline
				if added {
					p = bubble(t, last)
					require.NoError(t, p.Add(t.Context(), gone))
				} else {
					p = bubble(t, last, gone)
				}
				submit(t, last, 1)
				synctest.Wait()
				submit(t, last, 2) // the stage is full
				var tickets []*stage.Ticket
				ticket, err := gone.Ask(t.Context(), 1)
				require.NoError(t, err)
				tickets = append(tickets, ticket)
				synctest.Wait()
				removed := make(chan error, 1)
				go func() { removed <- p.Remove(t.Context(), gone) }()
				time.Sleep(time.Second)
				last.open()
				require.NoError(t, <-removed)
				time.Sleep(time.Minute)
				ended := 0
				for _, ticket := range tickets {
					select {
					case <-ticket.Done():
						ended++
					default:
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err = p.Stop(ctx)
				require.Equal(t, len(tickets), ended)
				require.NoError(t, err)
			})
		})
	}
}

func TestAStageOfTheSameNameMayBeAddedAgain(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		s := stage.New("s", fn(echo[int]))
		p := bubble(t, s, stage.New("other", fn(echo[int])), pipeline.Control(law))
		for i := range 5 {
			n, err := stage.Call[int](t.Context(), s, i)
			require.NoError(t, err)
			require.Equal(t, i, n)
			require.NoError(t, p.Remove(t.Context(), s))
			require.ErrorContains(t, p.Add(t.Context(), s), "was removed from this pipeline", "a removed stage is not found")
			s = stage.New("s", fn(echo[int]))
			require.NoError(t, p.Add(t.Context(), s))
			require.NotNil(t, s.PID())
			require.EqualValues(t, i+1, p.Snapshot().Accepted)
			require.Zero(t, p.Snapshot().Stages[1].Counts.Accepted, "it has its own accounts")
		}
		end(t, p)
	})
}

func TestAStageIsRemovedFromAGroup(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		a, b := stage.New("a", fn(echo[int])), stage.New("b", fn(echo[int]))
		p := bubble(t, pipeline.Group("g", 1, 1, a), b)
		submit(t, a, 1)
		require.NoError(t, p.Remove(t.Context(), a))
		require.Empty(t, p.Snapshot().Pools[0].Stages)
		reset(t, p)
		submit(t, b, 1)
		end(t, p)
	})
}

// Stages are added, removed, paused and resumed, and policies are swapped, all at once, while commands pass.
func TestManyRandomChangesLoseNothing(t *testing.T) {
	storm := time.Second
	if testing.Short() {
		storm = 200 * time.Millisecond
	}
	entry, parts := line(3, func(_, _ int) error {
		if rand.IntN(500) == 0 {
			panic("on purpose")
		}
		return nil
	}, stage.Capacity(64), stage.Workers(1, 3))
	p := run(t, parts...)
	ctx, cancel := context.WithTimeout(t.Context(), storm)
	defer cancel()
	var wg sync.WaitGroup
	var submitted, guests atomic.Int64
	storms := []func(i int) error{
		func(int) error {
			if entry.Submit(ctx, 1) == nil {
				submitted.Add(1)
			}
			return nil
		},
		func(i int) error { return guest(p, entry, i%3, &guests) },
		func(i int) error { return guest(p, entry, 3+i%3, &guests) },
		func(i int) error {
			part := parts[i%len(parts)]
			err := p.Pause(part)
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
			if err != nil {
				return err
			}
			return p.Resume(part)
		},
		func(i int) error {
			time.Sleep(time.Millisecond)
			all := []controller.Policy{
				policy.Fixed{}, policy.Cohort{}, policy.ERLDA{}, sharing(controller.SharedFIFO, nil), policy.SRPT{}, sharing(controller.Polled, nil),
			}
			return p.SetPolicy(all[i%len(all)])
		},
		func(int) error {
			if s := p.Snapshot(); !s.Balanced() {
				return fmt.Errorf("%s", s.Law())
			}
			_ = p.Mermaid()
			return nil
		},
	}
	for _, f := range storms {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := f(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, p.Drain(soon(t)))
	require.EqualValues(t, submitted.Load()+guests.Load(), p.Snapshot().Accepted)
	require.Len(t, p.Snapshot().Stages, 3)
}

// guest adds a stage, uses it, and removes it.
func guest(p *pipeline.Pipeline, to *stage.Stage[int], i int, accepted *atomic.Int64) error {
	s := stage.Func(fmt.Sprint("guest", i), func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(to, n) },
		stage.Workers(1, 2), stage.Capacity(8))
	if err := p.Add(context.Background(), s); err != nil {
		return err
	}
	for n := range 20 {
		if err := s.Submit(context.Background(), n); err != nil {
			return err
		}
		accepted.Add(1)
	}
	return p.Remove(context.Background(), s)
}
