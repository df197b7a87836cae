package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/stacks"
	"github.com/golda-dev/golda/stage"
)

func TestAHandlerThatWaitsHoldsNoWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := stage.Coroutine("sleep", func(c coroutine.Context, n int) behaviour.Outcome {
			if err := coroutine.Sleep(c, time.Second); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(n)
		}, one()...)
		p := run(t, s)
		begin := time.Now()
		var tickets []*stage.Ticket
		for i := range 1000 {
			tickets = append(tickets, ask(t, s, i))
		}
		synctest.Wait()
		snap := s.Snapshot()
		require.Equal(t, 1000, snap.Queue.Suspended)
		require.Equal(t, 1000, snap.Queue.InHand)
		require.Zero(t, snap.Queue.Queued)
		require.True(t, snap.Balanced())
		for i, ticket := range tickets {
			got, err := ticket.Wait(t.Context())
			require.NoError(t, err)
			require.Equal(t, i, got)
		}
		require.Equal(t, time.Second, time.Since(begin))
		stop(t, p)
	})
}

// Of a hundred suspended handlers two crash; the others are not affected.
func TestX8_WorkerSurvives(t *testing.T) {
	for name, crash := range map[string]func(){"panic": func() { panic("boom") }, "goexit": exit} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := stage.Coroutine("x8", func(c coroutine.Context, n int) behaviour.Outcome {
					err := coroutine.Sleep(c, time.Second)
					if n == 3 || n == 97 {
						crash()
					}
					return behaviour.OK(fmt.Sprint(n, err))
				}, one()...)
				p := run(t, s)
				var tickets []*stage.Ticket
				for i := range 102 {
					tickets = append(tickets, ask(t, s, i))
				}
				for i, ticket := range tickets {
					got, err := ticket.Wait(t.Context())
					if i != 3 && i != 97 {
						require.NoError(t, err)
						require.Equal(t, fmt.Sprint(i, nil), got)
						continue
					}
					crashed, ok := errors.AsType[*stage.CrashError](err)
					require.True(t, ok, err)
					require.Contains(t, string(crashed.Stack), "suspend_test.go")
					require.Contains(t, stacks.Place(crashed.Stack), "worker_test.")
					require.NotEmpty(t, crashed.Fingerprint())
				}
				snap := s.Snapshot()
				require.EqualValues(t, 2, snap.Counts.Crashes)
				require.EqualValues(t, 2, snap.Counts.DeadLettered)
				require.EqualValues(t, 100, snap.Counts.OK)
				stop(t, p)
			})
		})
	}
}

func TestACommandThatCrashesAfterASuspensionIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := stage.Coroutine("retry", func(c coroutine.Context, n int) behaviour.Outcome {
			if err := coroutine.Sleep(c, time.Second); err != nil {
				return behaviour.Error(err)
			}
			switch behaviour.Attempt(c) {
			case 1:
				panic("first")
			case 2:
				return behaviour.Error(errBoom)
			}
			return behaviour.OK(n * behaviour.Attempt(c))
		}, one(stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Second}))...)
		p := run(t, s)
		got, err := stage.Call[int](t.Context(), s, 7)
		require.NoError(t, err)
		require.Equal(t, 21, got)
		stop(t, p)
	})
}

func TestAtMostAsManyCommandsAreUnderWayAsThereAreInstances(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var now, most atomic.Int32
		s := stage.Coroutine("few", func(c coroutine.Context, _ int) behaviour.Outcome {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return behaviour.OK(coroutine.Sleep(c, time.Second))
		}, stage.Workers(3, 3), stage.Instances(7))
		p := run(t, s)
		begin := time.Now()
		var tickets []*stage.Ticket
		for i := range 70 {
			tickets = append(tickets, ask(t, s, i))
		}
		synctest.Wait()
		require.Equal(t, 63, s.Snapshot().Queue.Queued)
		require.Equal(t, 7, s.Snapshot().Queue.Suspended)
		for _, ticket := range tickets {
			_, err := ticket.Wait(t.Context())
			require.NoError(t, err)
		}
		require.EqualValues(t, 7, most.Load())
		require.Equal(t, 10*time.Second, time.Since(begin))
		stop(t, p)
	})
}

func TestACallBetweenStagesHoldsNoWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := stage.Coroutine("slow", func(c coroutine.Context, n int) behaviour.Outcome {
			if err := coroutine.Sleep(c, time.Second); err != nil {
				return behaviour.Error(err)
			}
			if n%10 == 0 {
				return behaviour.Error(errBoom)
			}
			return behaviour.OK(2 * n)
		}, one(stage.Capacity(2), stage.Instances(1000))...)
		front := stage.Coroutine("front", func(c coroutine.Context, n int) behaviour.Outcome {
			got, err := stage.Call[int](c, slow, n)
			if err != nil {
				return behaviour.Error(err)
			}
			ticket, err := slow.Ask(c, got+1)
			if err != nil {
				return behaviour.Error(err)
			}
			again, err := ticket.Wait(c)
			if err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(again)
		}, one()...)
		p := run(t, slow, front)
		begin := time.Now()
		var tickets []*stage.Ticket
		for i := range 300 {
			tickets = append(tickets, ask(t, front, i))
		}
		for i, ticket := range tickets {
			got, err := ticket.Wait(t.Context())
			if i%10 == 0 {
				require.ErrorIs(t, err, errBoom)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, 2*(2*i+1), got)
		}
		require.Equal(t, 2*time.Second, time.Since(begin))
		stop(t, p)
	})
}

func TestASuspendedHandlersTimeLimitEndsItsWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := stage.Coroutine("late", func(c coroutine.Context, d time.Duration) behaviour.Outcome {
			due, ok := c.Deadline()
			require.True(t, ok)
			require.Equal(t, time.Second, time.Until(due))
			err := coroutine.Sleep(c, d)
			if err != nil {
				require.ErrorIs(t, err, coroutine.ErrStopped)
				require.ErrorIs(t, context.Cause(c), stage.ErrTimeout)
				return behaviour.Error(err)
			}
			return behaviour.OK(1)
		}, one(stage.Timeout(time.Second))...)
		p := run(t, s)
		begin := time.Now()
		long, short := ask(t, s, time.Hour), ask(t, s, time.Millisecond)
		_, err := short.Wait(t.Context())
		require.NoError(t, err)
		_, err = long.Wait(t.Context())
		require.ErrorIs(t, err, stage.ErrTimeout)
		require.Contains(t, err.Error(), "1s")
		require.Equal(t, time.Second, time.Since(begin))
		require.EqualValues(t, 1, s.Snapshot().Counts.Errors)
		stop(t, p)
	})
}

func TestACallWithAContextOfItsOwnEndsWithItAndHoldsNoWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := stage.Coroutine("slow", func(c coroutine.Context, _ int) behaviour.Outcome {
			if err := coroutine.Sleep(c, time.Hour); err != nil { // the command ends with its caller's context
				return behaviour.Error(err)
			}
			return behaviour.OK(1)
		}, one()...)
		s := stage.Coroutine("caller", func(c coroutine.Context, n int) behaviour.Outcome {
			if n == 0 {
				return behaviour.OK(0)
			}
			ctx, cancel := context.WithTimeout(c, time.Second)
			defer cancel()
			_, err := stage.Call[int](coroutine.WithContext(ctx, c), slow, n)
			return behaviour.Error(err)
		}, one()...)
		p := run(t, slow, s)
		begin := time.Now()
		bound := ask(t, s, 1)
		_, err := stage.Call[int](t.Context(), s, 0)
		require.NoError(t, err)
		require.Zero(t, time.Since(begin), "the only worker was free")
		_, err = bound.Wait(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begin))
		stop(t, p)
	})
}

func TestAHandlerThatKeepsSuspendingAfterItsTimeLimitIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := stage.Coroutine("deaf", func(c coroutine.Context, _ int) behaviour.Outcome {
			for {
				_ = coroutine.Sleep(c, time.Hour)
			}
		}, one(stage.Timeout(time.Second))...)
		p := run(t, s)
		begin := time.Now()
		_, err := ask(t, s, 1).Wait(t.Context())
		var crash *stage.CrashError
		require.ErrorAs(t, err, &crash)
		require.Equal(t, coroutine.ErrIgnoredStop, crash.Value)
		require.Equal(t, time.Second, time.Since(begin))
		stop(t, p)
	})
}

func TestARunThatIsStuckIsGivenUpAndItsOutcomeIsDiscarded(t *testing.T) {
	for name, back := range map[string]func(c coroutine.Context){
		"returns": func(coroutine.Context) {},
		"suspends": func(c coroutine.Context) {
			assert.ErrorIs(t, coroutine.Sleep(c, time.Hour), coroutine.ErrStopped)
		},
		"yields": func(c coroutine.Context) {
			assert.ErrorIs(t, coroutine.Yield(c), coroutine.ErrStopped)
		},
		"panics": func(coroutine.Context) { panic("late") },
		"exits":  func(coroutine.Context) { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				free := make(chan struct{})
				var unwound atomic.Bool
				s := stage.Coroutine("stuck", func(c coroutine.Context, n int) behaviour.Outcome {
					if err := coroutine.Sleep(c, 100*time.Millisecond); err != nil {
						return behaviour.Error(err)
					}
					if n == 0 {
						defer unwound.Store(true)
						<-free
						back(c)
						return behaviour.OK("too late")
					}
					return behaviour.OK(n)
				}, one(stage.Timeout(time.Second), stage.Grace(time.Second))...)
				p := run(t, s)
				begin := time.Now()
				stuck, fine := ask(t, s, 0), ask(t, s, 1)
				_, err := stuck.Wait(t.Context())
				require.ErrorIs(t, err, stage.ErrStuck)
				require.Equal(t, 2*time.Second, time.Since(begin))
				crashed, _ := errors.AsType[*stage.CrashError](err)
				require.Contains(t, string(crashed.Stack), "suspend_test.go")
				got, err := fine.Wait(t.Context())
				if err != nil { // it waited behind the stuck one until its own time limit
					require.ErrorIs(t, err, stage.ErrTimeout)
				} else {
					require.Equal(t, 1, got)
				}
				require.Equal(t, 1, s.Snapshot().Workers.Abandoned)
				close(free)
				synctest.Wait()
				require.True(t, unwound.Load())
				require.Zero(t, s.Snapshot().Workers.Abandoned)
				stop(t, p)
			})
		})
	}
}

func TestAHardStopStopsSuspensionsAndTakesTheHandlersOutcomes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var unwound atomic.Int32
		s := stage.Coroutine("stop", func(c coroutine.Context, n int) behaviour.Outcome {
			defer unwound.Add(1)
			err := coroutine.Sleep(c, time.Hour)
			require.ErrorIs(t, err, coroutine.ErrStopped)
			require.ErrorIs(t, coroutine.Yield(c), coroutine.ErrStopped)
			switch n % 4 {
			case 0:
				return behaviour.OK("in time")
			case 1:
				panic("at the end")
			case 2:
				runtime.Goexit()
			}
			return behaviour.Error(err)
		}, one()...)
		p := run(t, s)
		var tickets []*stage.Ticket
		for i := range 100 {
			tickets = append(tickets, ask(t, s, i))
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, p.Stop(ctx))
		for i, ticket := range tickets {
			ended(t, ticket, strconv.Itoa(i))
			switch i % 4 {
			case 0:
				require.Equal(t, "in time", ticket.Result())
			case 1, 2:
				require.True(t, stage.Crashed(ticket.Err()), ticket.Err())
			default:
				require.ErrorIs(t, ticket.Err(), coroutine.ErrStopped)
			}
		}
		require.EqualValues(t, 100, unwound.Load())
		balanced(t, p)
	})
}

func TestADrainWaitsForSuspendedCommands(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := stage.Coroutine("drain", func(c coroutine.Context, _ int) behaviour.Outcome {
			return behaviour.OK(coroutine.Sleep(c, time.Minute))
		}, one()...)
		p := run(t, s)
		ticket := ask(t, s, 1)
		begin := time.Now()
		stop(t, p)
		require.Equal(t, time.Minute, time.Since(begin))
		ended(t, ticket, "drained")
		require.NoError(t, ticket.Err())
	})
}
