package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/supervisor"
)

func TestADeciderOverridesTheRestartType(t *testing.T) {
	held(t)
	errBad := errors.New("bad")
	for name, row := range map[string]struct {
		directive supervisor.Directive
		restart   supervisor.Restart
		want      string
		over      bool
	}{
		"as declared, permanent": {supervisor.AsDeclared, supervisor.Permanent, "running", false},
		"as declared, temporary": {supervisor.AsDeclared, supervisor.Temporary, "forgotten", false},
		"restart, temporary":     {supervisor.DoRestart, supervisor.Temporary, "running", false},
		"stop, permanent":        {supervisor.DoStop, supervisor.Permanent, "down", false},
		"escalate":               {supervisor.DoEscalate, supervisor.Permanent, "down", true},
		"unknown directive":      {supervisor.DoEscalate + 1, supervisor.Temporary, "down", true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newServices(supervisor.OneForOne, long, supervisor.Child{Name: "a", Restart: row.restart})
				c.spec.Decide = func(_ string, reason error) supervisor.Directive {
					if errors.Is(reason, errBad) {
						return row.directive
					}
					return supervisor.AsDeclared
				}
				tree := c.start(t)
				c.order("a", func() error { return errBad })
				require.Equal(t, row.want, state(tree, "a"))
				require.Equal(t, row.over, closed(tree.Done()))
				tree.Stop()
			})
		})
	}
}

func TestAnUnknownDirectiveEscalatesAndIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, named("a")...)
		c.spec.Decide = func(string, error) supervisor.Directive { return 99 }
		tree := c.start(t)
		c.order("a", boomed)
		require.ErrorIs(t, tree.Wait(), errBoom)
		require.ErrorContains(t, tree.Wait(), "no such directive: Directive(99)")
	})
}

// An escalation by the decider does not count as a restart.
func TestAStoryCountsTheRestartsMadeAlsoIfTheDeciderEscalates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, supervisor.Intensity{Restarts: 9, Within: time.Minute}, named("a")...)
		errBad := errors.New("bad")
		c.spec.Decide = func(_ string, reason error) supervisor.Directive {
			if errors.Is(reason, errBad) {
				return supervisor.DoEscalate
			}
			return supervisor.AsDeclared
		}
		tree := c.start(t)
		c.order("a", boomed)
		time.Sleep(2 * time.Minute)
		c.order("a", boomed)
		c.order("a", boomed)
		c.order("a", func() error { return errBad })
		e, ok := errors.AsType[*supervisor.EscalationError](tree.Wait())
		require.True(t, ok)
		require.Equal(t, 2, e.Restarts, "the first was more than a period ago")
	})
}

func TestACrashOfADeciderEscalatesAndACrashOfAHookChangesNothing(t *testing.T) {
	held(t)
	for name, crash := range map[string]func(){"panic": func() { panic(errBoom) }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newServices(supervisor.OneForOne, long, named("a")...)
				c.spec.Restarted = func(string, error) { crash() }
				tree := c.start(t)
				c.order("a", boomed)
				require.Equal(t, "running", state(tree, "a"), "a crash of the hook changes nothing")
				tree.Stop()
				c.spec.Name += "'"
				c.spec.Decide = func(string, error) supervisor.Directive { crash(); return supervisor.AsDeclared }
				tree = c.start(t)
				c.order("a", boomed)
				require.Error(t, tree.Wait(), "a crash of the decider escalates")
			})
		})
	}
}

func TestPausesGrowUpToALimitAndAreResetAfterACalmPeriod(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, named("a", "b")...)
		c.spec.Backoff = supervisor.Backoff{First: time.Second, Max: 5 * time.Second, Jitter: -1, Calm: time.Minute}
		tree := c.start(t)
		for _, want := range []int{1, 2, 4, 5, 5} {
			c.book.read()
			c.order("a", boomed)
			require.Equal(t, "restarting", state(tree, "a"))
			require.Equal(t, "running", state(tree, "b"))
			require.Contains(t, tree.Info().String(), "a: restarting for 0s")
			time.Sleep(time.Duration(want)*time.Second - time.Nanosecond)
			synctest.Wait()
			require.Empty(t, c.book.read())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.Equal(t, []string{"+a"}, c.book.read())
		}
		time.Sleep(time.Minute)
		c.order("a", boomed)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "running", state(tree, "a"), "failures before a calm period do not count")
		tree.Stop()
	})
}

func TestDependentsOfAPausingChildWaitForIt(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.RestForOne, long, named("a", "b", "c")...)
		c.spec.Backoff = supervisor.Backoff{First: time.Second, Jitter: -1}
		tree := c.start(t)
		c.book.read()
		c.order("b", boomed)
		require.Equal(t, []string{"-c"}, c.book.read())
		_, err := tree.Add(t.Context(), c.child("d", supervisor.Permanent))
		require.NoError(t, err, "a supervisor in a pause performs requests")
		time.Sleep(time.Second)
		synctest.Wait()
		require.ElementsMatch(t, []string{"+d", "+b", "+c"}, c.book.read())
		tree.Stop()
	})
}

func TestStopEndsAPause(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, named("a")...)
		c.spec.Backoff = supervisor.Backoff{First: time.Hour}
		tree := c.start(t)
		c.order("a", boomed)
		begun := time.Now()
		require.Empty(t, tree.Stop())
		require.Zero(t, time.Since(begun))
	})
}

func TestRunEndsWellWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, named("a", "b")...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, supervisor.Run(ctx, c.spec))
		require.ElementsMatch(t, []string{"+a", "+b", "-b", "-a"}, c.book.read())
	})
}

func TestRunReturnsWhyItGaveUpOrCouldNotStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		crash := supervisor.Service("a", func(context.Context) error { return errBoom })
		require.ErrorIs(t, supervisor.Run(t.Context(), supervisor.Spec{Log: quiet, Children: []supervisor.Child{crash}}), errBoom)
		bad := readyService("a", func(context.Context, func()) error { return errBoom })
		require.ErrorIs(t, supervisor.Run(t.Context(), supervisor.Spec{Log: quiet, Children: []supervisor.Child{bad}}), errBoom)
	})
}

func TestAServicesContextHasTheValuesOfTheStartAndNotItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, 7))
		tree, err := supervisor.Start(ctx, system, supervisor.Spec{Children: []supervisor.Child{
			supervisor.Service("a", func(ctx context.Context) error {
				if ctx.Value(key{}) != 7 {
					t.Error("no value")
				}
				<-ctx.Done()
				return nil
			}),
		}})
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		require.False(t, closed(tree.Done()))
		tree.Stop()
	})
}

func TestAServiceThatCrashesWhenItIsAskedToStopIsNotRestarted(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, supervisor.Child{Name: "a", Run: func(ctx context.Context) error {
			<-ctx.Done()
			panic(errBoom)
		}})
		tree := c.start(t)
		require.NoError(t, tree.Terminate("a"))
		require.ErrorIs(t, tree.Children()[0].Last, errBoom)
		require.Empty(t, tree.Stop())
		require.NoError(t, tree.Wait())
	})
}

// mortal is an actor that crashes while it handles its stop.
type mortal struct {
	stopped bool
	crash   func()
	book    *diary
}

func (a *mortal) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Stopping:
		a.book.write("stopping")
		if !a.stopped {
			a.crash()
		}
	case *actor.Stopped:
		a.book.write("stopped")
		if a.stopped {
			a.crash()
		}
	case boom:
		panic(errBoom)
	}
}

func TestAnActorThatCrashesWhileItStopsBlocksNothing(t *testing.T) {
	held(t)
	for name, crash := range map[string]func(){"panic": func() { panic(errBoom) }, "Goexit": runtime.Goexit} {
		for at, stopped := range map[string]bool{"stopping": false, "stopped": true} {
			t.Run(name+" when "+at, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					var pid *actor.PID
					var book diary
					tree, err := supervisor.Start(t.Context(), system, supervisor.Spec{Intensity: long, Children: []supervisor.Child{{
						Name: "a", Patience: supervisor.Infinity,
						Spawn: func(by supervisor.Spawner, name string, ready func(error)) (_ *actor.PID, err error) {
							ready(nil)
							pid, err = actor.Spawn(by, name, actor.NewMailbox(nil), func() actor.Actor { return &mortal{stopped, crash, &book} })
							return pid, err
						},
					}}})
					require.NoError(t, err)
					first := pid
					system.Root.Send(pid, boom{})
					synctest.Wait()
					require.NotEqual(t, first.Id, pid.Id, "replaced after a crash, and a crash while it stopped")
					require.Equal(t, 1, tree.Children()[0].Restarts)
					second := pid
					system.Root.Stop(pid)
					synctest.Wait()
					require.NotEqual(t, second.Id, pid.Id, "the same if it is killed")
					require.Empty(t, tree.Stop())
					require.Equal(t, []string{"stopping", "stopped", "stopping", "stopped", "stopping", "stopped"}, book.read())
				})
			})
		}
	}
}

func TestStopWithinLimitsAllChildrenTogetherAndLeavesEachAMoment(t *testing.T) {
	for name, row := range map[string]struct{ within, want time.Duration }{
		"one limit for all":            {time.Second, time.Second + 2*100*time.Millisecond},
		"no time at all":               {0, 3 * 100 * time.Millisecond},
		"a limit in the past":          {-time.Hour, 3 * 100 * time.Millisecond},
		"longer than their own limits": {24 * time.Hour, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				free := make(chan struct{})
				c := newServices(supervisor.OneForOne, long)
				for _, name := range []string{"a", "b", "c"} {
					c.spec.Children = append(c.spec.Children, supervisor.Child{Name: name, Patience: time.Hour, Run: func(context.Context) error {
						<-free
						return nil
					}})
				}
				tree := c.start(t)
				begun := time.Now()
				require.Equal(t, []string{"c", "b", "a"}, tree.StopWithin(row.within))
				require.Equal(t, row.want, time.Since(begun))
				close(free)
			})
		})
	}
}

func TestASupervisorThatIsKilledWaitsNoLongerForAStuckChildThanItsPatience(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		free := make(chan struct{})
		c := newServices(supervisor.OneForOne, long, supervisor.Child{Name: "stuck", Patience: time.Second, Run: func(context.Context) error {
			<-free
			return nil
		}}, supervisor.Child{Name: "b"})
		tree := c.start(t)
		begun := time.Now()
		system.Root.Stop(tree.PID())
		err := tree.Wait()
		require.ErrorIs(t, err, supervisor.ErrKilled)
		var left *supervisor.LeftError
		require.ErrorAs(t, err, &left)
		require.Equal(t, []string{"stuck"}, left.Left)
		require.Equal(t, time.Second, time.Since(begun))
		close(free)
	})
}

func TestANestedSupervisorWithAStuckChildNamesIt(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		free := make(chan struct{})
		stuck := supervisor.Service("stuck", func(context.Context) error { <-free; return nil })
		stuck.Patience = supervisor.Infinity
		c := newServices(supervisor.OneForOne, long, nested(supervisor.Spec{Name: "sub", Children: []supervisor.Child{stuck}}))
		tree := c.start(t)
		go func() {
			time.Sleep(time.Second)
			tree.StopWithin(time.Second)
		}()
		begun := time.Now()
		require.Equal(t, []string{"sub/stuck"}, tree.Stop(), "a second Stop hastens the first")
		require.Equal(t, 2*time.Second, time.Since(begun))
		close(free)
	})
}

func TestARequestEndsWithItsSupervisor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long)
		tree := c.start(t)
		var wg sync.WaitGroup
		mute := readyService("mute", func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil })
		wg.Go(func() {
			_, err := tree.Add(t.Context(), mute)
			require.ErrorIs(t, err, supervisor.ErrStopped)
		})
		synctest.Wait()
		wg.Go(func() { require.ErrorIs(t, tree.Terminate("mute"), supervisor.ErrStopped) })
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := tree.Add(ctx, c.child("b", supervisor.Permanent))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		time.Sleep(2 * time.Second)
		require.Equal(t, "starting", state(tree, "mute"))
		tree.Stop()
		wg.Wait()
	})
}

func TestAnAddedChildThatIsInterruptedByASiblingsFailureComesAfterIt(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForAll, long, named("a")...)
		tree := c.start(t)
		starts := 0
		slow := readyService("slow", func(ctx context.Context, ready func()) error {
			if starts++; starts > 1 {
				ready()
			}
			<-ctx.Done()
			return nil
		})
		go func() {
			synctest.Wait()
			c.channel("a") <- boomed
		}()
		_, err := tree.Add(t.Context(), slow)
		require.NoError(t, err)
		require.Equal(t, 2, starts)
		require.Equal(t, []string{"a", "slow"}, names(tree))
		tree.Stop()
	})
}

func TestTwoChildrenThatFailAtOnceAreBothRestarted(t *testing.T) {
	held(t)
	for _, strategy := range []supervisor.Strategy{supervisor.OneForOne, supervisor.RestForOne, supervisor.OneForAll} {
		bubble(t, func(t *testing.T) {
			c := newServices(strategy, long, named("a", "b", "c")...)
			tree := c.start(t)
			c.channel("a") <- boomed
			c.channel("c") <- boomed
			synctest.Wait()
			for _, k := range tree.Children() {
				require.Equal(t, supervisor.Running, k.State)
			}
			require.Empty(t, tree.Stop())
		})
	}
}

// On one processor a child that fails at once is due again before those after it: they are started all the same. Those that
// depend on it wait until it stays up, and then Start ends with its context.
func TestManyFailuresDoNotBlockStop(t *testing.T) {
	held(t)
	for _, cpus := range []int{1, runtime.NumCPU()} {
		for _, strategy := range []supervisor.Strategy{supervisor.OneForOne, supervisor.RestForOne, supervisor.OneForAll} {
			t.Run(fmt.Sprintf("%v on %d", strategy, cpus), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cpus))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var failures atomic.Int64
				crash := func(context.Context) error {
					if failures.Add(1) == 1000 && strategy != supervisor.OneForOne {
						cancel()
					}
					return errBoom
				}
				tree, err := supervisor.Start(ctx, system, supervisor.Spec{
					Strategy: strategy, Intensity: supervisor.Intensity{Restarts: 1 << 30, Within: time.Millisecond},
					Children: []supervisor.Child{supervisor.Service("a", crash), supervisor.Service("b", crash), supervisor.Service("c", crash)},
				})
				if strategy != supervisor.OneForOne && err != nil {
					require.ErrorIs(t, err, context.Canceled)
					return
				}
				require.NoError(t, err)
				_ = tree.Info()
				require.Empty(t, tree.Stop())
			})
		}
	}
}

// Stops, failures and changes of the children interleave, thousands of times.
func TestNoChildIsLeftRunningWhenEverythingHappensAtOnce(t *testing.T) {
	held(t)
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	strategies := []supervisor.Strategy{supervisor.OneForOne, supervisor.RestForOne, supervisor.OneForAll, supervisor.SimpleOneForOne}
	for i := range rounds {
		var alive atomic.Int64
		live := func(ctx context.Context, ready func()) error {
			alive.Add(1)
			defer alive.Add(-1)
			ready()
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Duration(i%5) * 20 * time.Microsecond):
				return errBoom
			}
		}
		spec := supervisor.Spec{Strategy: strategies[i%4], Intensity: supervisor.Intensity{Restarts: i % 50, Within: time.Hour}}
		if i%3 == 0 {
			spec.Backoff = supervisor.Backoff{First: 10 * time.Microsecond, Max: 100 * time.Microsecond}
		}
		child := func(name string, r supervisor.Restart) supervisor.Child {
			return supervisor.Child{Name: name, Serve: live, Restart: r}
		}
		if spec.Strategy != supervisor.SimpleOneForOne {
			spec.Children = []supervisor.Child{
				child("a", supervisor.Permanent), child("b", supervisor.Transient), child("c", supervisor.Temporary),
				{Name: "sub", Supervisor: &supervisor.Spec{Intensity: supervisor.Intensity{Restarts: 2, Within: time.Hour}, Children: []supervisor.Child{child("x", supervisor.Permanent)}}},
			}
		}
		tree, err := supervisor.Start(t.Context(), system, spec)
		if err != nil {
			require.ErrorIs(t, err, errBoom) // it ended before all were started
			require.Zero(t, alive.Load())
			continue
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 5 {
				id, _ := tree.Add(t.Context(), child("d", supervisor.Permanent))
				_ = tree.Terminate(id)
				_ = tree.Delete(id)
				_ = tree.Info().String()
			}
		})
		wg.Go(func() {
			for _, name := range []string{"a", "b", "c", "sub"} {
				_ = tree.Terminate(name)
				_ = tree.Restart(t.Context(), name)
			}
		})
		if i%2 == 0 {
			wg.Go(func() { tree.Stop() })
		}
		wg.Wait()
		require.Empty(t, tree.Stop())
		require.Zero(t, alive.Load(), "round %d, %v", i, spec.Strategy)
	}
}

func TestAStoryKeepsOnlyTheLastFailures(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, supervisor.Intensity{Restarts: 100, Within: time.Hour}, named("a")...)
		tree := c.start(t)
		for range 101 {
			c.order("a", boomed)
		}
		var story *supervisor.EscalationError
		require.ErrorAs(t, tree.Wait(), &story)
		require.Equal(t, 100, story.Restarts)
		require.Len(t, story.Failures, 16)
		require.True(t, slices.IsSortedFunc(story.Failures, func(a, b supervisor.Failure) int { return a.At.Compare(b.At) }))
	})
}

func TestGaveUpKeepsTheChildrenRunningOnlyInTheTopSupervisor(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		var gaveUp []string
		c := newServices(supervisor.OneForOne, supervisor.Intensity{}, named("a")...)
		c.spec.GaveUp = func(e *supervisor.EscalationError) { gaveUp = append(gaveUp, e.Child) }
		c.spec.Children = append(c.spec.Children, nested(supervisor.Spec{
			Name: "sub", GaveUp: c.spec.GaveUp, Children: []supervisor.Child{c.child("x", supervisor.Permanent)},
		}))
		tree := c.start(t)
		c.order("x", boomed)
		require.Equal(t, []string{"x", "sub"}, gaveUp)
		require.Equal(t, "running", state(tree, "a"))
		require.Equal(t, "forgotten", state(tree, "x"))
		_, err := tree.Add(t.Context(), c.child("late", supervisor.Permanent))
		require.ErrorIs(t, err, supervisor.ErrStopped)
		require.Empty(t, tree.Stop())
		require.ErrorIs(t, tree.Wait(), errBoom)
	})
}

func TestTerminatingAStuckChildReturnsLeftErrorAndAbandonsIt(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		free := make(chan struct{})
		stuck := supervisor.Child{Name: "stuck", Patience: time.Second, Run: func(context.Context) error { <-free; return nil }}
		c := newServices(supervisor.OneForOne, long, stuck)
		tree := c.start(t)
		var left *supervisor.LeftError
		require.ErrorAs(t, tree.Terminate("stuck"), &left)
		require.NoError(t, tree.Restart(t.Context(), "stuck"), "a new incarnation, under a new name")
		require.ErrorAs(t, tree.Remove("stuck"), &left)
		require.Empty(t, tree.Children())
		require.Equal(t, []string{"stuck"}, tree.Stop(), "named once")
		close(free)
	})
}

func TestAnAbandonedNestedSupervisorIsNotQueried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		free := make(chan struct{})
		hangs := supervisor.Child{Name: "hangs", Spawn: func(supervisor.Spawner, string, func(error)) (*actor.PID, error) {
			<-free
			return nil, errBoom
		}}
		sub := nested(supervisor.Spec{Name: "sub", Children: []supervisor.Child{hangs}})
		sub.Patience = time.Second
		c := newServices(supervisor.OneForOne, long)
		tree := c.start(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := tree.Add(ctx, sub)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, tree.Info().Children)
		require.Equal(t, []string{"sub"}, tree.Stop())
		close(free)
	})
}

func TestANestedSupervisorThatIsEndedFromOutsideIsRestartedAsItsTypeSays(t *testing.T) {
	held(t)
	for name, row := range map[string]struct {
		restart supervisor.Restart
		end     func(*supervisor.Tree)
		want    string
	}{
		"permanent, killed":          {supervisor.Permanent, func(s *supervisor.Tree) { system.Root.Stop(s.PID()) }, "running"},
		"transient, killed":          {supervisor.Transient, func(s *supervisor.Tree) { system.Root.Stop(s.PID()) }, "running"},
		"temporary, killed":          {supervisor.Temporary, func(s *supervisor.Tree) { system.Root.Stop(s.PID()) }, "forgotten"},
		"permanent, stopped by hand": {supervisor.Permanent, func(s *supervisor.Tree) { s.Stop() }, "running"},
		"transient, stopped by hand": {supervisor.Transient, func(s *supervisor.Tree) { s.Stop() }, "down"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newServices(supervisor.OneForOne, long)
				sub := nested(supervisor.Spec{Name: "sub", Children: []supervisor.Child{c.child("x", supervisor.Permanent)}})
				sub.Restart = row.restart
				c.spec.Children = []supervisor.Child{sub}
				tree := c.start(t)
				below, ok := tree.Sub("sub")
				require.True(t, ok)
				require.Equal(t, c.spec.Name+"/sub", below.Name())
				row.end(below)
				synctest.Wait()
				require.True(t, closed(below.Done()))
				require.Equal(t, row.want, state(tree, "sub"))
				_, ok = tree.Sub("missing")
				require.False(t, ok)
				require.Empty(t, tree.Stop())
				lines := c.book.read()
				require.Len(t, lines, 2*countPlus(lines), "every child that started has stopped")
			})
		})
	}
}

func TestStatesAndTypesHaveTheirNames(t *testing.T) {
	for want, got := range map[string]interface{ String() string }{
		"down": supervisor.Down, "starting": supervisor.Starting, "running": supervisor.Running,
		"stopping": supervisor.Stopping, "restarting": supervisor.Restarting, "State(9)": supervisor.State(9),
		"never": supervisor.AutoShutdown(0), "any_significant": supervisor.AnySignificant, "all_significant": supervisor.AllSignificant,
		"AutoShutdown(9)": supervisor.AutoShutdown(9), "permanent": supervisor.Permanent, "Restart(9)": supervisor.Restart(9),
	} {
		require.Equal(t, want, got.String())
	}
}

// heavy is an actor with something to hold.
type heavy struct{ held [1 << 16]byte }

func (h *heavy) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(boom); ok {
		h.held[0]++
		panic(errBoom)
	}
}

// A PID of protoactor's keeps the process that it was last used for, and with it all of a dead actor. The supervisor
// must not keep such a PID.
func TestNothingIsKeptOfAnIncarnationThatHasEnded(t *testing.T) {
	held(t)
	const crashes = 5
	var starts []weak.Pointer[heavy]
	up := make(chan *actor.PID, 1)
	tree, err := supervisor.Start(t.Context(), system, supervisor.Spec{
		Name: actor.Unique(system, "light"), Intensity: supervisor.Intensity{Restarts: crashes, Within: time.Hour},
		Children: []supervisor.Child{{Name: "a", Spawn: func(by actor.Spawner, name string, ready func(error)) (*actor.PID, error) {
			pid, err := actor.Spawn(by, name, actor.NewMailbox(nil), func() actor.Actor {
				h := &heavy{}
				starts = append(starts, weak.Make(h))
				return h
			})
			ready(err)
			up <- pid
			return pid, err
		}}},
	})
	require.NoError(t, err)
	defer tree.Stop()
	for range crashes {
		system.Root.Send(<-up, boom{})
	}
	<-up
	require.Eventually(t, func() bool {
		runtime.GC()
		left := 0
		for _, h := range starts {
			if h.Value() != nil {
				left++
			}
		}
		return left == 1
	}, 20*time.Second, time.Millisecond)
	require.Equal(t, "running", state(tree, "a"))
}
