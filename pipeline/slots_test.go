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

// diamond is a pipeline of three stages whose handlers suspend: a forwards to b, and both call leaf. A command of leaf waits until
// open is closed. Stage a forwards numbers above 0; for 0 it calls leaf.
type diamond struct {
	a, b, leaf *stage.Stage[int]
	open       chan struct{}
}

func newDiamond() *diamond {
	d := &diamond{open: make(chan struct{})}
	one := []stage.Option{stage.Workers(1, 1), stage.Capacity(1)}
	d.leaf = stage.Func("leaf", func(_ context.Context, n int) behaviour.Outcome {
		<-d.open
		return behaviour.OK(n)
	}, one...)
	calls := func(c coroutine.Context, n int) behaviour.Outcome {
		got, err := stage.Call[int](c, d.leaf, n)
		if err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(got)
	}
	d.b = stage.Coroutine("b", calls, append(one, stage.Instances(1))...)
	d.a = stage.Coroutine("a", func(c coroutine.Context, n int) behaviour.Outcome {
		if n > 0 {
			return behaviour.Forward(d.b, n)
		}
		return calls(c, n)
	}, stage.Workers(1, 1))
	return d
}

// A free slot of leaf must not go to the call of a's handler: the only worker of a waits for a slot of b, and the only handler of b waits
// for a slot of leaf.
func TestAHandlerThatCannotRunNeverHoldsASlot(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		d := newDiamond()
		p := bubble(t, pipeline.Subgraph(d.a, d.b, d.leaf))
		var tickets []*stage.Ticket
		ask := func(s *stage.Stage[int], n int) {
			ticket, err := s.Ask(t.Context(), n)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
			synctest.Wait()
		}
		ask(d.leaf, 0) // in hand
		ask(d.leaf, 0) // takes the slot
		ask(d.a, 0)    // calls leaf, and waits for a slot
		ask(d.b, 0)    // calls leaf, and waits behind it, in b's only instance
		ask(d.b, 0)    // takes the slot of b
		ask(d.a, 1)    // is forwarded to b: the worker of a waits for a slot
		close(d.open)
		for i, ticket := range tickets {
			_, err := ticket.Wait(soon(t))
			require.NoError(t, err, "command %d", i)
		}
		require.NoError(t, p.Stop(t.Context()))
		atRest(t, p)
	})
}

// While the pipeline drains, handlers that the drain unblocked from waiting for leaf come back when leaf is empty already. No worker of leaf
// will free a slot for them, and they need none.
func TestADrainEndsAlthoughHandlersWaitAtAFullStage(t *testing.T) {
	for name, end := range map[string]func(*pipeline.Pipeline, context.Context) error{
		"Stop":  func(p *pipeline.Pipeline, ctx context.Context) error { return p.Stop(ctx) },
		"Drain": func(p *pipeline.Pipeline, ctx context.Context) error { return p.Drain(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				d := newDiamond()
				hold := make(chan struct{})
				d.a = stage.Coroutine("a", func(c coroutine.Context, n int) behaviour.Outcome {
					if n > 0 {
						<-hold // holds the worker
						return behaviour.OK(n)
					}
					got, err := stage.Call[int](c, d.leaf, n)
					if err != nil {
						return behaviour.Error(err)
					}
					return behaviour.OK(got)
				}, stage.Workers(1, 1))
				p := bubble(t, pipeline.Subgraph(d.a, d.leaf))
				var tickets []*stage.Ticket
				for i, n := range []int{0, 0, 0, 0, 1} { // one in hand, one in the slot, two wait, and one holds the worker
					ticket, err := d.a.Ask(t.Context(), n)
					require.NoError(t, err, i)
					tickets = append(tickets, ticket)
					synctest.Wait()
				}
				stopped := make(chan error, 1)
				ctx := soon(t)
				go func() { stopped <- end(p, ctx) }()
				synctest.Wait()
				close(d.open)
				synctest.Wait()
				close(hold)
				require.NoError(t, <-stopped)
				for i, ticket := range tickets {
					_, err := ticket.Wait(soon(t))
					require.NoError(t, err, "command %d", i)
				}
				require.NoError(t, p.Stop(soon(t)))
				atRest(t, p)
			})
		})
	}
}

// The only worker of a holds as many commands for b as it may, and b takes none. A handler of a that was suspended meanwhile needs the worker
// for a moment, and gets it; commands that have not started wait.
func TestASuspendedHandlerContinuesWhileItsWorkerWaitsForASlot(t *testing.T) {
	for name, batch := range map[string]int{"one by one": 1, "in batches": 16} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				open := make(chan struct{})
				b := stage.Func("b", func(_ context.Context, n int) behaviour.Outcome {
					<-open
					return behaviour.OK(n)
				}, stage.Workers(1, 1), stage.Capacity(1))
				begun := 0
				a := stage.Coroutine("a", func(c coroutine.Context, n int) behaviour.Outcome {
					begun++
					if n > 0 {
						return behaviour.Forward(b, n)
					}
					for range 3 {
						if err := coroutine.Sleep(c, time.Second); err != nil {
							return behaviour.Error(err)
						}
					}
					return behaviour.OK(n)
				}, stage.Workers(1, 1), stage.Capacity(4), stage.Batch(batch))
				p := bubble(t, pipeline.Subgraph(a, b))
				begin := time.Now()
				sleeps, err := a.Ask(t.Context(), 0)
				require.NoError(t, err)
				answered := make(chan error, 30)
				for n := range 30 {
					go func() {
						_, err := stage.Call[int](t.Context(), a, n+1)
						answered <- err
					}()
				}
				got, err := sleeps.Wait(soon(t))
				require.NoError(t, err)
				require.Equal(t, 0, got)
				require.Equal(t, 3*time.Second, time.Since(begin))
				require.Less(t, begun, 20, "what a holds for b is bounded")
				require.Empty(t, answered)
				close(open)
				for range 30 {
					require.NoError(t, <-answered)
				}
				require.NoError(t, p.Stop(t.Context()))
				atRest(t, p)
			})
		})
	}
}
