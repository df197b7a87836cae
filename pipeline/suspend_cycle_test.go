package pipeline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// callers returns two stages, each of which calls the other, n times in all, and answers n.
func callers(opts ...stage.Option) (ping, pong *stage.Stage[int]) {
	calls := func(other **stage.Stage[int]) func(c coroutine.Context, n int) behaviour.Outcome {
		return func(c coroutine.Context, n int) behaviour.Outcome {
			if n == 0 {
				return behaviour.OK(0)
			}
			got, err := stage.Call[int](c, *other, n-1)
			if err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(got + 1)
		}
	}
	ping = stage.Coroutine("ping", calls(&pong), opts...)
	pong = stage.Coroutine("pong", calls(&ping), opts...)
	return ping, pong
}

// A worker never waits for a call, so stages that wait for one another need one worker each, or one for both, however deep the calls
// are. They do need instances.
func TestStagesThatCallOneAnotherDoNotWaitForWorkers(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		ping, pong := callers(stage.Workers(1, 1))
		p := bubble(t, ping, pong, way)
		begin := time.Now()
		var tickets []*stage.Ticket
		for n := range 50 {
			ticket, err := []*stage.Stage[int]{ping, pong}[n%2].Ask(t.Context(), n)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		for n, ticket := range tickets {
			got, err := ticket.Wait(soon(t))
			require.NoError(t, err)
			require.Equal(t, n, got)
		}
		require.Zero(t, time.Since(begin))
		require.NoError(t, p.Stop(t.Context()))
		atRest(t, p)
	})
}

func TestAStageThatCallsItselfDoesNotWaitForAWorker(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		var fib *stage.Stage[int]
		fib = stage.Coroutine("fib", func(c coroutine.Context, n int) behaviour.Outcome {
			if n < 2 {
				return behaviour.OK(n)
			}
			sum := 0
			for _, less := range []int{1, 2} {
				got, err := stage.Call[int](c, fib, n-less)
				if err != nil {
					return behaviour.Error(err)
				}
				sum += got
			}
			return behaviour.OK(sum)
		}, stage.Workers(1, 1))
		p := bubble(t, fib, way)
		got, err := stage.Call[int](t.Context(), fib, 12)
		require.NoError(t, err)
		require.Equal(t, 144, got)
		require.NoError(t, p.Stop(t.Context()))
	})
}

// One of the two edges between the stages is a back edge, where a handler does not wait for a free slot: if the queue is full, its call is
// refused, because otherwise the handlers could wait for one another's slots.
func TestACallAlongABackEdgeIsRefusedIfTheQueueIsFull(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		ping, pong := callers(stage.Workers(1, 1), stage.Capacity(1))
		p := bubble(t, ping, pong, way)
		var tickets []*stage.Ticket
		for n := range 50 {
			ticket, err := []*stage.Stage[int]{ping, pong}[n%2].Ask(t.Context(), n)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		refused := 0
		for n, ticket := range tickets {
			got, err := ticket.Wait(soon(t))
			if err != nil {
				require.ErrorIs(t, err, stage.ErrFull)
				refused++
				continue
			}
			require.Equal(t, n, got)
		}
		require.Positive(t, refused)
		require.NoError(t, p.Stop(t.Context()))
		atRest(t, p)
	})
}

// When all instances of the stages wait for one another, no handler can continue. That is a deadlock like any cycle of waits. The time limit
// ends it: the oldest call fails, and the others continue.
func TestACycleOfCallsWithoutFreeInstancesEndsWithItsTimeLimit(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		ping, pong := callers(stage.Workers(1, 1), stage.Instances(3), stage.Timeout(time.Minute))
		p := bubble(t, ping, pong, way)
		deep, err := ping.Ask(t.Context(), 20)
		require.NoError(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []int{3, 3}, []int{ping.Snapshot().Queue.Suspended, pong.Snapshot().Queue.Suspended}, "as many as there may be")
		require.Equal(t, 1, ping.Snapshot().Queue.Queued, "and the one that all wait for")
		next, err := pong.Ask(t.Context(), 2)
		require.NoError(t, err)
		_, err = deep.Wait(t.Context())
		require.ErrorIs(t, err, stage.ErrTimeout)
		got, err := next.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, got)
		require.NoError(t, p.Stop(t.Context()))
		atRest(t, p)
	})
}

// Two wait for a slot in the same stage: a suspended handler that submits there, and the only worker of its own stage, which has to hand
// over what another handler forwarded. A slot that was kept for the handler would be missing for the worker, which the handler
// needs in order to continue.
func TestASuspendedHandlerDoesNotKeepASlotFromTheWorkerThatItNeeds(t *testing.T) {
	for name, submit := range map[string]func(c coroutine.Context, to *stage.Stage[int], n int) error{
		"submit": func(c coroutine.Context, to *stage.Stage[int], n int) error { return to.Submit(c, n) },
		"call": func(c coroutine.Context, to *stage.Stage[int], n int) error {
			_, err := stage.Call[int](c, to, n)
			return err
		},
		"emit": func(c coroutine.Context, to *stage.Stage[int], n int) error {
			for range 100 { // more than a worker holds
				if err := behaviour.Emit(c, to, n); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				slow := stage.Func("slow", func(_ context.Context, n int) behaviour.Outcome {
					time.Sleep(time.Millisecond)
					return behaviour.OK(n)
				}, stage.Workers(1, 1), stage.Capacity(2), stage.Batch(1))
				s := stage.Coroutine("s", func(c coroutine.Context, n int) behaviour.Outcome {
					if n%2 == 0 {
						return behaviour.Forward(slow, n)
					}
					if err := submit(c, slow, n); err != nil {
						return behaviour.Error(err)
					}
					return behaviour.OK(n)
				}, stage.Workers(1, 1), stage.Batch(1))
				p := bubble(t, s, slow, way)
				var tickets []*stage.Ticket
				for n := range 20 {
					ticket, err := s.Ask(t.Context(), n)
					require.NoError(t, err)
					tickets = append(tickets, ticket)
				}
				for n, ticket := range tickets {
					got, err := ticket.Wait(soon(t))
					require.NoError(t, err)
					require.Equal(t, n, got)
				}
				require.NoError(t, p.Stop(t.Context()))
				atRest(t, p)
			})
		})
	}
}
