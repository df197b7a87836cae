package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
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

// passes calls a function, and fails if it is held for ever.
func passes(t testing.TB, a rpc.Address, method string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := rpc.At[none, none](a, method).Call(coroutine.Blocking(ctx), none{})
	require.NoError(t, err)
}

// refusing returns a constraint that never holds, and a channel that gets a value whenever it is asked.
func refusing() (func(guard.Request) bool, <-chan none) {
	asked := make(chan none, 1000)
	return func(guard.Request) bool {
		asked <- none{}
		return false
	}, asked
}

// spawnBusy starts a process that serves nothing until free is called.
func spawnBusy(t testing.TB, n *rpc.Node, name string) (busy rpc.Address, free func()) {
	t.Helper()
	in, let := make(chan none), make(chan none)
	busy = spawn(t, n, name, func(p *rpc.Process) {
		rpc.Func(p, "block", func(coroutine.Context, none) (none, error) {
			close(in)
			<-let
			return none{}, nil
		})
		rpc.Func(p, "m", func(coroutine.Context, none) (none, error) { return none{}, nil })
	})
	require.NoError(t, rpc.At[none, none](busy, "block").Send(none{}))
	<-in
	return busy, func() { close(let) }
}

// synchronizing calls Synchronize with one constraint, and returns a channel that gets its error.
func synchronizing(ctx context.Context, n *rpc.Node, name string, of rpc.Address, check func(guard.Request) bool) <-chan error {
	over := make(chan error, 1)
	go func() {
		_, err := n.Synchronize(ctx, name, func(s *synchronizer.Synchronizer) { s.Constrain(of, "m", check) })
		over <- err
	}()
	return over
}

func TestASynchronizerThatIsStoppedDuringItsStartLeavesNoRules(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			spawnCounting(t, m, "A", "m")
			a := n.Remote(m.Name(), "A")
			for range 300 {
				over := synchronizing(t.Context(), n, "S", a, never)
				for n.Stop("S") != nil {
					runtime.Gosched()
				}
				if err := <-over; err != nil {
					require.ErrorIs(t, err, supervisor.ErrStopped)
				}
				passes(t, a, "m")
				require.ErrorIs(t, n.Stop("S"), supervisor.ErrNotFound)
			}
		})
	}
}

func TestSynchronizeReturnsWhenItsSynchronizerIsStopped(t *testing.T) {
	rows := map[string]struct {
		stop func(n *rpc.Node) error
		want error
	}{
		"by Stop":  {func(n *rpc.Node) error { return n.Stop("S") }, supervisor.ErrStopped},
		"by Close": {(*rpc.Node).Close, rpc.ErrUnreachable},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			var hub transport.Hub
			n, m := nodeOn(t, hub.Join("n")), nodeOn(t, hub.Join("m"))
			busy, free := spawnBusy(t, m, "busy")
			defer free()
			over := synchronizing(t.Context(), n, "S", n.Remote("m", busy.Process()), never)
			for rpc.Coordinated(n) == 0 { // it has not asked its member
				runtime.Gosched()
			}
			require.NoError(t, row.stop(n))
			err := <-over
			require.ErrorIs(t, err, row.want)
			require.ErrorContains(t, err, `rpc: synchronizer "S": `)
		})
	}
}

// TestASynchronizeThatIsGivenUpStopsOnlyItsOwnSynchronizer has one wait for a busy member while its synchronizer is stopped, and something
// else gets its name, before its context ends.
func TestASynchronizeThatIsGivenUpStopsOnlyItsOwnSynchronizer(t *testing.T) {
	for _, successor := range []string{"a synchronizer", "a process"} {
		t.Run(successor, func(t *testing.T) {
			n := aNode(t)
			b := spawnCounting(t, n, "B", "m")
			busy, free := spawnBusy(t, n, "busy")
			defer free()
			ctx, cancel := context.WithCancel(t.Context())
			over := synchronizing(ctx, n, "S", busy, always)
			for n.Stop("S") != nil {
				runtime.Gosched()
			}
			if successor == "a process" {
				s := spawnCounting(t, n, "S", "m")
				cancel()
				require.Error(t, <-over)
				passes(t, s, "m")
				return
			}
			check, asked := refusing()
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(b, "m", check) }))
			cancel()
			require.Error(t, <-over)
			call := rpc.At[none, none](b, "m").Future(t.Context(), none{})
			<-asked
			assert.False(t, call.Done())
			require.NoError(t, n.Stop("S"))
			must(call.Wait(blocking(t)))
		})
	}
}

// TestAMemberThatIsNamedNoMoreIsFree has the rules of a name be about A, and then about B.
func TestAMemberThatIsNamedNoMoreIsFree(t *testing.T) {
	rows := map[string]func(t *testing.T, n *rpc.Node, a, b rpc.Address){
		"after a restart": func(t *testing.T, n *rpc.Node, a, b rpc.Address) {
			t.Helper()
			var runs atomic.Int32
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
				if runs.Add(1) == 1 {
					s.Constrain(a, "m", func(guard.Request) bool { panic("a fault in a rule") })
					return
				}
				s.Constrain(b, "m", always)
			}))
		},
		"of a child that has ended": func(t *testing.T, n *rpc.Node, a, b rpc.Address) {
			t.Helper()
			tree := supervised(t, supervisor.OneForOne,
				n.SynchronizerChild("S", func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", never) }))
			tree.Stop()
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(b, "m", always) }))
		},
		"of a child, after a restart": func(t *testing.T, n *rpc.Node, a, b rpc.Address) {
			t.Helper()
			var runs atomic.Int32
			supervised(t, supervisor.OneForOne, n.SynchronizerChild("S", func(s *synchronizer.Synchronizer) {
				if runs.Add(1) == 1 {
					s.Constrain(a, "m", func(guard.Request) bool { panic("a fault in a rule") })
					return
				}
				s.Constrain(b, "m", always)
			}))
		},
		"after Stop": func(t *testing.T, n *rpc.Node, a, b rpc.Address) {
			t.Helper()
			var runs atomic.Int32
			boom := func(guard.Request) bool { panic("a fault in a rule") }
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
				s.Constrain(b, "boom", boom)
				if runs.Add(1) == 1 {
					s.Constrain(a, "m", never)
				}
			}))
			_ = rpc.At[none, none](b, "boom").Send(none{})
			becomes(t, 2, runs.Load)
			require.NoError(t, n.Stop("S"))
		},
	}
	for name, row := range rows {
		for where, nodes := range everyPairOfNodes {
			t.Run(name+", "+where, func(t *testing.T) {
				n, m := nodes(t)
				spawnCounting(t, m, "A", "m")
				b := spawnCounting(t, n, "B", "m", "boom")
				a := n.Remote(m.Name(), "A")
				row(t, n, a, b)
				passes(t, a, "m")
				passes(t, b, "m")
				require.NoError(t, m.Stop("A"))
				spawnCounting(t, m, "A", "m")
				passes(t, a, "m")
			})
		}
	}
}

// TestAnInitThatBlocksHoldsUpNothingElse has the init of a synchronizer not return until the test lets it.
func TestAnInitThatBlocksHoldsUpNothingElse(t *testing.T) {
	for _, run := range []int32{1, 2} {
		t.Run(fmt.Sprint("run ", run), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := aNode(t)
				a := spawnCounting(t, n, "A", "m")
				let := make(chan none)
				var runs atomic.Int32
				over := make(chan error, 1)
				go func() {
					_, err := n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
						if runs.Add(1) == run {
							<-let
						}
						s.Constrain(a, "m", func(guard.Request) bool { panic("a fault in a rule") })
					})
					over <- err
				}()
				synctest.Wait()
				if run == 2 {
					require.NoError(t, <-over)
					_ = rpc.At[none, none](a, "m").Send(none{})
					time.Sleep(time.Second)
				}
				start := time.Now()
				b := spawnCounting(t, n, "B", "m")
				must(n.Synchronize(t.Context(), "other", func(s *synchronizer.Synchronizer) { s.Constrain(b, "m", always) }))
				passes(t, b, "m")
				require.NoError(t, n.Stop("B"))
				require.NoError(t, n.Stop("other"))
				assert.Zero(t, time.Since(start))

				_, err := n.Spawn(t.Context(), "S", func(*rpc.Process) error { return nil })
				require.ErrorIs(t, err, supervisor.ErrAlreadyStarted)
				require.EqualError(t, n.Stop("S"), `rpc: synchronizer "S": rpc: would not stop and were abandoned: ["S"]`)
				assert.Equal(t, 5*time.Second, time.Since(start), "Stop waits no longer")
				if run == 1 {
					require.ErrorIs(t, <-over, supervisor.ErrStopped)
				}
				passes(t, a, "m")
				close(let)
				synctest.Wait()
				passes(t, a, "m")
				time.Sleep(time.Second) // for what the engine logs of a child that was abandoned
			})
		})
	}
}

func TestASynchronizerIsNoMemberOfAnother(t *testing.T) {
	for where, nodes := range everyPairOfNodes {
		t.Run(where, func(t *testing.T) {
			n, m := nodes(t)
			a := spawnCounting(t, n, "A", "m")
			must(m.Synchronize(t.Context(), "other", func(s *synchronizer.Synchronizer) {
				s.Constrain(m.Remote(n.Name(), "A"), "m", always)
			}))
			for _, name := range []string{"other", "S"} {
				of := n.Remote(m.Name(), name)
				if name == "S" {
					of = n.Address("S")
				}
				_, err := n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
					s.Constrain(a, "m", never)
					s.Constrain(of, "m", always)
				})
				require.EqualError(t, err,
					fmt.Sprintf(`rpc: synchronizer "S": %q is a synchronizer: it has no functions that rules could be for`, of), name)
				passes(t, a, "m")
				require.ErrorIs(t, n.Stop("S"), supervisor.ErrNotFound)
			}
		})
	}
}

// TestAMemberThatBecomesASynchronizerHoldsUpNothing has the name of a member be that of a synchronizer for some time.
func TestAMemberThatBecomesASynchronizerHoldsUpNothing(t *testing.T) {
	var log logged
	n := must(rpc.NewNode(rpc.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	a, late := spawnCounting(t, n, "A", "m"), n.Address("late")
	check, asked := refusing()
	var restarts atomic.Int32
	must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
		first := restarts.Add(1) == 1
		s.Constrain(a, "m", func(guard.Request) bool {
			if first {
				panic("a fault in a rule")
			}
			return true
		})
		s.Constrain(late, "m", check)
	}))
	must(n.Synchronize(t.Context(), "late", func(s *synchronizer.Synchronizer) { s.Constrain(n.Address("none"), "m", always) }))
	passes(t, a, "m")
	assert.Contains(t, log.String(), `level=ERROR msg="rpc: a member is a synchronizer" `+
		`error="synchronizer \"S\": \"#late\" is a synchronizer: it has no functions that rules could be for"`)
	require.NoError(t, n.Stop("late"))
	spawnCounting(t, n, "late", "m")
	_ = rpc.At[none, none](late, "m").Send(none{})
	<-asked
}

// TestANewSynchronizerIsFollowedWhileTheOneBeforeItEnds starts one while another of its name is being stopped.
func TestANewSynchronizerIsFollowedWhileTheOneBeforeItEnds(t *testing.T) {
	for where, nodes := range everyPairOfNodes {
		t.Run(where, func(t *testing.T) {
			n, m := nodes(t)
			spawnCounting(t, m, "A", "m")
			a := n.Remote(m.Name(), "A")
			check, asked := refusing()
			rules := func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", check) }
			must(n.Synchronize(t.Context(), "S", rules))
			for range 300 {
				stopped := make(chan error, 1)
				go func() { stopped <- n.Stop("S") }()
				for {
					_, err := n.Synchronize(t.Context(), "S", rules)
					if err == nil {
						break
					}
					require.ErrorIs(t, err, supervisor.ErrAlreadyStarted)
				}
				require.NoError(t, <-stopped)
				ctx, cancel := context.WithCancel(t.Context())
				call := rpc.At[none, none](a, "m").Future(ctx, none{})
				<-asked
				assert.False(t, call.Done())
				cancel()
			}
		})
	}
}

func TestErrorsOfSynchronizersSayWhatTheyAreAboutOnce(t *testing.T) {
	var log logged
	n := must(rpc.NewNode(rpc.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	a := spawnCounting(t, n, "A", "m")
	start := func(name string, init func(s *synchronizer.Synchronizer)) error {
		_, err := n.Synchronize(t.Context(), name, init)
		return err
	}
	fine := func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", always) }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.Synchronize(ended, "S", fine)
	require.EqualError(t, err, `rpc: synchronizer "S": context canceled`)
	require.EqualError(t, start("", fine), `rpc: synchronizer "": it has no name`)
	require.EqualError(t, start("S", nil), `rpc: synchronizer "S": init is nil`)
	require.EqualError(t, start("S", func(*synchronizer.Synchronizer) {}), `rpc: synchronizer "S": it has no rules`)
	require.EqualError(t, start("A", fine), `rpc: synchronizer "A": `+supervisor.ErrAlreadyStarted.Error())

	require.NoError(t, start("crashing", func(s *synchronizer.Synchronizer) {
		s.Constrain(a, "m", func(guard.Request) bool {
			s.Count(nil, "m")
			return true
		})
	}))
	call := rpc.At[none, none](a, "m").Future(t.Context(), none{})
	for !strings.Contains(log.String(), `synchronizer \"crashing\": Count of \"m\": the member is nil`) {
		runtime.Gosched()
	}
	for range 1000 { // in a pause before a restart, too
		require.ErrorIs(t, start("crashing", fine), supervisor.ErrAlreadyStarted)
	}
	require.NoError(t, n.Stop("crashing"))
	must(call.Wait(blocking(t)))

	require.NoError(t, n.Close())
	require.EqualError(t, start("S", fine), `rpc: synchronizer "S": transport: unreachable: node "" is closed`)
	_, err = n.Spawn(t.Context(), "P", func(*rpc.Process) error { return nil })
	require.EqualError(t, err, `rpc: process "P": transport: unreachable: node "" is closed`)
}

// TestAProcessLogsThatItWaitsForASynchronizer has the node of a synchronizer end, and time pass.
func TestAProcessLogsThatItWaitsForASynchronizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub transport.Hub
		var log logged
		n := nodeOn(t, hub.Join("n"))
		m := must(rpc.NewNode(rpc.Config{Transport: hub.Join("m"), Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		a := spawnCounting(t, m, "A", "m", "other")
		rules := func(n *rpc.Node) {
			must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) {
				s.Constrain(n.Remote("m", "A"), "m", always)
				s.Constrain(n.Remote("m", "A"), "other", always)
			}))
		}
		rules(n)
		require.NoError(t, n.Close())
		time.Sleep(time.Hour)
		assert.Empty(t, log.String(), "no request waits")
		call := rpc.At[none, none](a, "m").Future(t.Context(), none{})
		time.Sleep(time.Minute)
		line := `level=WARN msg="rpc: requests wait for a synchronizer that cannot be reached" process=m#A synchronizer=n#S functions=[m]`
		assert.Equal(t, 5, strings.Count(log.String(), line), "the pauses double")
		time.Sleep(10 * time.Hour)
		lines := strings.Count(log.String(), line)
		assert.InDelta(t, 66, lines, 5, "later each ten minutes")
		rules(nodeOn(t, hub.Join("n")))
		must(call.Wait(blocking(t)))
		time.Sleep(time.Hour)
		assert.Equal(t, lines, strings.Count(log.String(), line))
	})
}

// TestWhatEndsASynchronizerBeforeItsNodeIsClosedTakesItsRulesBack has a node be closed while one of its synchronizers ends otherwise.
func TestWhatEndsASynchronizerBeforeItsNodeIsClosedTakesItsRulesBack(t *testing.T) {
	rows := map[string]func(n *rpc.Node, busy rpc.Address, rules func(s *synchronizer.Synchronizer)) (end func() error){
		"Stop": func(n *rpc.Node, _ rpc.Address, rules func(s *synchronizer.Synchronizer)) (end func() error) {
			must(n.Synchronize(context.Background(), "S", rules))
			return func() error { return n.Stop("S") }
		},
		"the end of the context": func(n *rpc.Node, busy rpc.Address, rules func(s *synchronizer.Synchronizer)) (end func() error) {
			ctx, cancel := context.WithCancel(context.Background())
			over := make(chan error, 1)
			go func() {
				_, err := n.Synchronize(ctx, "S", func(s *synchronizer.Synchronizer) {
					rules(s)
					s.Constrain(busy, "m", always)
				})
				over <- err
			}()
			for rpc.Coordinated(n) == 0 {
				runtime.Gosched()
			}
			return func() error {
				cancel()
				if err := <-over; !errors.Is(err, context.Canceled) {
					return err
				}
				return nil
			}
		},
	}
	times := 200
	if testing.Short() {
		times = 40
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			ended := 0
			for i := range times {
				var hub transport.Hub
				n, m := nodeOn(t, hub.Join("n")), nodeOn(t, hub.Join("m"))
				a := n.Remote("m", spawnCounting(t, m, "A", "m").Process())
				busy, free := spawnBusy(t, m, "busy")
				check, asked := refusing()
				end := row(n, n.Remote("m", busy.Process()), func(s *synchronizer.Synchronizer) { s.Constrain(a, "m", check) })
				closed := make(chan error, 1)
				go func() {
					for range i % 10 {
						runtime.Gosched()
					}
					closed <- n.Close()
				}()
				err := end()
				require.NoError(t, <-closed)
				free()
				if err == nil {
					ended++
					passes(t, m.Address("A"), "m")
				} else if !errors.Is(err, supervisor.ErrNotFound) { // of a Stop after Close
					require.ErrorIs(t, err, rpc.ErrUnreachable)
				}
				assert.Empty(t, asked)
				require.NoError(t, m.Close())
			}
			t.Logf("%d of %d ended before their nodes", ended, times)
		})
	}
}

// TestWhatASynchronizerIsToldOfAnEarlierOneDoesNotMatter has a synchronizer be named as a member by mistake, and say so to the next one.
func TestWhatASynchronizerIsToldOfAnEarlierOneDoesNotMatter(t *testing.T) {
	n := aNode(t)
	b := spawnCounting(t, n, "B", "m")
	busy, free := spawnBusy(t, n, "busy")
	in, let := make(chan none, 10), make(chan none)
	other := must(n.Synchronize(t.Context(), "other", func(s *synchronizer.Synchronizer) {
		s.Constrain(b, "m", func(guard.Request) bool {
			in <- none{}
			<-let
			return true
		})
	}))
	call := rpc.At[none, none](b, "m").Future(t.Context(), none{})
	<-in
	sent := rpc.Coordinated(n)
	over := synchronizing(t.Context(), n, "S", other, always)
	for rpc.Coordinated(n) == sent {
		runtime.Gosched()
	}
	require.NoError(t, n.Stop("S"))
	require.ErrorIs(t, <-over, supervisor.ErrStopped)
	sent = rpc.Coordinated(n)
	over = synchronizing(t.Context(), n, "S", busy, always)
	for rpc.Coordinated(n) == sent {
		runtime.Gosched()
	}
	close(let)
	must(call.Wait(blocking(t)))
	passes(t, b, "m") // it is asked after it has answered
	free()
	require.NoError(t, <-over)
}

// deaf is a transport that loses what is sent while it is off.
type deaf struct {
	transport.Transport

	off atomic.Bool
}

func (d *deaf) Send(to string, m *transport.Message) error {
	if d.off.Load() {
		return transport.ErrUnreachable
	}
	return d.Transport.Send(to, m)
}

// TestAProcessAsksWhetherItsRulesAreInForce has a synchronizer end, or be replaced, when the node of a member cannot be told.
func TestAProcessAsksWhetherItsRulesAreInForce(t *testing.T) {
	rows := map[string]func(t *testing.T, n, reborn func() *rpc.Node, lost func(then func())){
		"after Stop": func(t *testing.T, n, _ func() *rpc.Node, lost func(then func())) {
			t.Helper()
			lost(func() { require.NoError(t, n().Stop("S")) })
		},
		"after Stop, when a process has the name": func(t *testing.T, n, _ func() *rpc.Node, lost func(then func())) {
			t.Helper()
			lost(func() {
				require.NoError(t, n().Stop("S"))
				spawnCounting(t, n(), "S")
			})
		},
		"after a Synchronize over another process": func(t *testing.T, n, _ func() *rpc.Node, lost func(then func())) {
			t.Helper()
			here := spawnCounting(t, n(), "here", "m")
			lost(func() {
				require.NoError(t, n().Stop("S"))
				must(n().Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(here, "m", always) }))
			})
		},
		"after a Synchronize of the next node over another process": func(t *testing.T, n, reborn func() *rpc.Node, _ func(then func())) {
			t.Helper()
			require.NoError(t, n().Close())
			time.Sleep(time.Millisecond)
			next := reborn()
			here := spawnCounting(t, next, "here", "m")
			time.Sleep(time.Hour)
			must(next.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(here, "m", always) }))
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hub transport.Hub
				line := &deaf{Transport: hub.Join("n")}
				n, m := nodeOn(t, line), nodeOn(t, hub.Join("m"))
				a := spawnCounting(t, m, "A", "m")
				check, asked := refusing()
				must(n.Synchronize(t.Context(), "S", func(s *synchronizer.Synchronizer) { s.Constrain(n.Remote("m", "A"), "m", check) }))
				call := rpc.At[none, none](a, "m").Future(t.Context(), none{})
				<-asked
				row(t, func() *rpc.Node { return n }, func() *rpc.Node { return nodeOn(t, hub.Join("n")) }, func(then func()) {
					line.off.Store(true)
					then()
					hub.Cut("n", "m")
					time.Sleep(time.Hour)
					assert.False(t, call.Done())
					line.off.Store(false)
				})
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.True(t, call.Done())
				passes(t, a, "m")
			})
		})
	}
}

// TestAProcessKeepsRulesThatMayBeInForce has the synchronizer of a member end in each way that does not take its rules back.
func TestAProcessKeepsRulesThatMayBeInForce(t *testing.T) {
	rules := func(n *rpc.Node, check func(guard.Request) bool) func(s *synchronizer.Synchronizer) {
		return func(s *synchronizer.Synchronizer) { s.Constrain(n.Remote("m", "A"), "m", check) }
	}
	one := func(child supervisor.Child) supervisor.Spec {
		return supervisor.Spec{
			Name: "test", Children: []supervisor.Child{child}, Log: slog.New(slog.DiscardHandler),
			Intensity: supervisor.Intensity{Restarts: 1 << 30, Within: time.Second},
			Backoff:   supervisor.Backoff{First: 24 * time.Hour, Max: 48 * time.Hour},
		}
	}
	rows := map[string]func(t *testing.T, n *rpc.Node, join func() *rpc.Node){
		"a child that waits to be restarted": func(t *testing.T, n *rpc.Node, _ func() *rpc.Node) {
			t.Helper()
			tree := must(supervisor.Start(t.Context(), nil, one(n.SynchronizerChild("S",
				rules(n, func(guard.Request) bool { panic("a fault in a rule") })))))
			t.Cleanup(func() { tree.Stop() })
		},
		"a child that was stopped": func(t *testing.T, n *rpc.Node, _ func() *rpc.Node) {
			t.Helper()
			must(supervisor.Start(t.Context(), nil, one(n.SynchronizerChild("S", rules(n, never))))).Stop()
		},
		"a node that was closed": func(t *testing.T, n *rpc.Node, _ func() *rpc.Node) {
			t.Helper()
			must(n.Synchronize(t.Context(), "S", rules(n, never)))
			require.NoError(t, n.Close())
		},
		"a node that has begun again, without the synchronizer": func(t *testing.T, n *rpc.Node, join func() *rpc.Node) {
			t.Helper()
			must(n.Synchronize(t.Context(), "S", rules(n, never)))
			require.NoError(t, n.Close())
			time.Sleep(time.Millisecond)
			spawnCounting(t, join(), "S")
		},
		"a synchronizer whose init blocks": func(t *testing.T, n *rpc.Node, join func() *rpc.Node) {
			t.Helper()
			must(n.Synchronize(t.Context(), "S", rules(n, never)))
			require.NoError(t, n.Close())
			time.Sleep(time.Millisecond)
			n = join()
			let := make(chan none)
			here := spawnCounting(t, n, "here", "m")
			over := make(chan error, 1)
			go func() {
				_, err := n.Synchronize(context.Background(), "S", func(s *synchronizer.Synchronizer) {
					<-let
					s.Constrain(here, "m", always)
				})
				over <- err
			}()
			t.Cleanup(func() {
				close(let)
				require.NoError(t, <-over)
			})
		},
	}
	long := 12 * time.Hour
	if testing.Short() {
		long = time.Hour
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hub transport.Hub
				n, m := nodeOn(t, hub.Join("n")), nodeOn(t, hub.Join("m"))
				a := spawnCounting(t, m, "A", "m")
				row(t, n, func() *rpc.Node { return nodeOn(t, hub.Join("n")) })
				call := rpc.At[none, none](a, "m").Future(t.Context(), none{})
				time.Sleep(long)
				assert.False(t, call.Done())
			})
		})
	}
}

func TestASynchronizeThatIsGivenUpSaysWhatItHasWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aNode(t)
		let := make(chan none)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			_, err := n.Synchronize(ctx, "S", func(*synchronizer.Synchronizer) { <-let })
			over <- err
		}()
		synctest.Wait()
		cancel()
		require.EqualError(t, <-over, `rpc: synchronizer "S": init has not returned: context canceled`)
		close(let)
		busy, free := spawnBusy(t, n, "busy")
		ctx, cancel = context.WithCancel(t.Context())
		given := synchronizing(ctx, n, "S", busy, always)
		synctest.Wait()
		cancel()
		require.EqualError(t, <-given, `rpc: synchronizer "S": not all of its processes have its rules: context canceled`)
		free()
		time.Sleep(time.Second) // for what the engine logs of a child that was abandoned
	})
}
