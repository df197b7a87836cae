package rpc_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
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
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/supervisor"
)

// pairsOfNodes makes two nodes as everyPairOfNodes does, in the ways that work in virtual time.
var pairsOfNodes = map[string]func(t *testing.T) (n, m *rpc.Node){
	"one node": everyPairOfNodes["one node"],
	"two nodes": func(t *testing.T) (_, _ *rpc.Node) {
		t.Helper()
		var hub transport.Hub
		return nodeOn(t, hub.Join("n")), nodeOn(t, hub.Join("m"))
	},
}

// TestFunctionsThatCleanUpCountForASynchronizerThatStarts has a process end whose function takes a second to clean up. What begins meanwhile waits for
// that.
func TestFunctionsThatCleanUpCountForASynchronizerThatStarts(t *testing.T) {
	type world struct {
		n      *rpc.Node
		a, b   rpc.Address
		panics atomic.Bool
		calls  sync.WaitGroup
	}
	rules := func(w *world) func(s *synchronizer.Synchronizer) {
		return func(s *synchronizer.Synchronizer) {
			s.AtMost(1, synchronizer.Event{Of: w.a, Method: "use"}, synchronizer.Event{Of: w.b, Method: "use"})
			s.Constrain(w.b, "other", func(guard.Request) bool {
				if w.panics.CompareAndSwap(true, false) {
					panic("a fault in a rule")
				}
				return true
			})
		}
	}
	rows := map[string]func(t *testing.T, w *world) (meanwhile func()){
		"one that restarts": func(t *testing.T, w *world) func() {
			t.Helper()
			must(w.n.Synchronize(t.Context(), "S", rules(w)))
			w.panics.Store(true)
			return func() { w.calls.Go(func() { passes(t, w.b, "other") }) }
		},
		"one that begins": func(t *testing.T, w *world) func() {
			t.Helper()
			return func() { must(w.n.Synchronize(t.Context(), "S", rules(w))) }
		},
		"one that follows another": func(t *testing.T, w *world) func() {
			t.Helper()
			must(w.n.Synchronize(t.Context(), "S", rules(w)))
			return func() {
				assert.NoError(t, w.n.Stop("S"))
				must(w.n.Synchronize(t.Context(), "S", rules(w)))
			}
		},
	}
	for where, nodes := range pairsOfNodes {
		for name, row := range rows {
			t.Run(where+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n, m := nodes(t)
					var inside, most atomic.Int32
					use := func(c coroutine.Context, long bool) (none, error) {
						most.Store(max(most.Load(), inside.Add(1)))
						defer inside.Add(-1)
						if long {
							_ = coroutine.Sleep(c, time.Hour)
							time.Sleep(time.Second) // cleans up
						}
						return none{}, nil
					}
					init := func(p *rpc.Process) {
						rpc.Func(p, "use", use)
						rpc.Func(p, "other", func(coroutine.Context, none) (none, error) { return none{}, nil })
					}
					w := &world{n: n, a: n.Remote(m.Name(), spawn(t, m, "A", init).Process()), b: spawn(t, n, "B", init)}
					meanwhile := row(t, w)
					require.NoError(t, rpc.At[bool, none](w.a, "use").Send(true))
					synctest.Wait()
					stopped := make(chan error, 1)
					go func() { stopped <- m.Stop("A") }()
					synctest.Wait()
					meanwhile()
					must(rpc.At[bool, none](w.b, "use").Call(blocking(t), false))
					assert.EqualValues(t, 1, most.Load())
					require.NoError(t, <-stopped)
					w.calls.Wait()
				})
			})
		}
	}
}

// TestAProcessHasEndedWhenItsFunctionsHaveCleanedUp asks the same of a watch, and of the name.
func TestAProcessHasEndedWhenItsFunctionsHaveCleanedUp(t *testing.T) {
	for where, nodes := range pairsOfNodes {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, m := nodes(t)
				rules := func(s *synchronizer.Synchronizer) { s.Constrain(n.Address("nothing"), "m", never) }
				a := n.Remote(m.Name(), spawn(t, m, "A", func(p *rpc.Process) {
					rpc.Func(p, "use", func(c coroutine.Context, _ none) (none, error) {
						err := coroutine.Sleep(c, time.Hour)
						time.Sleep(time.Second) // cleans up
						return none{}, err
					})
				}).Process())
				call := rpc.At[none, none](a, "use").Future(t.Context(), none{})
				synctest.Wait()
				stopped := make(chan error, 1)
				go func() { stopped <- m.Stop("A") }()
				synctest.Wait()
				var ended atomic.Bool
				a.Watch(func(reason error) {
					assert.ErrorIs(t, reason, rpc.ErrUnreachable)
					ended.Store(true)
				})
				_, err := rpc.At[none, none](a, "use").Call(blocking(t), none{})
				require.ErrorIs(t, err, rpc.ErrUnreachable)
				_, err = m.Synchronize(t.Context(), "A", rules)
				require.ErrorIs(t, err, supervisor.ErrAlreadyStarted)
				assert.False(t, ended.Load())
				assert.False(t, call.Done())
				require.NoError(t, <-stopped)
				synctest.Wait()
				assert.True(t, ended.Load())
				_, err = call.Wait(blocking(t))
				require.ErrorIs(t, err, rpc.ErrUnreachable)
				must(m.Synchronize(t.Context(), "A", rules))
			})
		})
	}
}

// TestAnInitMaySynchronizeItsOwnProcess sends a request before init has returned. Already that one follows the rules.
func TestAnInitMaySynchronizeItsOwnProcess(t *testing.T) {
	for where, nodes := range pairsOfNodes {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, m := nodes(t)
				b := spawnCounting(t, n, "B", "m")
				check, asked := refusing()
				var first *rpc.Future[none]
				a := spawn(t, m, "A", func(p *rpc.Process) {
					rpc.Func(p, "m", func(coroutine.Context, none) (none, error) { return none{}, nil })
					rpc.Func(p, "free", func(coroutine.Context, none) (none, error) { return none{}, nil })
					first = rpc.At[none, none](n.Remote(m.Name(), "A"), "m").Future(t.Context(), none{})
					must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
						s.Constrain(n.Remote(m.Name(), "A"), "m", check)
						s.Constrain(b, "m", always)
					}))
					passes(t, b, "m")
					time.Sleep(time.Hour)
					assert.Empty(t, asked)
				})
				<-asked
				passes(t, a, "free")
				assert.False(t, first.Done())
				require.NoError(t, n.Stop("S"))
				must(first.Wait(blocking(t)))
				assert.Empty(t, asked, "it was asked once")
			})
		})
	}
}

// TestAProcessThatSynchronizesItselfIsRestarted has init run again while its synchronizer is there.
func TestAProcessThatSynchronizesItselfIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aNode(t)
		var ran atomic.Int32
		var runs []error
		check, asked := refusing()
		supervised(t, supervisor.OneForOne, n.Child("A", func(p *rpc.Process) error {
			_, err := n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(p.Address(), "m", check) })
			runs = append(runs, err)
			return crashing(&ran)(p)
		}))
		for range 3 {
			call := rpc.At[none, none](n.Address("A"), "m").Future(t.Context(), none{})
			<-asked
			require.NoError(t, rpc.At[none, none](n.Address("A"), "crash").Send(none{}))
			_, err := call.Wait(blocking(t))
			require.ErrorIs(t, err, rpc.ErrUnreachable)
			synctest.Wait()
		}
		require.Len(t, runs, 4)
		require.NoError(t, runs[0])
		require.ErrorIs(t, runs[1], supervisor.ErrAlreadyStarted)
		require.Zero(t, ran.Load())
		require.NoError(t, n.Stop("S"))
		passes(t, n.Address("A"), "m")
	})
}

// TestAFunctionMaySynchronizeItsOwnProcessWhileItIsSuspended has a function await Synchronize.
func TestAFunctionMaySynchronizeItsOwnProcessWhileItIsSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aNode(t)
		a := spawn(t, n, "A", func(p *rpc.Process) {
			rpc.Func(p, "synchronize", func(c coroutine.Context, _ none) (rpc.Address, error) {
				return coroutine.Await(c, func(ctx context.Context) (rpc.Address, error) {
					return n.Synchronize(ctx, "S", func(s *synchronizer.Synchronizer) { s.Constrain(p.Address(), "m", never) })
				})
			})
			rpc.Func(p, "m", func(coroutine.Context, none) (none, error) { return none{}, nil })
		})
		must(rpc.At[none, rpc.Address](a, "synchronize").Call(blocking(t), none{}))
		held := rpc.At[none, none](a, "m").Future(t.Context(), none{})
		synctest.Wait()
		require.False(t, held.Done())
	})
}

// TestWhatASupervisorHasGivenUpHasItsNameUntilItIsTaken has a rule or a function hang in what a supervisor then stops, another take its name, and
// then what has hung continue.
func TestWhatASupervisorHasGivenUpHasItsNameUntilItIsTaken(t *testing.T) {
	one := func(child supervisor.Child) *supervisor.Tree {
		return must(supervisor.Start(context.Background(), nil, supervisor.Spec{
			Name: "test", Children: []supervisor.Child{child}, Log: slog.New(slog.DiscardHandler),
		}))
	}
	process := func(p *rpc.Process) error {
		rpc.Func(p, "m", func(coroutine.Context, none) (none, error) { return none{}, nil })
		return nil
	}
	// Each begins something of the name S, and returns what ends it and its rules.
	taken := map[string]func(t *testing.T, n *rpc.Node, a rpc.Address) (end func()){
		"by Synchronize": func(t *testing.T, n *rpc.Node, a rpc.Address) func() {
			t.Helper()
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", always) }))
			return func() { require.NoError(t, n.Stop("S")) }
		},
		"by a Synchronize that fails": func(t *testing.T, n *rpc.Node, _ rpc.Address) func() {
			t.Helper()
			_, err := n.Synchronize(t.Context(), "S", nil)
			require.Error(t, err)
			require.NotErrorIs(t, err, supervisor.ErrAlreadyStarted)
			return func() {}
		},
		"by a child of another supervisor": func(t *testing.T, n *rpc.Node, a rpc.Address) func() {
			t.Helper()
			tree := one(n.SynchronizerChild("S", func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", always) }))
			return func() {
				tree.Stop()
				must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", always) }))
				require.NoError(t, n.Stop("S"))
			}
		},
		"by a process": func(t *testing.T, n *rpc.Node, a rpc.Address) func() {
			t.Helper()
			passes(t, must(n.Spawn(t.Context(), "S", process)), "m")
			return func() {
				require.NoError(t, n.Stop("S"))
				must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", always) }))
				require.NoError(t, n.Stop("S"))
			}
		},
	}
	// Each has something of the name S hang, given up by its supervisor, until let is closed.
	given := map[string]func(t *testing.T, n *rpc.Node, a rpc.Address, let <-chan none){
		"a rule": func(t *testing.T, n *rpc.Node, a rpc.Address, let <-chan none) {
			t.Helper()
			tree := one(n.SynchronizerChild("S", func(s *synchronizer.Synchronizer) {
				s.Constrain(a, "m", func(guard.Request) bool {
					<-let
					s.Count(a, "other") // has it begin anew
					return true
				})
			}))
			_ = rpc.At[none, none](a, "m").Future(t.Context(), none{})
			synctest.Wait()
			require.Len(t, tree.Stop(), 1)
		},
		"the init of a synchronizer": func(t *testing.T, n *rpc.Node, a rpc.Address, let <-chan none) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := supervisor.Start(ctx, nil, supervisor.Spec{
				Name: "test", Log: slog.New(slog.DiscardHandler),
				Children: []supervisor.Child{n.SynchronizerChild("S", func(s *synchronizer.Synchronizer) {
					<-let
					s.Constrain(a, "m", never)
				})},
			})
			require.Error(t, err)
			time.Sleep(time.Minute)
		},
		"a function": func(t *testing.T, n *rpc.Node, _ rpc.Address, let <-chan none) {
			t.Helper()
			hung := spawn(t, n, "S", func(p *rpc.Process) {
				rpc.Func(p, "m", func(coroutine.Context, none) (none, error) {
					<-let
					return none{}, nil
				})
			})
			call := rpc.At[none, none](hung, "m").Future(t.Context(), none{})
			synctest.Wait()
			var left *supervisor.LeftError
			require.ErrorAs(t, n.Stop("S"), &left)
			assert.False(t, call.Done())
		},
	}
	for what, give := range given {
		for how, take := range taken {
			for _, endsFirst := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, which ends before it continues: %v", what, how, endsFirst), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						n := aNode(t)
						a := spawnCounting(t, n, "A", "m", "other")
						let := make(chan none)
						give(t, n, a, let)
						end := take(t, n, a)
						if how != "by a process" { // a process does not take the rules back
							passes(t, a, "m")
						}
						if how == "by Synchronize" {
							_, err := n.Spawn(t.Context(), "S", process)
							require.ErrorIs(t, err, supervisor.ErrAlreadyStarted)
						}
						steps := []func(){func() { close(let) }, end}
						if endsFirst {
							slices.Reverse(steps)
						}
						steps[0]()
						time.Sleep(time.Second)
						if how == "by a process" && !endsFirst {
							passes(t, n.Address("S"), "m")
						}
						steps[1]()
						time.Sleep(time.Second)
						passes(t, a, "m")
					})
				})
			}
		}
	}
}

// TestWhatWasGivenUpDoesNotChangeWhereRulesAre has a rule continue when others have taken back its synchronizer's rules, out of reach of the member.
// The member is free when it asks.
func TestWhatWasGivenUpDoesNotChangeWhereRulesAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub transport.Hub
		line := &deaf{Transport: hub.Join("n")}
		n, m := nodeOn(t, line), nodeOn(t, hub.Join("m"))
		here, a := spawnCounting(t, n, "here", "m"), spawnCounting(t, m, "A", "m", "other")
		let := make(chan none)
		child := n.SynchronizerChild("S", func(s *synchronizer.Synchronizer) {
			s.Constrain(n.Remote("m", "A"), "m", func(guard.Request) bool {
				<-let
				s.Count(n.Remote("m", "A"), "other") // has it begin anew
				return true
			})
		})
		tree := supervised(t, supervisor.OneForOne, child)
		call := rpc.At[none, none](a, "m").Future(t.Context(), none{})
		synctest.Wait()
		require.Len(t, tree.Stop(), 1)
		line.off.Store(true)
		must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(here, "m", always) }))
		require.NoError(t, n.Stop("S"))
		close(let)
		synctest.Wait()
		hub.Cut("n", "m")
		time.Sleep(time.Hour)
		require.False(t, call.Done())
		line.off.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.True(t, call.Done())
	})
}

// slow is a transport that can hold back what is sent.
type slow struct {
	transport.Transport

	mu    sync.Mutex
	holds bool
	held  []func()
}

func (s *slow) Send(to string, m *transport.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds {
		s.held = append(s.held, func() { _ = s.Transport.Send(to, m) })
		return nil
	}
	return s.Transport.Send(to, m)
}

func (s *slow) hold(holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = holds
	for _, send := range s.held {
		send()
	}
	s.held = nil
}

// TestALateMessageOfAProcessThatHasEndedSaysNothingOfItsSuccessor has a synchronizer receive, while it waits for the counters of a process that is busy,
// what an incarnation before had sent to the synchronizer before.
func TestALateMessageOfAProcessThatHasEndedSaysNothingOfItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub transport.Hub
		line := &slow{Transport: hub.Join("m")}
		n, m := nodeOn(t, hub.Join("n")), nodeOn(t, line)
		var inside, most atomic.Int32
		let := make(chan none)
		use := func(_ coroutine.Context, blocks bool) (none, error) {
			most.Store(max(most.Load(), inside.Add(1)))
			defer inside.Add(-1)
			if blocks {
				<-let
			}
			return none{}, nil
		}
		supervised(t, supervisor.OneForOne, m.Child("A", func(p *rpc.Process) error {
			rpc.Func(p, "use", use)
			rpc.Func(p, "crash", func(coroutine.Context, none) (none, error) { return none{}, nil })
			p.Guard("crash", func(func(string) guard.Counters) bool { panic("a fault in a guard") })
			return nil
		}))
		a, b := n.Remote("m", "A"), spawn(t, n, "B", func(p *rpc.Process) { rpc.Func(p, "use", use) })
		must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(a, "use", never) }))
		line.hold(true)
		require.NoError(t, rpc.At[bool, none](m.Address("A"), "use").Send(false))
		synctest.Wait()
		require.NoError(t, n.Stop("S"))
		synctest.Wait()
		require.NoError(t, rpc.At[none, none](m.Address("A"), "crash").Send(none{}))
		synctest.Wait()
		busy := rpc.At[bool, none](m.Address("A"), "use").Future(t.Context(), true)
		synctest.Wait()
		over := make(chan error, 1)
		go func() {
			_, err := n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
				s.AtMost(1, synchronizer.Event{Of: a, Method: "use"}, synchronizer.Event{Of: b, Method: "use"})
			})
			over <- err
		}()
		synctest.Wait()
		line.hold(false)
		synctest.Wait()
		other := rpc.At[bool, none](b, "use").Future(t.Context(), false)
		synctest.Wait()
		assert.False(t, other.Done())
		close(let)
		must(busy.Wait(blocking(t)))
		must(other.Wait(blocking(t)))
		require.NoError(t, <-over)
		assert.EqualValues(t, 1, most.Load())
	})
}
