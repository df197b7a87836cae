package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/nodetest"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

func never(guard.Request) bool { return false }

func always(guard.Request) bool { return true }

// crashing returns the init of a process whose function "crash" has a guard panic, and whose function "m" counts its calls.
func crashing(ran *atomic.Int32) func(p *rpc.Process) error {
	return func(p *rpc.Process) error {
		rpc.Func(p, "m", func(coroutine.Context, none) (none, error) {
			ran.Add(1)
			return none{}, nil
		})
		rpc.Func(p, "crash", func(coroutine.Context, none) (none, error) { return none{}, nil })
		p.Guard("crash", func(func(string) guard.Counters) bool { panic("a fault in a guard") })
		return nil
	}
}

// supervised starts children that are restarted without end.
func supervised(t testing.TB, strategy supervisor.Strategy, children ...supervisor.Child) *supervisor.Tree {
	t.Helper()
	tree, err := supervisor.Start(context.Background(), nil, supervisor.Spec{
		Name: "test", Strategy: strategy, Intensity: supervisor.Intensity{Restarts: 1 << 30, Within: time.Second},
		Children: children, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { tree.Stop() })
	return tree
}

func TestAProcessThatIsRestartedFollowsTheRulesBeforeItsFirstRequest(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			var ran atomic.Int32
			var starts atomic.Int32
			supervised(t, supervisor.OneForOne, m.Child("P", func(p *rpc.Process) error {
				starts.Add(1)
				return crashing(&ran)(p)
			}))
			at := n.Remote(m.Name(), "P")
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(at, "m", never) }))
			for i := range int32(10) {
				_, err := rpc.At[none, none](at, "crash").Call(blocking(t), none{})
				require.ErrorIs(t, err, rpc.ErrUnreachable)
				becomes(t, i+2, starts.Load)
				_ = rpc.At[none, none](at, "m").Send(none{})
			}
			assert.Zero(t, ran.Load())
		})
	}
}

func TestAProcessThatIsNewFollowsTheRulesBeforeItsFirstRequest(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			var ran atomic.Int32
			at := n.Remote(m.Name(), "P")
			open := spawnGate(t, n, "gate")
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
				s.Constrain(at, "m", func(guard.Request) bool { return s.Count(open, "open").Completed > 0 })
			}))
			p := must(m.Spawn(t.Context(), "P", crashing(&ran)))
			call := rpc.At[none, none](p, "m").Future(t.Context(), none{})
			for range 100 {
				runtime.Gosched()
			}
			assert.Zero(t, ran.Load())
			must(rpc.At[none, none](open, "open").Call(blocking(t), none{}))
			must(call.Wait(blocking(t)))
		})
	}
}

func TestARuleThatIsTakenBackHoldsNothing(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			a, b := spawnCounting(t, n, "A", "m", "both"), spawnCounting(t, m, "B", "m", "both")
			refused := make(chan none, 10)
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
				s.Constrain(b, "m", func(guard.Request) bool {
					refused <- none{}
					return false
				})
				s.Atomic(synchronizer.Event{Of: a, Method: "both"}, synchronizer.Event{Of: b, Method: "both"})
			}))
			fromB := rpc.At[none, none](b, "m").Future(t.Context(), none{})
			both := rpc.At[none, none](b, "both").Future(t.Context(), none{})
			<-refused
			require.NoError(t, n.Stop("S"))
			must(fromB.Wait(blocking(t)))
			must(both.Wait(blocking(t)))
			require.ErrorIs(t, n.Stop("S"), supervisor.ErrNotFound)
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(b, "m", always) }))
			must(rpc.At[none, none](b, "m").Call(blocking(t), none{}))
			require.NoError(t, n.Stop("S"))
			require.NoError(t, m.Stop("B"))
			spawnCounting(t, m, "B", "m", "both") // nothing is left of the rules
			must(rpc.At[none, none](b, "m").Call(blocking(t), none{}))
		})
	}
}

func TestSynchronizeWaitsForItsMembersAndCanBeGivenUp(t *testing.T) {
	n := aNode(t)
	let, in := make(chan none), make(chan none)
	busy := spawn(t, n, "busy", func(p *rpc.Process) {
		rpc.Func(p, "block", func(coroutine.Context, none) (none, error) {
			in <- none{}
			<-let
			return none{}, nil
		})
		rpc.Func(p, "m", func(coroutine.Context, none) (none, error) { return none{}, nil })
	})
	rpc.At[none, none](busy, "block").Future(t.Context(), none{})
	<-in
	for i := range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan none)
		over := make(chan error)
		go func() {
			_, err := n.Synchronize(ctx, "S", func(s *synchronizer.Synchronizer) {
				s.Constrain(busy, "m", never)
				close(started)
			})
			over <- err
		}()
		<-started
		for range i * 20 { // so that it is given up at different points
			runtime.Gosched()
		}
		cancel()
		err := <-over
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, `rpc: synchronizer "S": `)
	}
	close(let)
	must(rpc.At[none, none](busy, "m").Call(blocking(t), none{}))
}

func TestWhatIsWrongWithASynchronizerIsSaidBeforeItStarts(t *testing.T) {
	n := aNode(t)
	a, b := spawnCounting(t, n, "A", "m"), spawnCounting(t, n, "B", "m")
	somewhere := stage.Func("parse", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
	rows := map[string]struct {
		name string
		init func(s *synchronizer.Synchronizer)
		want []string
	}{
		"no init":  {"S", nil, []string{`synchronizer "S": init is nil`}},
		"no name":  {"", func(*synchronizer.Synchronizer) {}, []string{`has no name`}},
		"no rules": {"S", func(*synchronizer.Synchronizer) {}, []string{`synchronizer "S": it has no rules`}},
		"a panic":  {"S", func(*synchronizer.Synchronizer) { panic("a fault in init") }, []string{"a fault in init"}},
		"a goexit": {"S", func(*synchronizer.Synchronizer) { runtime.Goexit() }, []string{"oexit"}},
		"all that is wrong": {"S", func(s *synchronizer.Synchronizer) {
			s.Constrain(a, "m", nil)
			s.Constrain(somewhere, "m", always)
			s.Constrain(rpc.Address{}, "m", always)
			s.Constrain(&b, "m", always)
			s.Constrain(b, "x", always)
			s.Atomic(synchronizer.Event{Of: a, Method: "m"}, synchronizer.Event{Of: b, Method: "x"})
		}, []string{
			`synchronizer "S": Constrain of "m" of "#A": the function is nil`,
			`synchronizer "S": "parse" is a *stage.Stage[int]: package rpc coordinates processes, by their Address`,
			`synchronizer "S": "#" is the address of no process`,
			`synchronizer "S": "#B" is a *rpc.Address: package rpc coordinates processes, by their Address`,
			`synchronizer "S": "x" of "#B" has constraints and atomic rules: a method of a process has one kind`,
		}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			_, err := n.Synchronize(t.Context(), row.name, row.init)
			require.Error(t, err)
			for _, want := range row.want {
				assert.ErrorContains(t, err, want)
			}
			_, err = supervisor.Start(t.Context(), nil, supervisor.Spec{
				Children: []supervisor.Child{n.SynchronizerChild(row.name, row.init)}, Log: slog.New(slog.DiscardHandler),
			})
			require.Error(t, err)
		})
	}
	_, err := n.Synchronize(t.Context(), "A", func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", always) })
	require.ErrorIs(t, err, supervisor.ErrAlreadyStarted)
	must(rpc.At[none, none](a, "m").Call(blocking(t), none{}))
	require.NoError(t, n.Close())
	_, err = n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", always) })
	require.ErrorIs(t, err, rpc.ErrUnreachable)
	assert.Panics(t, func() { _, _ = n.Synchronize(nil, "S", nil) }) //nolint:staticcheck // a nil context is what is tested
}

func TestWhatASynchronizerCannotDoIsLogged(t *testing.T) {
	var log logged
	n := must(rpc.NewNode(rpc.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	a, b := spawnCounting(t, n, "A", "m"), spawnCounting(t, n, "B", "m")
	must(n.Synchronize(t.Context(), "S1", func(s *synchronizer.Synchronizer) {
		s.Constrain(a, "m", always)
		s.Constrain(a, "mispelt", always)
	}))
	assert.Contains(t, log.String(), `level=WARN msg="rpc: a synchronizer has rules for a function that the process does not have"`+
		` synchronizer=#S1 process=#A function=mispelt`)
	must(n.Synchronize(t.Context(), "S2", func(s *synchronizer.Synchronizer) {
		s.Atomic(synchronizer.Event{Of: a, Method: "m"}, synchronizer.Event{Of: b, Method: "m"})
	}))
	assert.Contains(t, log.String(), `level=ERROR msg="rpc: a method has constraints and atomic rules: its requests wait until a synchronizer is stopped"`+
		` process=#A function=m "constrained by"=[#S1] "atomic rules of"=[#S2]`)
	call := rpc.At[none, none](a, "m").Future(t.Context(), none{})
	other := rpc.At[none, none](b, "m").Future(t.Context(), none{})
	require.NoError(t, n.Stop("S1"))
	must(call.Wait(blocking(t)))
	must(other.Wait(blocking(t)))
}

func TestArgumentsThatCannotBeSentDoNotHoldUpARequest(t *testing.T) {
	small := func() transport.Transport {
		return must(transport.Listen("tcp", "127.0.0.1:0", transport.Config{Secret: nodetest.Secret(), MaxMessage: 1 << 16}))
	}
	n, m := nodeOn(t, small()), nodeOn(t, small())
	p := spawn(t, m, "P", func(p *rpc.Process) {
		rpc.Func(p, "send", func(_ coroutine.Context, to chan<- int) (none, error) {
			to <- 7
			return none{}, nil
		})
		rpc.Func(p, "write", func(_ coroutine.Context, text string) (int, error) { return len(text), nil })
	})
	problem := make(chan any, 100)
	must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
		s.Constrain(p, "send", func(r guard.Request) bool {
			defer func() { problem <- recover() }()
			synchronizer.Args[chan<- int](r)
			return true
		})
		s.Constrain(p, "send", always)
		s.Constrain(p, "write", always)
	}))
	to := make(chan int, 1)
	call := rpc.At[chan<- int, none](p, "send").Future(t.Context(), to)
	assert.Contains(t, fmt.Sprint(<-problem), "they did not come from the other node")
	assert.False(t, call.Done())
	huge := strings.Repeat("x", 1<<17)
	assert.Equal(t, len(huge), must(rpc.At[string, int](p, "write").Call(blocking(t), huge)))
}

func TestACallerThatGivesUpLeavesNothing(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			a, b := spawnCounting(t, n, "A", "m", "both"), spawnCounting(t, m, "B", "m", "both")
			must(n.Synchronize(t.Context(), "S1", func(s *synchronizer.Synchronizer) {
				s.AtMost(1, synchronizer.Event{Of: a, Method: "m"}, synchronizer.Event{Of: b, Method: "m"})
			}))
			must(m.Synchronize(t.Context(), "S2", func(s *synchronizer.Synchronizer) {
				s.Atomic(synchronizer.Event{Of: a, Method: "both"}, synchronizer.Event{Of: b, Method: "both"})
			}))
			var wg sync.WaitGroup
			var ate atomic.Int32
			for i := range 8 {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(i), 0))
					for range 30 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(1000))*time.Microsecond)
						c := coroutine.Blocking(ctx)
						at := n.Remote([]rpc.Address{a, b}[i%2].Node(), []rpc.Address{a, b}[i%2].Process())
						if _, err := rpc.At[none, none](at, "m").Call(c, none{}); err == nil {
							ate.Add(1)
						}
						_, _ = rpc.At[none, none](at, "both").Call(c, none{})
						cancel()
					}
				})
			}
			wg.Wait()
			for range 3 { // everything can happen that could before
				must(rpc.At[none, none](a, "m").Call(blocking(t), none{}))
				must(rpc.At[none, none](b, "m").Call(blocking(t), none{}))
				both := rpc.At[none, none](a, "both").Future(t.Context(), none{})
				must(rpc.At[none, none](b, "both").Call(blocking(t), none{}))
				must(both.Wait(blocking(t)))
			}
			for _, node := range []*rpc.Node{n, m} {
				assert.Eventually(t, func() bool { return rpc.Open(node) == 0 }, time.Minute, time.Millisecond)
			}
			t.Logf("%d of 240 were in time", ate.Load())
		})
	}
}

// TestX3_ProcessDiesBetweenOkAndCommit stops a process that has the lock of one synchronizer while another one verifies its request.
func TestX3_ProcessDiesBetweenOkAndCommit(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			a, b := spawnCounting(t, m, "A", "m"), spawnCounting(t, n, "B", "m")
			var triggers [2]atomic.Int32
			asked, answer := make(chan none), make(chan none)
			must(n.Synchronize(t.Context(), "S1", func(s *synchronizer.Synchronizer) {
				s.Trigger(a, "m", synchronizer.Accepted, func(guard.Request) { triggers[0].Add(1) })
				s.Constrain(b, "m", always)
			}))
			must(n.Synchronize(t.Context(), "S2", func(s *synchronizer.Synchronizer) {
				s.Constrain(a, "m", func(guard.Request) bool {
					asked <- none{}
					<-answer
					return true
				})
				s.Trigger(a, "m", synchronizer.Accepted, func(guard.Request) { triggers[1].Add(1) })
			}))
			call := rpc.At[none, none](a, "m").Future(t.Context(), none{})
			<-asked // S1 has agreed
			other := rpc.At[none, none](b, "m").Future(t.Context(), none{})
			require.NoError(t, m.Stop("A"))
			_, err := call.Wait(blocking(t))
			require.ErrorIs(t, err, rpc.ErrUnreachable)
			answer <- none{}
			must(other.Wait(blocking(t)))
			assert.Zero(t, triggers[0].Load()+triggers[1].Load())
		})
	}
}

func TestAFalseNoticeLeavesNothingStuck(t *testing.T) {
	var hub transport.Hub
	n, m := nodeOn(t, hub.Join("n")), nodeOn(t, hub.Join("m"))
	rs := spawnUsers(t, 4, n, m)
	must(n.Synchronize(t.Context(), "S1", atMostOne(rs)))
	must(m.Synchronize(t.Context(), "S2", oneOfEach(rs)))
	stop := make(chan none)
	var cuts sync.WaitGroup
	cuts.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				hub.Cut("n", "m")
			}
		}
	})
	time.AfterFunc(200*time.Millisecond, func() { close(stop) })
	useAll(t, rs, 50)
	<-stop
	cuts.Wait()
}

func TestNothingIsStuckWhateverCrashes(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			var rs []rpc.Address
			var mu sync.Mutex
			inside, most, began := 0, 0, 0
			count := func(d int) {
				mu.Lock()
				defer mu.Unlock()
				inside += d
				most = max(most, inside)
				began += max(d, 0)
			}
			// due waits until the next crash is due: when a function was called since the last one, because otherwise a slow
			// machine crashes faster than it calls, or when it seems to be stuck.
			due := func(last int) (now int) {
				for range 100 {
					time.Sleep(2 * time.Millisecond)
					mu.Lock()
					now = began
					mu.Unlock()
					if now > last {
						break
					}
				}
				return now
			}
			for i := range 4 {
				at := []*rpc.Node{n, m}[i%2]
				var ran atomic.Int32
				supervised(t, supervisor.OneForOne, at.Child(fmt.Sprint("P", i), func(p *rpc.Process) error {
					if err := crashing(&ran)(p); err != nil {
						return err
					}
					rpc.Func(p, "use", func(c coroutine.Context, _ none) (none, error) {
						count(1)
						defer count(-1)
						return none{}, coroutine.Yield(c)
					})
					return nil
				}))
				rs = append(rs, n.Remote(at.Name(), fmt.Sprint("P", i)))
			}
			var poison atomic.Bool
			rules := atMostOne(rs)
			supervised(t, supervisor.OneForOne, n.SynchronizerChild("S1", func(s *synchronizer.Synchronizer) {
				rules(s)
				s.Constrain(rs[0], "use", func(guard.Request) bool {
					if poison.Swap(false) {
						panic("a fault in a rule")
					}
					return true
				})
			}))
			must(m.Synchronize(t.Context(), "S2", oneOfEach(rs)))
			done := make(chan none)
			var crashes sync.WaitGroup
			crashes.Go(func() {
				for i, last := 0, 0; ; i++ {
					last = due(last)
					select {
					case <-done:
						return
					default:
						poison.Store(i%3 == 0)
						_ = rpc.At[none, none](rs[i%4], "crash").Send(none{})
					}
				}
			})
			useAll(t, rs, 40)
			close(done)
			crashes.Wait()
			assert.Equal(t, 1, most)
		})
	}
}

// spawnUsers starts processes with a function "use".
func spawnUsers(t testing.TB, count int, nodes ...*rpc.Node) (all []rpc.Address) {
	t.Helper()
	for i := range count {
		a := spawn(t, nodes[i%len(nodes)], fmt.Sprint("P", i), func(p *rpc.Process) {
			rpc.Func(p, "use", func(c coroutine.Context, _ none) (none, error) { return none{}, coroutine.Yield(c) })
			rpc.Func(p, "both", func(coroutine.Context, none) (none, error) { return none{}, nil })
		})
		all = append(all, nodes[0].Remote(a.Node(), a.Process()))
	}
	return all
}

func atMostOne(of []rpc.Address) func(s *synchronizer.Synchronizer) {
	return func(s *synchronizer.Synchronizer) {
		var events []synchronizer.Event
		for _, a := range of {
			events = append(events, synchronizer.Event{Of: a, Method: "use"})
		}
		s.AtMost(1, events...)
	}
}

// oneOfEach is a constraint that always holds, so that two synchronizers are asked.
func oneOfEach(of []rpc.Address) func(s *synchronizer.Synchronizer) {
	return func(s *synchronizer.Synchronizer) {
		for _, a := range of {
			s.Constrain(a, "use", always)
		}
	}
}

// bothTogether has a client for each of two processes call again and again, until both have succeeded so many times. A request that was given up
// may run with one that comes later, so the clients do not wait for each other.
func bothTogether(t *testing.T, a, b rpc.Address, times int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var done [2]atomic.Int32
	var clients sync.WaitGroup
	for i, of := range []rpc.Address{a, b} {
		clients.Go(func() {
			for ctx.Err() == nil {
				switch _, err := rpc.At[none, none](of, "both").Call(coroutine.Blocking(ctx), none{}); {
				case err == nil:
					done[i].Add(1)
					if done[0].Load() >= times && done[1].Load() >= times {
						cancel()
					}
				case ctx.Err() == nil && !errors.Is(err, rpc.ErrUnreachable):
					assert.NoError(t, err)
					return
				}
			}
		})
	}
	clients.Wait()
	assert.GreaterOrEqual(t, done[0].Load(), times)
	assert.GreaterOrEqual(t, done[1].Load(), times)
}

// useAll calls each process until so many calls have succeeded. The others have the error that the process, or its node, was lost.
func useAll(t *testing.T, all []rpc.Address, times int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() {
			for done := 0; done < times; {
				switch _, err := rpc.At[none, none](a, "use").Call(coroutine.Blocking(ctx), none{}); {
				case err == nil:
					done++
				case ctx.Err() != nil || !errors.Is(err, rpc.ErrUnreachable):
					assert.NoError(t, err, "after %d", done)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestARuleThatEndsItsGoroutineCrashesTheSynchronizer has a rule call runtime.Goexit once.
func TestARuleThatEndsItsGoroutineCrashesTheSynchronizer(t *testing.T) {
	n := aNode(t)
	a := spawnCounting(t, n, "A", "m")
	var exited atomic.Bool
	must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
		s.Constrain(a, "m", func(guard.Request) bool {
			if !exited.Swap(true) {
				runtime.Goexit()
			}
			return true
		})
	}))
	must(rpc.At[none, none](a, "m").Call(blocking(t), none{}))
}

// TestASynchronizerThatItsSupervisorStopsKeepsItsRules restarts it on behalf of another child.
func TestASynchronizerThatItsSupervisorStopsKeepsItsRules(t *testing.T) {
	n := aNode(t)
	var ran atomic.Int32
	a := must(n.Spawn(t.Context(), "A", crashing(&ran)))
	starts := make(chan none, 10)
	var synchronizers atomic.Int32
	supervised(t, supervisor.OneForAll,
		n.SynchronizerChild("S", func(s *synchronizer.Synchronizer) {
			s.Constrain(a, "m", never)
			synchronizers.Add(1)
		}),
		n.Child("B", func(p *rpc.Process) error {
			starts <- none{} // S has started
			return crashing(&ran)(p)
		}))
	<-starts
	for range 5 {
		_, err := rpc.At[none, none](n.Address("B"), "crash").Call(blocking(t), none{})
		require.ErrorIs(t, err, rpc.ErrUnreachable)
		_ = rpc.At[none, none](a, "m").Send(none{})
		<-starts
	}
	assert.Zero(t, ran.Load())
	assert.EqualValues(t, 6, synchronizers.Load())
}

// TestNothingIsSentWhileNothingHappens has virtual time pass. A member of the same node that does not exist needs no repetition; one
// of another node does.
func TestNothingIsSentWhileNothingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub transport.Hub
		n, m := nodeOn(t, hub.Join("n")), nodeOn(t, hub.Join("m"))
		a, b := spawnCounting(t, n, "A", "m"), spawnCounting(t, m, "B", "m")
		must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
			for _, p := range []rpc.Address{a, b, n.Address("none"), m.Address("none")} {
				s.Constrain(p, "m", always)
			}
		}))
		must(rpc.At[none, none](n.Remote("m", "B"), "m").Call(blocking(t), none{}))
		time.Sleep(time.Minute)
		sent := rpc.Coordinated(n) + rpc.Coordinated(m)
		time.Sleep(time.Hour)
		repeated := rpc.Coordinated(n) + rpc.Coordinated(m) - sent
		assert.InDelta(t, 3600, repeated, 10, "two that do not exist, of which one is of another node, are asked every two seconds")
		spawnCounting(t, m, "none", "m")
		time.Sleep(time.Minute)
		sent = rpc.Coordinated(n) + rpc.Coordinated(m)
		time.Sleep(time.Hour)
		assert.Equal(t, sent, rpc.Coordinated(n)+rpc.Coordinated(m))
	})
}

// TestASynchronizerWhoseRuleHangsIsStopped has a rule that does not return until the test lets it.
func TestASynchronizerWhoseRuleHangsIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aNode(t)
		a := spawnCounting(t, n, "A", "m")
		let := make(chan none)
		must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
			s.Constrain(a, "m", func(guard.Request) bool {
				<-let
				return false
			})
		}))
		call := rpc.At[none, none](a, "m").Future(t.Context(), none{})
		synctest.Wait()
		var left *supervisor.LeftError
		require.ErrorAs(t, n.Stop("S"), &left)
		must(call.Wait(blocking(t)))
		close(let)
		synctest.Wait()
		must(rpc.At[none, none](a, "m").Call(blocking(t), none{}))
		must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", always) }))
		must(rpc.At[none, none](a, "m").Call(blocking(t), none{}))
		time.Sleep(time.Second) // for what the engine logs of a child that was abandoned
	})
}

// lossy is a hub that loses messages now and then, and says so.
type lossy struct {
	hub    transport.Hub
	mu     sync.RWMutex // a message is sent before a notice or after it
	losing bool
	lost   atomic.Int32
}

// lossyPort is a node of a lossy hub.
type lossyPort struct {
	transport.Transport

	of *lossy
}

func (l *lossy) join(node string) transport.Transport { return lossyPort{l.hub.Join(node), l} }

func (p lossyPort) Send(node string, m *transport.Message) error {
	p.of.mu.RLock()
	losing := p.of.losing
	p.of.mu.RUnlock()
	if losing {
		p.of.lost.Add(1)
		return nil
	}
	return p.Transport.Send(node, m)
}

// lose has the nodes lose what is sent to each other for some time, and then each other.
func (l *lossy) lose(d time.Duration, n, m string) {
	l.mu.Lock()
	l.losing = true
	l.mu.Unlock()
	time.Sleep(d)
	l.mu.Lock()
	l.losing = false
	l.mu.Unlock()
	l.hub.Cut(n, m)
}

// TestLostMessagesLeaveNothingStuck breaks the connection of two nodes again and again, and what is sent before is lost; processes and a
// synchronizer crash meanwhile.
func TestLostMessagesLeaveNothingStuck(t *testing.T) {
	var l lossy
	n, m := nodeOn(t, l.join("n")), nodeOn(t, l.join("m"))
	var rs []rpc.Address
	for i := range 4 {
		at, name := []*rpc.Node{n, m}[i%2], fmt.Sprint("P", i)
		var ran atomic.Int32
		supervised(t, supervisor.OneForOne, at.Child(name, func(p *rpc.Process) error {
			rpc.Func(p, "use", func(c coroutine.Context, _ none) (none, error) { return none{}, coroutine.Yield(c) })
			rpc.Func(p, "both", func(coroutine.Context, none) (none, error) { return none{}, nil })
			return crashing(&ran)(p)
		}))
		rs = append(rs, n.Remote(at.Name(), name))
	}
	var poison atomic.Bool
	rules := atMostOne(rs)
	must(n.Synchronize(t.Context(), "S1", func(s *synchronizer.Synchronizer) {
		rules(s)
		s.Constrain(rs[1], "use", func(guard.Request) bool {
			if poison.Swap(false) {
				panic("a fault in a rule")
			}
			return true
		})
	}))
	must(m.Synchronize(t.Context(), "S2", oneOfEach(rs)))
	must(m.Synchronize(t.Context(), "S3", func(s *synchronizer.Synchronizer) {
		s.Atomic(synchronizer.Event{Of: rs[0], Method: "both"}, synchronizer.Event{Of: rs[1], Method: "both"})
	}))
	var faults, clients sync.WaitGroup
	faults.Go(func() {
		rnd := rand.New(rand.NewPCG(1, 0))
		for i := range 60 {
			switch rnd.IntN(4) {
			case 0:
				_ = rpc.At[none, none](rs[rnd.IntN(len(rs))], "crash").Send(none{})
			case 1:
				poison.Store(i%5 == 0) // the pauses before its restarts grow
			default:
				l.lose(time.Duration(rnd.IntN(1000))*time.Microsecond, "n", "m")
			}
			time.Sleep(time.Duration(rnd.IntN(4)) * time.Millisecond)
		}
	})
	clients.Go(func() { bothTogether(t, rs[0], rs[1], 100) })
	useAll(t, rs, 200)
	clients.Wait()
	faults.Wait()
	useAll(t, rs, 5)
	bothTogether(t, rs[0], rs[1], 5)
	t.Logf("%d messages were lost", l.lost.Load())
}
