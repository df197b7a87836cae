package rpc_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/coordination/transport"
)

// TestTheEndOfASynchronizerHoldsItsOwnMethodsOnly ends the node of S1 while an atomic rule of S1 has the lock of A and waits for the answer
// of B.
func TestTheEndOfASynchronizerHoldsItsOwnMethodsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub transport.Hub
		n, m, o := nodeOn(t, hub.Join("n")), nodeOn(t, hub.Join("m")), nodeOn(t, hub.Join("o"))
		a, c := spawnCounting(t, m, "A", "x", "y", "m", "free"), spawnCounting(t, m, "C", "y")
		let := make(chan none)
		free := sync.OnceFunc(func() { close(let) })
		t.Cleanup(free)
		b := spawn(t, o, "B", func(p *rpc.Process) {
			rpc.Func(p, "x", func(coroutine.Context, none) (none, error) { return none{}, nil })
			rpc.Func(p, "block", func(coroutine.Context, none) (none, error) {
				<-let
				return none{}, nil
			})
		})
		s1 := func(n *rpc.Node) {
			must(n.Synchronize(t.Context(), "S1", func(s *synchronizer.Synchronizer) {
				s.Atomic(synchronizer.Event{Of: n.Remote("m", "A"), Method: "x"}, synchronizer.Event{Of: n.Remote("o", "B"), Method: "x"})
			}))
		}
		s1(n)
		must(m.Synchronize(t.Context(), "S2", func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", always) }))
		must(m.Synchronize(t.Context(), "S3", func(s *synchronizer.Synchronizer) {
			s.Atomic(synchronizer.Event{Of: a, Method: "y"}, synchronizer.Event{Of: c, Method: "y"})
		}))
		future := func(of rpc.Address, method string) *rpc.Future[none] {
			return rpc.At[none, none](of, method).Future(context.Background(), none{})
		}
		bx := future(b, "x")
		synctest.Wait()
		blocked := future(b, "block")
		synctest.Wait()
		ax := future(a, "x")
		synctest.Wait()
		held := future(a, "free")
		synctest.Wait()
		require.False(t, held.Done(), "A has granted the lock")

		require.NoError(t, n.Close())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.True(t, held.Done())
		passes(t, a, "m")
		ay, cy := future(a, "y"), future(c, "y")
		must(ay.Wait(blocking(t)))
		must(cy.Wait(blocking(t)))
		assert.False(t, ax.Done() || bx.Done(), "the rule has not happened")

		free()
		must(blocked.Wait(blocking(t)))
		s1(nodeOn(t, hub.Join("n")))
		must(ax.Wait(blocking(t)))
		must(bx.Wait(blocking(t)))
	})
}

// TestARuleCountsWhatAnAtomicRuleRuns holds back a method while a method with an atomic rule runs.
func TestARuleCountsWhatAnAtomicRuleRuns(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			in, let := make(chan none), make(chan none)
			a := spawn(t, m, "A", func(p *rpc.Process) {
				rpc.Func(p, "x", func(c coroutine.Context, _ none) (none, error) {
					close(in)
					return coroutine.Await(c, receive(let))
				})
			})
			b, c := spawnCounting(t, m, "B", "x"), spawnCounting(t, m, "C", "m")
			asked, found := make(chan bool, 100), make(chan guard.Counters, 1)
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
				s.Atomic(synchronizer.Event{Of: a, Method: "x"}, synchronizer.Event{Of: b, Method: "x"})
				s.Trigger(a, "x", synchronizer.Accepted, func(guard.Request) { found <- s.Count(a, "x") })
				s.Constrain(c, "m", func(guard.Request) bool {
					idle := s.Count(a, "x").Current == 0
					asked <- idle
					return idle
				})
			}))
			future := func(of rpc.Address, method string) *rpc.Future[none] {
				return rpc.At[none, none](of, method).Future(context.Background(), none{})
			}
			ax, bx := future(a, "x"), future(b, "x")
			<-in
			assert.Equal(t, guard.Counters{Invocations: 1, Accepted: 1, Current: 1}, <-found)
			held := future(c, "m")
			assert.False(t, <-asked)
			let <- none{}
			must(ax.Wait(blocking(t)))
			must(bx.Wait(blocking(t)))
			must(held.Wait(blocking(t)))
		})
	}
}
