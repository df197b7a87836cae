package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/supervisor"
)

// counted is a behaviour that knows the number of its instance.
type counted struct {
	number int
	handle func(number int, cmd int) behaviour.Outcome
}

func (c *counted) HandleCommand(_ context.Context, cmd int) behaviour.Outcome {
	return c.handle(c.number, cmd)
}

// poison crashes on negative commands.
func poison(_ context.Context, cmd int) behaviour.Outcome {
	if cmd < 0 {
		panic(fmt.Sprintf("poison %d", cmd))
	}
	return behaviour.OK(cmd)
}

func TestT14_TenPoisonCommandsLeaveTenLiveWorkersAndTenErrorAnswers(t *testing.T) {
	s := stage.Each("s", func() behaviour.Behaviour[int] { return fn(poison) }, stage.Workers(10, 10))
	p := run(t, s)
	var tickets []*stage.Ticket
	for i := range 10 {
		ticket, err := s.Ask(t.Context(), -1-i)
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	for _, ticket := range tickets {
		_, err := ticket.Wait(soon(t))
		var crash *stage.CrashError
		require.ErrorAs(t, err, &crash)
		require.Contains(t, crash.Error(), "poison")
		require.Contains(t, string(crash.Stack), "pipeline_test.poison")
		require.Equal(t, 1, crash.Attempts)
	}
	for i := range 100 {
		n, err := stage.Call[int](soon(t), s, i)
		require.NoError(t, err)
		require.Equal(t, i, n)
	}
	eventually(t, "ten live workers", func() bool { return workers(p, 0) == 10 })
	snap := p.Snapshot().Stages[0]
	require.EqualValues(t, 10, snap.Counts.Crashes)
	require.EqualValues(t, 10, snap.Counts.Restarts)
	require.EqualValues(t, 10, snap.Counts.DeadLettered)
	require.EqualValues(t, 100, snap.Counts.OK)
}

func TestACrashStartsAFreshInstanceAndCountsForOneCommandOnly(t *testing.T) {
	for name, crash := range map[string]func(){
		"a panic":         func() { panic("boom") },
		"a panic of nil":  func() { panic(nil) },
		"runtime.Goexit":  runtime.Goexit,
		"a nil reference": func() { var p *counted; p.number++ },
	} {
		t.Run(name, func(t *testing.T) {
			var made atomic.Int64
			gate := make(chan struct{})
			s := stage.Each("s", func() behaviour.Behaviour[int] {
				return &counted{int(made.Add(1)), func(number, cmd int) behaviour.Outcome {
					if cmd == 0 {
						<-gate
					}
					if cmd == 5 {
						crash()
					}
					return behaviour.OK(number)
				}}
			}, stage.Workers(1, 1))
			run(t, s)
			var tickets []*stage.Ticket
			for cmd := range 10 {
				ticket, err := s.Ask(t.Context(), cmd)
				require.NoError(t, err)
				tickets = append(tickets, ticket)
			}
			close(gate)
			for cmd, ticket := range tickets {
				number, err := ticket.Wait(soon(t))
				if cmd == 5 {
					require.True(t, stage.Crashed(err), err)
					continue
				}
				require.NoError(t, err)
				want := 1
				if cmd > 5 {
					want = 2
				}
				require.Equal(t, want, number, "command %d", cmd)
			}
		})
	}
}

func TestACrashThatIsRetriedLeavesOnlyItsCountOfAttempts(t *testing.T) {
	var tries []int
	s := stage.New("s", fn(func(ctx context.Context, _ int) behaviour.Outcome {
		tries = append(tries, behaviour.Attempt(ctx))
		if behaviour.Attempt(ctx) < 3 {
			panic("not yet")
		}
		return behaviour.OK("done")
	}), stage.Workers(1, 1), stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond, Jitter: 0.5, If: stage.Crashed}))
	p := run(t, s)
	got, err := stage.Call[string](soon(t), s, 1)
	require.NoError(t, err)
	require.Equal(t, "done", got)
	require.Equal(t, []int{1, 2, 3}, tries)
	require.EqualValues(t, 2, p.Snapshot().Stages[0].Counts.Retries)
	require.EqualValues(t, 2, p.Snapshot().Stages[0].Counts.Crashes)
}

func TestTheLastRetryLeavesADeadLetterWithAllDetails(t *testing.T) {
	letters := make(chan stage.DeadLetter, 1)
	s := stage.New("s", fn(poison), stage.Retry(stage.RetryPolicy{Attempts: 3}))
	run(t, s, pipeline.DeadLetters(func(l stage.DeadLetter) { letters <- l }))
	require.NoError(t, s.Submit(t.Context(), -7))
	l := <-letters
	require.Equal(t, "test", l.Pipeline)
	require.Equal(t, "s", l.Stage)
	require.Equal(t, -7, l.Command)
	require.Equal(t, reason.Crash, l.Reason)
	require.Equal(t, 3, l.Attempts)
	require.Contains(t, string(l.Stack), "pipeline_test.poison")
	require.ErrorContains(t, l.Err, "attempt 3: poison -7")
}

func TestASubscriberThatPanicsIsHarmless(t *testing.T) {
	s := stage.New("s", fn(poison))
	run(t, s, pipeline.DeadLetters(func(stage.DeadLetter) { panic("subscriber") }))
	for i := range 100 {
		_, err := stage.Call[int](soon(t), s, -1)
		require.True(t, stage.Crashed(err))
		_, err = stage.Call[int](soon(t), s, i)
		require.NoError(t, err)
	}
}

// broken is a log handler that panics.
type broken struct{ slog.Handler }

func (broken) Handle(context.Context, slog.Record) error { panic("logger") }

func TestALoggerThatPanicsIsHarmless(t *testing.T) {
	s := stage.New("s", fn(func(ctx context.Context, cmd int) behaviour.Outcome {
		if cmd == 0 {
			return behaviour.Error(errNo)
		}
		return poison(ctx, cmd)
	}))
	p := run(t, s, pipeline.Logger(slog.New(broken{slog.DiscardHandler})))
	for i := range 30 {
		require.NoError(t, s.Submit(t.Context(), i%3-1))
	}
	require.NoError(t, p.Drain(soon(t)))
	require.EqualValues(t, 10, p.Snapshot().Failed)
	require.EqualValues(t, 10, p.Snapshot().DeadLettered)
	require.EqualValues(t, 10, p.Snapshot().Replied)
}

// The waiting command keeps its slot, so the stage has a second one.
func TestAWaitingRetryDoesNotHoldUpTheCommandsBehindIt(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", fn(func(ctx context.Context, cmd int) behaviour.Outcome {
			if cmd == 0 && behaviour.Attempt(ctx) == 1 {
				return behaviour.Error(errNo)
			}
			return behaviour.OK(cmd)
		}), stage.Workers(1, 1), stage.Capacity(2), stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Hour}))
		p := bubble(t, s)
		begin := time.Now()
		slow, err := s.Ask(t.Context(), 0)
		require.NoError(t, err)
		for i := 1; i <= 20; i++ {
			n, err := stage.Call[int](t.Context(), s, i)
			require.NoError(t, err)
			require.Equal(t, i, n)
		}
		require.Zero(t, time.Since(begin))
		_, err = slow.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Hour, time.Since(begin))
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestOnePoisonCommandWithManyAttemptsDoesNotFailAStage(t *testing.T) {
	s := stage.New("s", fn(poison), stage.Workers(1, 1), stage.Retry(stage.RetryPolicy{Attempts: 200}))
	p := run(t, s)
	_, err := stage.Call[int](soon(t), s, -1)
	require.True(t, stage.Crashed(err))
	n, err := stage.Call[int](soon(t), s, 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.EqualValues(t, 200, p.Snapshot().Stages[0].Counts.Crashes)
}

// A stage with little work may get one bad command a day, and nothing else.
func TestCrashesFarApartDoNotFailAStage(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", fn(poison), stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 2, Within: time.Minute}))
		p := bubble(t, s)
		for range 20 {
			_, err := stage.Call[int](t.Context(), s, -1)
			require.True(t, stage.Crashed(err))
			time.Sleep(2 * time.Minute)
		}
		require.NoError(t, p.Err())
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestRunReturnsTheCrashesOfAStageThatFails(t *testing.T) {
	s := stage.New("s", fn(poison), stage.Workers(2, 2), stage.Restart(stage.RestartPolicy{Limit: 3}))
	letters := make(chan stage.DeadLetter, 1000)
	p, err := pipeline.New("broken", s, pipeline.System(system()), quiet,
		pipeline.DeadLetters(func(l stage.DeadLetter) { letters <- l }))
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- p.Run(context.Background()) }()
	eventually(t, "the stage runs", func() bool { return s.Submit(context.Background(), -1) == nil })
	for range 20 {
		_ = s.Submit(context.Background(), -1)
	}
	err = <-ran
	var escalation *supervisor.EscalationError
	require.ErrorAs(t, err, &escalation)
	require.Equal(t, "s", escalation.Child)
	var broken *stage.BrokenError
	require.ErrorAs(t, err, &broken)
	require.Greater(t, broken.Crashes, 2+3)
	require.LessOrEqual(t, broken.Crashes, 2+3+2, "two workers may crash at once")
	require.True(t, stage.Crashed(err), "the crashes are in the chain")
	require.ErrorContains(t, err, "poison -1")
	require.NotEmpty(t, broken.Last)
	require.Error(t, p.Err())
	require.ErrorIs(t, s.Submit(context.Background(), 1), stage.ErrClosed)
	atRest(t, p)
	require.Len(t, letters, int(p.Snapshot().Accepted), "every command has its letter")
}

func TestAFailedStageIsRestartedAsOftenAsIntensityAllows(t *testing.T) {
	var made atomic.Int64
	s := stage.Each("s", func() behaviour.Behaviour[int] {
		if made.Add(1) <= 5 { // one at the start; one crash; three restarts of the worker
			return fn(func(context.Context, int) behaviour.Outcome { panic("not yet") })
		}
		return fn(echo[int])
	}, stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 3}))
	before := stage.New("before", fn(func(_ context.Context, cmd int) behaviour.Outcome { return behaviour.Forward(s, cmd) }))
	p := run(t, before, s, pipeline.Intensity(1, time.Minute), pipeline.Supervise(supervisor.RestForOne))
	for i := range 5 {
		_, err := stage.Call[int](soon(t), before, i)
		require.True(t, stage.Crashed(err))
	}
	n, err := stage.Call[int](soon(t), before, 9)
	require.NoError(t, err)
	require.Equal(t, 9, n)
	require.NoError(t, p.Err())
}

func TestAStageThatCannotStartItsInstancesAnyMoreFails(t *testing.T) {
	var made atomic.Int64
	s := stage.Each("s", func() behaviour.Behaviour[int] {
		return &starter{err: func() error {
			if made.Add(1) > 1 {
				return errNo
			}
			return nil
		}}
	}, stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 2}))
	p := start(t, s)
	_, err := stage.Call[int](soon(t), s, -1)
	require.True(t, stage.Crashed(err))
	<-p.Done()
	require.ErrorIs(t, p.Err(), errNo)
	atRest(t, p)
}

// The test stops the workers' actors from outside, repeatedly.
func TestAKilledWorkerIsReplacedAndAStageWhoseWorkersVanishFails(t *testing.T) {
	s := stage.New("s", fn(func(ctx context.Context, _ int) behaviour.Outcome { return behaviour.OK(nil) }),
		stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 2, Backoff: 1, Max: 1}))
	p := start(t, s)
	kill := func() {
		for _, id := range processes("worker-") {
			system().Root.Stop(actor.Local(system(), id))
		}
	}
	kill()
	_, err := stage.Call[any](soon(t), s, 1)
	require.NoError(t, err, "it was replaced")
	eventually(t, "it gives up", func() bool {
		kill()
		select {
		case <-p.Done():
			return true
		default:
			return false
		}
	})
	require.ErrorContains(t, p.Err(), "a worker ended without being asked to")
	atRest(t, p)
}

func TestAnIsolatedCrashDoesNotEndTheWorkersActor(t *testing.T) {
	for name, crash := range map[string]func(){"panic": func() { panic("boom") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var made atomic.Int64
			s := stage.Each("s", func() behaviour.Behaviour[int] {
				made.Add(1)
				return fn(func(_ context.Context, cmd int) behaviour.Outcome {
					if cmd < 0 {
						crash()
					}
					return behaviour.OK(cmd)
				})
			}, stage.Workers(1, 1))
			p := start(t, s)
			call := func(cmd int) error {
				_, err := stage.Call[int](soon(t), s, cmd)
				return err
			}
			require.NoError(t, call(1))
			actors := processes("worker-")
			require.Len(t, actors, 1)
			for n := range 20 {
				require.True(t, stage.Crashed(call(-1)))
				require.NoError(t, call(1))
				require.EqualValues(t, n+2, made.Load(), "each crash ends the instance")
			}
			require.Equal(t, actors, processes("worker-"), "no crash ends the actor")
			require.EqualValues(t, 20, p.Snapshot().Stages[0].Counts.Restarts)
			require.NoError(t, p.Stop(soon(t)))
			atRest(t, p)
		})
	}
}

// processes returns the processes of the tests' system whose names contain a text.
func processes(part string) (ids []string) {
	for _, bucket := range system().ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, id := range bucket.Keys() {
			if strings.Contains(id, part) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

type starter struct {
	err  func() error
	stop func()
}

func (s *starter) HandleCommand(ctx context.Context, cmd int) behaviour.Outcome {
	return poison(ctx, cmd)
}
func (s *starter) Start(context.Context) error { return s.err() }
func (s *starter) Stop() {
	if s.stop != nil {
		s.stop()
	}
}

// A single bad command among good ones does not fail the stage, whatever else happens to it meanwhile.
func TestAHundredThousandCommandsWithCrashesAndRescalingAreAllAccountedFor(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	var ok atomic.Int64
	end := stage.New("end", fn(func(context.Context, int) behaviour.Outcome { ok.Add(1); return behaviour.OK(nil) }), stage.Workers(1, 8))
	var dead atomic.Int64
	middle := stage.Each("middle", func() behaviour.Behaviour[int] {
		return fn(func(_ context.Context, cmd int) behaviour.Outcome {
			if cmd%100 == 99 {
				if cmd%200 == 99 {
					runtime.Goexit()
				}
				panic("one in a hundred")
			}
			return behaviour.Forward(end, cmd)
		})
	}, stage.Workers(1, 8), stage.Capacity(64))
	rnd := rand.New(rand.NewPCG(1, 2))
	p := start(t, middle, end,
		pipeline.DeadLetters(func(stage.DeadLetter) { dead.Add(1) }),
		pipeline.Control(rules{2 * time.Millisecond, func(s *controller.Snapshot, d *controller.Decisions) {
			for _, st := range s.Stages {
				controller.KnobWorkers.Set(d, st.ID, 1+rnd.IntN(8), "shaken")
			}
		}}))
	var wg sync.WaitGroup
	for part := range 4 {
		wg.Go(func() {
			for cmd := part; cmd < n; cmd += 4 {
				if err := middle.Submit(context.Background(), cmd); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	balancedInMotion(t, p, &wg)
	eventually(t, "the number of workers is shaken", func() bool { return len(p.Journal()) > 0 })
	require.NoError(t, p.Stop(soon(t)))
	atRest(t, p)
	s := p.Snapshot()
	require.EqualValues(t, n, s.Accepted)
	require.EqualValues(t, n-n/100, s.Replied)
	require.EqualValues(t, n/100, s.DeadLettered)
	require.EqualValues(t, n-n/100, ok.Load())
	require.EqualValues(t, n/100, dead.Load())
}

// balancedInMotion reads snapshots until wg is done; each must be balanced.
func balancedInMotion(t *testing.T, p *pipeline.Pipeline, wg *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); wg.Wait() }()
	var last pipeline.Snapshot
	until(done, func() {
		s := p.Snapshot()
		require.True(t, s.Balanced(), s.Law())
		require.GreaterOrEqual(t, s.Accepted, last.Accepted)
		require.GreaterOrEqual(t, s.Replied, last.Replied)
		require.Less(t, s.InFlight, uint64(1)<<40, "not below zero")
		last = s
	})
}

// A lost wake-up leaves commands that no worker takes; then Stop does not return.
func TestNoCommandIsStrandedWhateverTheCapacityAndTheWorkers(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	for _, capacity := range []int{1, 2, 3, 64} {
		for _, hands := range []int{1, 2, 8} {
			t.Run(fmt.Sprintf("capacity %d workers %d", capacity, hands), func(t *testing.T) {
				end := stage.New("end", fn(echo[int]), stage.Capacity(capacity), stage.Workers(hands, hands))
				first := stage.New("first", fn(func(_ context.Context, cmd int) behaviour.Outcome {
					if cmd%37 == 36 {
						panic("now and then")
					}
					return behaviour.Forward(end, cmd)
				}), stage.Capacity(capacity), stage.Workers(hands, hands))
				p := run(t, first, end)
				for round := range rounds {
					const producers, each = 4, 10
					var wg sync.WaitGroup
					for range producers {
						wg.Go(func() {
							for cmd := range each {
								if err := first.Submit(context.Background(), cmd+round); err != nil {
									t.Error(err)
								}
							}
						})
					}
					wg.Wait()
				}
				require.NoError(t, p.Drain(soon(t)))
				require.EqualValues(t, rounds*40, p.Snapshot().Accepted)
			})
		}
	}
}

func TestErrorTextsNameTheStage(t *testing.T) {
	s := stage.New("odd", fn(func(_ context.Context, cmd int) behaviour.Outcome {
		if cmd == 0 {
			return behaviour.Outcome{}
		}
		return behaviour.Error(errNo)
	}))
	run(t, s)
	_, err := stage.Call[int](soon(t), s, 0)
	require.ErrorIs(t, err, behaviour.ErrNoOutcome)
	require.True(t, strings.HasPrefix(err.Error(), `stage "odd": `), err)
	_, err = stage.Call[int](soon(t), s, 1)
	require.ErrorIs(t, err, errNo)
}
