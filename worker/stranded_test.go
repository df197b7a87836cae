package worker_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// A worker that crashed has forwarded a command to a full stage, and the fresh instance cannot start. However the pipeline
// ends, the command must end too.
func TestACommandInTheOutboxOfACrashedWorkerEndsWithThePipeline(t *testing.T) {
	for name, restart := range map[string]stage.RestartPolicy{
		"the stage gives up":           {Limit: -1},
		"a hard stop during the pause": {Backoff: time.Hour, Max: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := make(chan struct{})
				full := stage.New("full", behaviour.Func[string](func(ctx context.Context, _ string) behaviour.Outcome {
					<-ctx.Done()
					return behaviour.OK(nil)
				}), one(stage.Capacity(1))...)
				var born atomic.Int32
				first := stage.Each("first", func() behaviour.Behaviour[string] {
					n := born.Add(1)
					return &handler{
						start: func(context.Context) error {
							if n > 1 {
								return errBoom
							}
							return nil
						},
						handle: func(_ context.Context, cmd string) behaviour.Outcome {
							switch cmd {
							case "gate":
								<-gate
								return behaviour.OK(nil)
							case "boom":
								panic(errBoom)
							}
							return behaviour.Forward(full, cmd)
						},
					}
				}, one(stage.Restart(restart))...)
				p := run(t, first, full)
				var tickets []*stage.Ticket
				for _, cmd := range []string{"gate", "1", "2", "3", "boom"} {
					tickets = append(tickets, ask(t, first, cmd))
				}
				close(gate)
				synctest.Wait()
				if restart.Limit == 0 {
					ctx, cancel := context.WithCancel(context.Background())
					cancel()
					require.Error(t, p.Stop(ctx))
				}
				<-p.Done()
				require.EqualValues(t, 2, born.Load(), "the test must reach the described state")
				for i, ticket := range tickets {
					ended(t, ticket, strconv.Itoa(i))
				}
				balanced(t, p)
			})
		})
	}
}

// A stage was told to have fewer workers, and its supervisor gave up before the others had left. The request was lost with
// them.
func TestARestartedStageHasAsManyWorkersAsAreWanted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hold := make(chan struct{})
		crash := make(chan struct{})
		s := stage.New("s", behaviour.Func[string](func(_ context.Context, cmd string) behaviour.Outcome {
			switch cmd {
			case "hold":
				<-hold
			case "crash":
				<-crash
				panic(errBoom)
			}
			return behaviour.OK(nil)
		}), stage.Workers(1, 4), stage.Restart(stage.RestartPolicy{Limit: -1}))
		p := run(t, s, pipeline.Intensity(5, time.Hour), pipeline.Grace(time.Hour))
		engine.CoreOf(s).Scale(part.Seal{}, 4)
		synctest.Wait()
		for _, cmd := range []string{"hold", "hold", "crash", "crash"} {
			require.NoError(t, s.Submit(t.Context(), cmd))
			synctest.Wait()
		}
		require.Equal(t, 4, s.Snapshot().Workers.Busy)
		engine.CoreOf(s).Scale(part.Seal{}, 1)
		synctest.Wait()
		close(crash)
		synctest.Wait()
		close(hold)
		synctest.Wait()
		require.NoError(t, p.Err())
		ticket := ask(t, s, "hello")
		synctest.Wait()
		require.Equal(t, 1, s.Snapshot().Workers.Live)
		ended(t, ticket, "hello")
		stop(t, p)
	})
}

// A stage's supervisor gave up when more workers held commands for a full stage than the stage has after the restart.
func TestCommandsInTheOutboxesOfWorkersThatARestartedStageDoesNotNeedAreDelivered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		crash := make(chan struct{})
		full := stage.New("full", behaviour.Func[string](func(context.Context, string) behaviour.Outcome {
			<-gate
			return behaviour.OK(nil)
		}), one(stage.Capacity(1))...)
		first := stage.New("first", behaviour.Func[string](func(_ context.Context, cmd string) behaviour.Outcome {
			if cmd == "crash" {
				<-crash
				panic(errBoom)
			}
			return behaviour.Forward(full, cmd)
		}), stage.Workers(1, 8), stage.Restart(stage.RestartPolicy{Limit: -1}))
		p := run(t, full, first, pipeline.Intensity(5, time.Hour), pipeline.Grace(time.Hour), pipeline.Supervise(supervisor.OneForOne))
		engine.CoreOf(first).Scale(part.Seal{}, 6)
		synctest.Wait()
		var tickets []*stage.Ticket
		for i := range 6 { // one is being handled, one is queued, workers hold four
			tickets = append(tickets, ask(t, first, strconv.Itoa(i)))
			synctest.Wait()
		}
		for range 2 {
			require.NoError(t, first.Submit(t.Context(), "crash"))
			synctest.Wait()
		}
		engine.CoreOf(first).Scale(part.Seal{}, 1)
		synctest.Wait()
		close(crash)
		synctest.Wait()
		close(gate)
		synctest.Wait()
		require.NoError(t, p.Err())
		for i, ticket := range tickets {
			ended(t, ticket, strconv.Itoa(i))
		}
		stop(t, p)
	})
}

func TestARetryConditionThatEndsItsGoroutineMeansNoRetry(t *testing.T) {
	for name, outcome := range map[string]func() behaviour.Outcome{
		"after an error": func() behaviour.Outcome { return behaviour.Error(errBoom) },
		"after a crash":  func() behaviour.Outcome { panic(errBoom) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := stage.New("s", behaviour.Func[string](func(_ context.Context, cmd string) behaviour.Outcome {
					if cmd == "bad" {
						return outcome()
					}
					return behaviour.OK(nil)
				}), one(stage.Retry(stage.RetryPolicy{Attempts: 3, If: func(error) bool { exit(); return true }}))...)
				p := run(t, s)
				bad := ask(t, s, "bad")
				good := ask(t, s, "good")
				synctest.Wait()
				ended(t, good, "good")
				ended(t, bad, "bad")
				require.ErrorIs(t, bad.Err(), errBoom)
				stop(t, p)
			})
		})
	}
}

func TestASubscriberThatEndsItsGoroutineDoesNotAffectTheStage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := stage.New("s", behaviour.Func[string](func(_ context.Context, cmd string) behaviour.Outcome {
			if cmd == "bad" {
				panic(errBoom)
			}
			return behaviour.OK(nil)
		}), one()...)
		p := run(t, s, pipeline.DeadLetters(func(stage.DeadLetter) { exit() }))
		bad := ask(t, s, "bad")
		synctest.Wait()
		good := ask(t, s, "good")
		synctest.Wait()
		ended(t, good, "good")
		ended(t, bad, "bad")
		require.EqualValues(t, 1, s.Snapshot().Counts.Restarts, "the instance that crashed is discarded")
		stop(t, p)
	})
}

// A stage that gave up and was restarted counts crashes from zero: a single crash is no reason to give up again.
func TestARestartedStageCountsCrashesFromZero(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := stage.New("s", behaviour.Func[string](func(_ context.Context, cmd string) behaviour.Outcome {
			if cmd == "bad" {
				panic(errBoom)
			}
			return behaviour.OK(nil)
		}), one(stage.Restart(stage.RestartPolicy{Limit: 3}))...)
		p := run(t, s, pipeline.Intensity(1, time.Hour))
		for range 5 { // one for the worker, three that are endured, and one more
			require.NoError(t, s.Submit(t.Context(), "bad"))
		}
		time.Sleep(10 * time.Second)
		require.NoError(t, s.Submit(t.Context(), "bad"))
		time.Sleep(10 * time.Second)
		require.NoError(t, p.Err())
		stop(t, p)
	})
}

func TestCommandsEmittedBeyondTheLimitDoNotOvertakeForwardedOnes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate, open := make(chan struct{}), make(chan struct{})
		var log seen
		next := stage.New("next", behaviour.Func[string](func(_ context.Context, cmd string) behaviour.Outcome {
			<-open
			log.note(cmd)
			return behaviour.OK(nil)
		}), one(stage.Capacity(1))...)
		first := stage.New("first", behaviour.Func[string](func(ctx context.Context, cmd string) behaviour.Outcome {
			switch cmd {
			case "gate":
				<-gate
				return behaviour.OK(nil)
			case "burst":
				for i := range 300 {
					if err := behaviour.Emit(ctx, next, "e"+strconv.Itoa(i)); err != nil {
						return behaviour.Error(err)
					}
				}
				return behaviour.OK(nil)
			}
			return behaviour.Forward(next, cmd)
		}), one()...)
		p := run(t, first, next)
		for _, cmd := range []string{"gate", "1", "2", "3", "burst"} {
			require.NoError(t, first.Submit(t.Context(), cmd))
		}
		close(gate)
		synctest.Wait()
		close(open)
		stop(t, p)
		want := []string{"1", "2", "3"}
		for i := range 300 {
			want = append(want, "e"+strconv.Itoa(i))
		}
		require.Equal(t, want, log.all())
	})
}

func TestAnInstanceThatDoesNotStopIsNamedInTheReport(t *testing.T) {
	bubble(t, func(t *testing.T) {
		free := make(chan struct{})
		s := stage.Each("sticky", func() behaviour.Behaviour[string] {
			return &handler{
				handle: func(context.Context, string) behaviour.Outcome { return behaviour.OK(nil) },
				stop:   func() { <-free },
			}
		}, one()...)
		p := run(t, s)
		err := p.Stop(context.Background())
		require.ErrorContains(t, err, "sticky")
		close(free)
	})
}

func TestAGraceOfZeroIsEnoughForAnIdlePipeline(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T) {
			s := stage.New("s", behaviour.Func[string](func(context.Context, string) behaviour.Outcome {
				return behaviour.OK(nil)
			}), stage.Workers(4, 4))
			p := run(t, s, pipeline.Grace(0))
			stop(t, p)
		})
	}
}

// A worker of "first" is parked at a full stage when its own stage is restarted. Another worker takes its place and its
// commands. The full stage must not reserve a slot for the worker that has gone.
func TestAStageAdmitsCallersAfterAStageThatWaitedForItWasRestarted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate, crash := make(chan struct{}), make(chan struct{})
		full := stage.New("full", behaviour.Func[string](func(context.Context, string) behaviour.Outcome {
			<-gate
			return behaviour.OK(nil)
		}), one(stage.Capacity(1))...)
		first := stage.New("first", behaviour.Func[string](func(_ context.Context, cmd string) behaviour.Outcome {
			if cmd == "crash" {
				<-crash
				panic(errBoom)
			}
			return behaviour.Forward(full, cmd)
		}), stage.Workers(3, 3), stage.Restart(stage.RestartPolicy{Limit: -1}))
		p := run(t, full, first, pipeline.Intensity(5, time.Hour), pipeline.Grace(time.Hour), pipeline.Supervise(supervisor.OneForOne))
		for _, cmd := range []string{"1", "2", "3", "crash", "crash", "crash", "crash"} {
			require.NoError(t, first.Submit(t.Context(), cmd))
			synctest.Wait()
		}
		close(crash)
		time.Sleep(time.Minute)
		require.NoError(t, p.Err())
		close(gate)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range 5 {
			require.NoError(t, full.Submit(ctx, "from outside"))
		}
		stop(t, p)
	})
}
