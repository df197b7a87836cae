package rpc_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
)

// gate is a rule that a test opens and closes, by functions of a process that have triggers.
func spawnGate(t testing.TB, n *rpc.Node, name string) rpc.Address {
	t.Helper()
	return spawn(t, n, name, func(p *rpc.Process) {
		rpc.Func(p, "open", func(coroutine.Context, none) (none, error) { return none{}, nil })
	})
}

// counted returns the counters of a process's function, as its process sees them.
func counted(t testing.TB, of rpc.Address) guard.Counters {
	t.Helper()
	return must(rpc.At[none, guard.Counters](of, "counters").Call(blocking(t), none{}))
}

// spawnCounting starts a process with functions that do nothing, and one that returns the counters of the first.
func spawnCounting(t testing.TB, n *rpc.Node, name string, functions ...string) rpc.Address {
	t.Helper()
	return spawn(t, n, name, func(p *rpc.Process) {
		for _, f := range functions {
			rpc.Func(p, f, func(coroutine.Context, none) (none, error) { return none{}, nil })
		}
		rpc.Func(p, "counters", func(coroutine.Context, none) (guard.Counters, error) { return p.Count(functions[0]), nil })
	})
}

// TestS002_8_Verdicts is its third part: S1 agrees and S2 does not. S1 runs no trigger, is free for others, and the request is verified
// again when S2 changes.
func TestS002_8_Verdicts(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			a, b := spawnCounting(t, n, "A", "m"), spawnCounting(t, m, "B", "m")
			gate := spawnGate(t, m, "gate")
			var triggers atomic.Int32
			must(n.Synchronize(t.Context(), "S1", func(s *synchronizer.Synchronizer) {
				s.Trigger(a, "m", synchronizer.Accepted, func(guard.Request) { triggers.Add(1) })
				s.Constrain(b, "m", func(guard.Request) bool { return true })
			}))
			refused := make(chan none, 100)
			must(m.Synchronize(t.Context(), "S2", func(s *synchronizer.Synchronizer) {
				s.Constrain(a, "m", func(guard.Request) bool {
					open := s.Count(gate, "open").Completed > 0
					if !open {
						refused <- none{}
					}
					return open
				})
			}))
			waits := rpc.At[none, none](a, "m").Future(t.Context(), none{})
			<-refused
			must(rpc.At[none, none](n.Remote(b.Node(), "B"), "m").Call(blocking(t), none{})) // S1 is free
			assert.Equal(t, guard.Counters{Invocations: 1, Pending: 1}, counted(t, a))
			assert.Zero(t, triggers.Load())
			must(rpc.At[none, none](n.Remote(gate.Node(), "gate"), "open").Call(blocking(t), none{}))
			must(waits.Wait(blocking(t)))
			becomes(t, 1, triggers.Load) // the commit is a message
		})
	}
}

// TestS002_10_DeadlockAvoidance has three processes ask two synchronizers, as often as they can.
func TestS002_10_DeadlockAvoidance(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			var members []synchronizer.Member
			var all []rpc.Ref[none, none]
			for i := range 3 {
				at := []*rpc.Node{n, m}[i%2]
				a := spawnCounting(t, at, fmt.Sprint("P", i), "m")
				members = append(members, a)
				all = append(all, rpc.At[none, none](n.Remote(a.Node(), a.Process()), "m"))
			}
			var triggers [2]atomic.Int32
			for i, at := range []*rpc.Node{n, m} {
				must(at.Synchronize(t.Context(), fmt.Sprint("S", i), func(s *synchronizer.Synchronizer) {
					for _, p := range members {
						s.Constrain(p, "m", func(guard.Request) bool { return true })
						s.Trigger(p, "m", synchronizer.Accepted, func(guard.Request) { triggers[i].Add(1) })
					}
				}))
			}
			const calls = 20
			var wg sync.WaitGroup
			for _, f := range all {
				for range calls {
					wg.Go(func() {
						_, err := f.Call(blocking(t), none{})
						assert.NoError(t, err)
					})
				}
			}
			wg.Wait()
			becomes(t, 3*calls, triggers[0].Load)
			becomes(t, 3*calls, triggers[1].Load)
		})
	}
}

const philosophers = 5

// table is figure 11: a fork between each two philosophers. Both are picked up or none.
type table struct {
	of      *rpc.Node
	forks   [philosophers]rpc.Address
	mu      sync.Mutex
	holders [philosophers]int // 0 for none
}

// layTable starts forks, in turn on the nodes, and the synchronizers of the first.
func layTable(t testing.TB, nodes ...*rpc.Node) *table {
	t.Helper()
	tb := &table{of: nodes[0]}
	for i := range tb.forks {
		tb.forks[i] = spawn(t, nodes[i%len(nodes)], fmt.Sprint("fork", i), tb.fork(t, i))
	}
	for i := range philosophers {
		mine := func(r guard.Request) bool { return synchronizer.Args[int](r) == i+1 }
		must(tb.of.Synchronize(t.Context(), fmt.Sprint("indivisiblePickup", i), func(s *synchronizer.Synchronizer) {
			s.Atomic(synchronizer.Event{Of: tb.forks[i], Method: "pickup", If: mine},
				synchronizer.Event{Of: tb.forks[(i+1)%philosophers], Method: "pickup", If: mine})
		}))
	}
	return tb
}

// fork is the init of a fork.
func (tb *table) fork(t testing.TB, i int) func(p *rpc.Process) {
	t.Helper()
	return func(p *rpc.Process) {
		holder := 0
		take := func(from, to int) func(coroutine.Context, int) (none, error) {
			return func(_ coroutine.Context, who int) (none, error) {
				tb.mu.Lock()
				defer tb.mu.Unlock()
				assert.Equal(t, from*who, tb.holders[i])
				holder, tb.holders[i] = to*who, to*who
				return none{}, nil
			}
		}
		rpc.Func(p, "pickup", take(0, 1))
		rpc.Func(p, "putdown", take(1, 0))
		p.Guard("pickup", func(func(string) guard.Counters) bool { return holder == 0 })
		p.RequestGuard("putdown", func(r guard.Request, _ func(string) guard.Counters) bool { return r.Args == holder })
	}
}

// dine has each philosopher have so many meals.
func (tb *table) dine(t testing.TB, meals int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range philosophers {
		wg.Go(func() {
			for range meals {
				tb.both(t, i, "pickup")
				tb.both(t, i, "putdown")
			}
		})
	}
	wg.Wait()
}

// both calls a function of both forks of a philosopher.
func (tb *table) both(t testing.TB, i int, method string) {
	t.Helper()
	c := coroutine.Blocking(t.Context())
	var calls []*rpc.Future[none]
	for _, fork := range []rpc.Address{tb.forks[i], tb.forks[(i+1)%philosophers]} {
		at := tb.of.Remote(fork.Node(), fork.Process())
		calls = append(calls, rpc.At[int, none](at, method).Future(c, i+1))
	}
	for _, call := range calls {
		_, err := call.Wait(c)
		assert.NoError(t, err)
	}
}

// TestX2_AtomicPhilosophers is figure 11.
func TestX2_AtomicPhilosophers(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			layTable(t, n, m).dine(t, 20)
		})
	}
}

// TestX4_SynchronizerRestart crashes the synchronizer of figure 19 again and again while clients use the resources.
func TestX4_SynchronizerRestart(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			rs := spawnResources(t, 4, n, m)
			var evaluated, started atomic.Int32
			one := oneAtATime(rs.members())
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
				started.Add(1)
				one(s)
				for _, r := range rs.of {
					s.Constrain(r, "turn_on", func(guard.Request) bool {
						if evaluated.Add(1)%17 == 0 {
							panic("a fault in a rule")
						}
						return true
					})
				}
			}))
			rs.switchAll(t, n, 10)
			assert.Equal(t, 1, rs.max)
			assert.Len(t, rs.log, 40)
			assert.Greater(t, started.Load(), int32(1))
		})
	}
}

// TestX5_TriggerPhases has methods that take a second: if what is on were counted when turn_off is accepted, two would be on.
func TestX5_TriggerPhases(t *testing.T) {
	for _, phase := range []synchronizer.Phase{synchronizer.Accepted, synchronizer.Completed} {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := aNode(t)
				on, most := 0, 0 // functions of one node run on several goroutines, and so mu guards them
				var mu sync.Mutex
				var all []rpc.Address
				for i := range 5 {
					all = append(all, spawn(t, n, fmt.Sprint("R", i), func(p *rpc.Process) {
						change := func(begin, end int) func(c coroutine.Context, _ none) (none, error) {
							return func(c coroutine.Context, _ none) (none, error) {
								add := func(d int) {
									mu.Lock()
									defer mu.Unlock()
									on += d
									most = max(most, on)
								}
								add(begin)
								err := coroutine.Sleep(c, time.Second)
								add(end)
								return none{}, err
							}
						}
						rpc.Func(p, "turn_on", change(1, 0))
						rpc.Func(p, "turn_off", change(0, -1))
					}))
				}
				must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
					isOn := false
					for _, r := range all {
						s.Constrain(r, "turn_on", func(guard.Request) bool { return !isOn })
						s.Trigger(r, "turn_on", synchronizer.Accepted, func(guard.Request) { isOn = true })
						s.Trigger(r, "turn_off", phase, func(guard.Request) { isOn = false })
					}
				}))
				start := time.Now()
				var wg sync.WaitGroup
				for _, r := range all {
					wg.Go(func() {
						c := coroutine.Blocking(t.Context())
						for range 3 {
							must(rpc.At[none, none](r, "turn_on").Call(c, none{}))
							must(rpc.At[none, none](r, "turn_off").Call(c, none{}))
						}
					})
				}
				wg.Wait()
				if phase == synchronizer.Accepted {
					assert.Greater(t, most, 1, "one is turned on while another is turned off")
					return
				}
				assert.Equal(t, 1, most)
				assert.Equal(t, 30*time.Second, time.Since(start), "each of the 15 is on for as long as its functions take, and no longer")
			})
		})
	}
}

// TestX7_NoLostNotification has S1 open for m1 while S2 verifies m2: the notification meets a process that waits for S2.
func TestX7_NoLostNotification(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			p := spawnCounting(t, n, "P", "m1", "m2")
			gate := spawnGate(t, m, "gate")
			refused, notified := make(chan none, 10), make(chan none, 10)
			must(m.Synchronize(t.Context(), "S1", func(s *synchronizer.Synchronizer) {
				open := false
				s.Constrain(p, "m1", func(guard.Request) bool {
					if open {
						notified <- none{} // the synchronizer evaluates the constraint, to see whether P is to be notified
					} else {
						refused <- none{}
					}
					return open
				})
				s.Trigger(gate, "open", synchronizer.Completed, func(guard.Request) { open = true })
			}))
			asked, answer := make(chan none), make(chan bool)
			must(m.Synchronize(t.Context(), "S2", func(s *synchronizer.Synchronizer) {
				s.Constrain(p, "m2", func(guard.Request) bool {
					asked <- none{}
					return <-answer
				})
			}))
			m1 := rpc.At[none, none](p, "m1").Future(t.Context(), none{})
			<-refused
			m2 := rpc.At[none, none](p, "m2").Future(t.Context(), none{})
			<-asked // P waits for S2
			must(rpc.At[none, none](n.Remote(gate.Node(), "gate"), "open").Call(blocking(t), none{}))
			<-notified
			counted(t, p) // P has handled a message behind the notification, if it is of the same node
			answer <- true
			must(m1.Wait(blocking(t)))
			must(m2.Wait(blocking(t)))
		})
	}
}

// TestADistributedRuleSeesTypedArguments has a constraint on arguments of a type that the synchronizer's node must decode.
func TestADistributedRuleSeesTypedArguments(t *testing.T) {
	type order struct {
		Pages int
		For   rpc.Address
	}
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			printer := spawn(t, m, "printer", func(p *rpc.Process) {
				rpc.Func(p, "print", func(_ coroutine.Context, o order) (int, error) { return o.Pages, nil })
				rpc.Func(p, "count", func(_ coroutine.Context, n int) (int, error) { return n, nil })
				rpc.Func(p, "name", func(_ coroutine.Context, name string) (string, error) { return name, nil })
				rpc.Func(p, "any", func(_ coroutine.Context, v any) (any, error) { return v, nil })
			})
			pages := make(chan int, 10)
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
				s.Constrain(printer, "print", func(r guard.Request) bool {
					o := synchronizer.Args[order](r)
					assert.Equal(t, n.Address(""), o.For.Via(), "the address leads through the synchronizer's node")
					pages <- o.Pages
					return o.Pages < 10
				})
				s.Constrain(printer, "count", func(r guard.Request) bool { return r.Args == 7 })
				s.Constrain(printer, "name", func(r guard.Request) bool { return r.Args.(string) == "seven" })
				s.Constrain(printer, "any", func(r guard.Request) bool { return r.Args == nil })
			}))
			at := n.Remote(printer.Node(), "printer")
			long := rpc.At[order, int](at, "print").Future(t.Context(), order{Pages: 30, For: at})
			assert.Equal(t, 30, <-pages)
			assert.Equal(t, 3, must(rpc.At[order, int](at, "print").Call(blocking(t), order{Pages: 3, For: at})))
			assert.False(t, long.Done())
			assert.Equal(t, 7, must(rpc.At[int, int](at, "count").Call(blocking(t), 7)))
			assert.Equal(t, "seven", must(rpc.At[string, string](at, "name").Call(blocking(t), "seven")))
			assert.Nil(t, must(rpc.At[any, any](at, "any").Call(blocking(t), nil)))
		})
	}
}

// TestARuleCountsAMethodThatNoRuleNames has the synchronizer learn that it needs a method.
func TestARuleCountsAMethodThatNoRuleNames(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			a, b := spawnCounting(t, n, "A", "m"), spawnCounting(t, m, "B", "done")
			var inits atomic.Int32
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
				inits.Add(1)
				s.Constrain(a, "m", func(guard.Request) bool { return s.Count(b, "done").Completed > s.Count(a, "m").Accepted })
			}))
			assert.EqualValues(t, 1, inits.Load())
			far := rpc.At[none, none](n.Remote(b.Node(), "B"), "done")
			must(far.Call(blocking(t), none{}))
			must(far.Call(blocking(t), none{}))
			must(rpc.At[none, none](a, "m").Call(blocking(t), none{}))
			must(rpc.At[none, none](a, "m").Call(blocking(t), none{}))
			third := rpc.At[none, none](a, "m").Future(t.Context(), none{})
			assert.EqualValues(t, 2, inits.Load(), "init has run again once, when the method was first asked for")
			must(far.Call(blocking(t), none{}))
			must(third.Wait(blocking(t)))
		})
	}
}

// logged collects the texts of a log.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// becomes waits until a number is as it should be.
func becomes(t *testing.T, want int32, now func() int32) {
	t.Helper()
	require.Eventually(t, func() bool { return now() == want }, time.Minute, 100*time.Microsecond, "%d", now())
}
