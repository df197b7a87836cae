package supervisor_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/supervisor"
)

// In a bubble a tree that waits for ever is found at once, because all goroutines are blocked.

func TestChildrenStartInOrderEachWaitingForTheOneBeforeAndStopInReverse(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.RestForOne, long, "a", "b", "c")
		for _, c := range h.children {
			c.scripts = []script{{startTakes: time.Second, stopTakes: time.Second}}
		}
		begun := time.Now()
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(begun))
		require.Equal(t, []string{"start a", "a is up", "start b", "b is up", "start c", "c is up"}, h.book.read())
		require.Empty(t, tree.Stop())
		require.Equal(t, 6*time.Second, time.Since(begun))
		require.Equal(t, []string{"stop c", "c is gone", "stop b", "b is gone", "stop a", "a is gone"}, h.book.read())
	})
}

func TestAStrategySaysWhichChildrenAreStoppedAndStartedInWhichOrder(t *testing.T) {
	held(t)
	for _, row := range []struct {
		strategy supervisor.Strategy
		fails    int
		want     []string
	}{
		{supervisor.OneForOne, 1, []string{"stop b", "b is gone", "start b", "b is up"}},
		{supervisor.RestForOne, 1, []string{
			"stop c", "c is gone", "stop b", "b is gone",
			"start b", "b is up", "start c", "c is up",
		}},
		{supervisor.OneForAll, 1, []string{
			"stop c", "c is gone", "stop b", "b is gone", "stop a", "a is gone",
			"start a", "a is up", "start b", "b is up", "start c", "c is up",
		}},
		{supervisor.OneForOne, 0, []string{"stop a", "a is gone", "start a", "a is up"}},
		{supervisor.RestForOne, 2, []string{"stop c", "c is gone", "start c", "c is up"}},
	} {
		for how, hurt := range map[string]func(*child){"panics": (*child).panics, "fails": (*child).fails} {
			t.Run(row.strategy.String()+"/"+"abc"[row.fails:row.fails+1]+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newActorTree(row.strategy, long, "a", "b", "c")
					for _, c := range h.children {
						c.scripts = []script{{startTakes: time.Second, stopTakes: time.Second}}
					}
					tree, err := h.start(t.Context())
					require.NoError(t, err)
					h.book.read()
					hurt(h.children[row.fails])
					time.Sleep(time.Minute)
					want := append([]string{"restart " + h.children[row.fails].name + ": boom"}, row.want...)
					require.Equal(t, want, h.book.read())
					require.Empty(t, tree.Stop())
				})
			})
		}
	}
}

func TestAChildThatIsKilledFromOutsideIsRestarted(t *testing.T) {
	held(t)
	for _, row := range []struct {
		strategy supervisor.Strategy
		want     []string
	}{
		{supervisor.OneForOne, []string{"start b", "b is up"}},
		{supervisor.RestForOne, []string{"stop c", "c is gone", "start b", "b is up", "start c", "c is up"}},
		{supervisor.OneForAll, []string{
			"stop c", "c is gone", "stop a", "a is gone",
			"start a", "a is up", "start b", "b is up", "start c", "c is up",
		}},
	} {
		t.Run(row.strategy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newActorTree(row.strategy, long, "a", "b", "c")
				tree, err := h.start(t.Context())
				require.NoError(t, err)
				h.book.read()
				h.children[1].isKilled()
				synctest.Wait()
				want := append([]string{"stop b", "b is gone", "restart b: killed"}, row.want...)
				require.Equal(t, want, h.book.read())
				require.Empty(t, tree.Stop())
			})
		})
	}
}

func TestAnIncarnationIsNeverResumedAndItsNameIsNeverUsedAgain(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.OneForOne, long, "a")
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		seen := map[string]bool{}
		for range 50 {
			id := h.children[0].PID().Id
			require.False(t, seen[id])
			seen[id] = true
			h.children[0].panics()
			synctest.Wait()
		}
		require.Empty(t, tree.Stop())
	})
}

func TestTooManyFailuresEscalateOnceAndTheChildrenLiveUntilStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.OneForOne, supervisor.Intensity{Restarts: 2, Within: time.Minute}, "a", "b", "c")
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		for range 2 {
			h.children[1].panics()
			synctest.Wait()
		}
		h.book.read()
		h.children[1].panics()
		synctest.Wait()
		require.Equal(t, []string{"gave up on b"}, h.book.read())
		h.children[0].panics() // c is not restarted
		h.children[2].isKilled()
		synctest.Wait()
		require.Equal(t, []string{"stop c", "c is gone"}, h.book.read())
		es := h.escalations()
		require.Len(t, es, 1)
		require.Equal(t, "b", es[0].Child)
		require.Equal(t, 2, es[0].Restarts)
		require.ErrorIs(t, es[0], errBoom)
		require.Empty(t, tree.Stop())
		require.Equal(t, []string{"stop b", "b is gone", "stop a", "a is gone"}, h.book.read())
	})
}

func TestTheStoryOfAnActorThatPanickedShowsWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.OneForOne, supervisor.Intensity{}, "a")
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		h.children[0].panics()
		synctest.Wait()
		es := h.escalations()
		require.Len(t, es, 1)
		crash, ok := errors.AsType[*supervisor.CrashError](es[0])
		require.True(t, ok)
		require.Equal(t, "a", crash.Child)
		require.Equal(t, errBoom, crash.Value)
		require.Contains(t, string(crash.Stack), "supervisor_test.(*tiny).Receive")
		require.Contains(t, es[0].Story(), "supervisor_test.(*tiny).Receive")
		require.Empty(t, tree.Stop())
	})
}

func TestFailuresOfAllChildrenCountAgainstOneIntensityAndOldOnesAreForgotten(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.OneForOne, supervisor.Intensity{Restarts: 1, Within: time.Minute}, "a", "b")
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		h.children[0].panics()
		time.Sleep(time.Minute + 1)
		h.children[1].panics()
		synctest.Wait()
		require.Empty(t, h.escalations())
		time.Sleep(time.Minute)
		h.children[0].panics()
		synctest.Wait()
		require.Len(t, h.escalations(), 1)
		require.Empty(t, tree.Stop())
	})
}

func TestAChildThatCannotStartStopsThoseBeforeItAndItsReasonIsReturned(t *testing.T) {
	held(t)
	for name, s := range map[string]script{
		"it says so":        {startFails: errBoom},
		"it says so late":   {startFails: errBoom, startTakes: time.Second},
		"it is not spawned": {spawnFails: errBoom},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newActorTree(supervisor.RestForOne, long, "a", "b", "c")
				h.children[1].scripts = []script{s}
				tree, err := h.start(t.Context())
				require.Nil(t, tree)
				require.ErrorIs(t, err, errBoom)
				lines := h.book.read()
				require.NotContains(t, lines, "start c")
				require.Equal(t, []string{"stop a", "a is gone"}, lines[len(lines)-2:])
				require.Empty(t, h.escalations())
			})
		})
	}
}

func TestAChildThatIsKilledDuringTheStartFailsTheStart(t *testing.T) {
	for i, name := range []string{"a child that is up, if it may not be restarted", "the child that is starting"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newActorTree(supervisor.RestForOne, supervisor.Intensity{}, "a", "b", "c")
				h.children[1].scripts = []script{{mute: true}}
				go func() {
					synctest.Wait()
					h.children[i].isKilled()
				}()
				tree, err := h.start(t.Context())
				require.Nil(t, tree)
				require.ErrorIs(t, err, supervisor.ErrKilled)
				require.Equal(t, 1, h.count("a is gone"))
				require.Equal(t, 1, h.count("b is gone"))
			})
		})
	}
}

func (h *actorTree) count(line string) int { return h.book.count(line) }

func TestAChildThatPanicsWhileItStartsFailsTheStart(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.RestForOne, long, "a", "b", "c")
		h.children[1].scripts = []script{{dies: true}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		tree, err := h.start(ctx)
		require.Nil(t, tree)
		require.ErrorIs(t, err, errBoom, "Start must return because of the failure, not wait for its context")
	})
}

func TestAStartEndsWithItsContext(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.RestForOne, long, "a", "b", "c")
		h.children[1].scripts = []script{{mute: true}}
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		tree, err := h.start(ctx)
		require.Nil(t, tree)
		require.ErrorIs(t, err, cause)
		require.Equal(t, []string{"start a", "a is up", "start b", "stop b", "b is gone", "stop a", "a is gone"}, h.book.read())
	})
}

// The supervisor comes up and the context ends at the same moment: Start must return, with either result.
func TestAStartWhoseContextEndsAsTheLastChildComesUpReturns(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			h := newActorTree(supervisor.RestForOne, long, "a", "b")
			ctx, cancel := context.WithCancel(t.Context())
			h.spec.Name = actor.Unique(system, "tree")
			up := h.children[1]
			up.scripts = []script{{startTakes: time.Second}}
			time.AfterFunc(time.Second, cancel)
			tree, err := h.start(ctx)
			if err == nil {
				tree.Stop()
			}
		})
	}
}

func TestATreeWithoutChildrenStartsAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.RestForOne, long)
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		require.Empty(t, tree.Stop())
	})
}

func TestAnEndedContextStartsNothingAndReturns(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			h := newActorTree(supervisor.RestForOne, long)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if tree, err := h.start(ctx); err == nil {
				tree.Stop()
			}
		})
	}
}

// Stop arrives before the report of a child that was not even spawned: both are messages to the supervisor, and it
// handles Stop's first.
func TestAStartWhoseContextEndsAsAChildIsNotSpawnedReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.RestForOne, long, "a")
		ctx, cancel := context.WithCancel(t.Context())
		h.spec.Children = []supervisor.Child{{
			Name: "a", Patience: time.Second,
			Spawn: func(actor.Spawner, string, func(error)) (*actor.PID, error) {
				cancel()
				time.Sleep(time.Second) // Start asks the supervisor to stop meanwhile
				return nil, errBoom
			},
		}}
		tree, err := supervisor.Start(ctx, system, h.spec)
		require.Nil(t, tree)
		require.Error(t, err)
	})
}

func TestAStuckChildIsAbandonedAfterItsPatienceAndNamed(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		h := newActorTree(supervisor.RestForOne, long, "a", "b", "c")
		h.children[1].scripts = []script{{stuck: free}}
		h.children[1].patience = time.Second
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		h.book.read()
		begun := time.Now()
		require.Equal(t, []string{"b"}, tree.Stop())
		require.Equal(t, time.Second, time.Since(begun))
		require.Equal(t, []string{"stop c", "c is gone", "stop b", "stop a", "a is gone"}, h.book.read())
		close(free) // its late end affects no other child
		synctest.Wait()
		require.Equal(t, []string{"b is gone"}, h.book.read())
		require.Equal(t, []string{"b"}, tree.Stop())
		time.Sleep(time.Minute) // protoactor's throttle of dead letters has to wake up and end
	})
}

func TestAStuckChildIsAbandonedInARestartToo(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		h := newActorTree(supervisor.OneForOne, long, "a", "b")
		h.children[0].scripts = []script{{stuck: free}, {}}
		h.children[0].patience = time.Second
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		h.book.read()
		h.children[0].fails()
		time.Sleep(time.Minute)
		require.Equal(t, []string{"restart a: boom", "stop a", "start a", "a is up"}, h.book.read())
		close(free)
		synctest.Wait()
		require.Equal(t, []string{"a is gone"}, h.book.read(), "the late end of the first incarnation is not taken for the second's")
		h.children[0].fails()
		synctest.Wait()
		require.Equal(t, []string{"restart a: boom", "stop a", "a is gone", "start a", "a is up"}, h.book.read())
		require.Equal(t, []string{"a"}, tree.Stop())
	})
}

func TestAFailureDuringARestartWidensIt(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.RestForOne, long, "a", "b", "c")
		for _, c := range h.children {
			c.scripts = []script{{stopTakes: time.Second}}
		}
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		h.book.read()
		h.children[2].fails()
		time.Sleep(time.Second / 2) // c is being stopped
		h.children[0].fails()
		time.Sleep(time.Minute)
		require.Equal(t, []string{
			"restart c: boom", "stop c", "restart a: boom", "c is gone",
			"stop b", "b is gone", "stop a", "a is gone",
			"start a", "a is up", "start b", "b is up", "start c", "c is up",
		}, h.book.read())
		require.Empty(t, tree.Stop())
	})
}

func TestAChildThatFailsWhileItIsToBeStoppedAnywayCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.OneForAll, supervisor.Intensity{Restarts: 1, Within: time.Hour}, "a", "b", "c")
		h.children[2].scripts = []script{{stopTakes: time.Second}}
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		h.book.read()
		h.children[0].fails()
		synctest.Wait()
		h.children[1].fails()
		time.Sleep(time.Minute)
		require.Empty(t, h.escalations())
		require.Equal(t, []string{
			"restart a: boom", "stop c", "c is gone", "stop b", "b is gone", "stop a", "a is gone",
			"start a", "a is up", "start b", "b is up", "start c", "c is up",
		}, h.book.read())
		require.Empty(t, tree.Stop())
	})
}

func TestAChildThatCannotBeRestartedIsTriedAgainUntilTheIntensityIsUsedUp(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.OneForOne, supervisor.Intensity{Restarts: 2, Within: time.Hour}, "a", "b")
		h.children[1].scripts = []script{{}, {startFails: errBoom}}
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		h.book.read()
		h.children[1].fails()
		synctest.Wait()
		require.Equal(t, []string{
			"restart b: boom", "stop b", "b is gone", "start b", "b cannot",
			"restart b: boom", "stop b", "b is gone", "start b", "b cannot",
			"gave up on b",
		}, h.book.read())
		require.Empty(t, tree.Stop())
		require.Equal(t, []string{"stop b", "b is gone", "stop a", "a is gone"}, h.book.read())
	})
}

func TestAChildThatIsNotSpawnedAgainIsTriedAgainToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.OneForOne, supervisor.Intensity{Restarts: 2, Within: time.Hour}, "a", "b")
		h.children[1].scripts = []script{{}, {spawnFails: errBoom}, {}}
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		h.book.read()
		h.children[1].fails()
		synctest.Wait()
		require.Equal(t, []string{
			"restart b: boom", "stop b", "b is gone", "cannot spawn b", "restart b: boom", "start b", "b is up",
		}, h.book.read())
		require.Empty(t, tree.Stop())
	})
}

// A supervisor that gave up restarts no child, so c, which was stopped because of b, stays down.
func TestASupervisorThatGaveUpStartsNoChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.RestForOne, supervisor.Intensity{Restarts: 1, Within: time.Hour}, "a", "b", "c")
		h.children[1].scripts = []script{{}, {startFails: errBoom}}
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		h.book.read()
		h.children[1].fails()
		synctest.Wait()
		require.Equal(t, []string{
			"restart b: boom", "stop c", "c is gone", "stop b", "b is gone", "start b", "b cannot",
			"gave up on b",
		}, h.book.read())
		require.Empty(t, tree.Stop())
	})
}

func TestStopDuringARestartEndsIt(t *testing.T) {
	held(t)
	for name, wait := range map[string]time.Duration{
		"while c stops":  time.Second / 2,
		"while b stops":  3 * time.Second / 2,
		"while b starts": 5 * time.Second / 2,
		"while c starts": 7 * time.Second / 2,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newActorTree(supervisor.RestForOne, long, "a", "b", "c")
				for _, c := range h.children {
					c.scripts = []script{{startTakes: time.Second, stopTakes: time.Second}}
				}
				tree, err := h.start(t.Context())
				require.NoError(t, err)
				h.children[1].fails()
				time.Sleep(wait)
				require.Empty(t, tree.Stop())
				for _, c := range h.children {
					require.Equal(t, h.count("start "+c.name), h.count(c.name+" is gone"), c.name)
					require.Equal(t, h.count("start "+c.name), h.count("stop "+c.name), c.name)
				}
				lines := h.book.read()
				require.Equal(t, "a is gone", lines[len(lines)-1])
			})
		})
	}
}

func TestStopMayBeCalledTwiceAndConcurrently(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.RestForOne, long, "a", "b")
		h.children[0].scripts = []script{{stopTakes: time.Second}}
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { tree.Stop() })
		}
		wg.Wait()
		require.Empty(t, tree.Stop())
		require.Equal(t, 1, h.count("stop a"))
		require.Equal(t, 1, h.count("stop b"))
	})
}

func TestASupervisorThatIsKilledFromOutsideStopsItsChildren(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.RestForOne, long, "a", "b")
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		system.Root.Stop(tree.PID())
		require.Empty(t, tree.Stop())
		require.Equal(t, 1, h.count("a is gone"))
		require.Equal(t, 1, h.count("b is gone"))
	})
}

func TestAChildThatPanicsInSpawnFailsTheStart(t *testing.T) {
	held(t)
	synctest.Test(t, func(t *testing.T) {
		h := newActorTree(supervisor.RestForOne, long)
		h.spec.Children = []supervisor.Child{{
			Name: "a", Patience: time.Second,
			Spawn: func(actor.Spawner, string, func(error)) (*actor.PID, error) { panic(errBoom) },
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		tree, err := supervisor.Start(ctx, system, h.spec)
		require.Nil(t, tree)
		require.ErrorIs(t, err, errBoom)
	})
}

func TestAThousandStopsDuringFailuresLeaveNoChildRunning(t *testing.T) {
	held(t)
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	strategies := []supervisor.Strategy{supervisor.OneForOne, supervisor.RestForOne, supervisor.OneForAll}
	for i := range rounds {
		h := newActorTree(strategies[i%3], supervisor.Intensity{Restarts: i % 7, Within: time.Hour}, "a", "b", "c")
		tree, err := h.start(t.Context())
		require.NoError(t, err)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for j, c := range h.children {
			wg.Go(func() {
				<-start
				for k := range 5 {
					switch (i + j + k) % 3 {
					case 0:
						c.panics()
					case 1:
						c.fails()
					default:
						c.isKilled()
					}
				}
			})
		}
		wg.Go(func() { <-start; tree.Stop() })
		close(start)
		wg.Wait()
		require.Empty(t, tree.Stop())
		require.LessOrEqual(t, len(h.escalations()), 1)
		for _, c := range h.children {
			require.Equal(t, h.count("start "+c.name), h.count(c.name+" is gone"), "round %d, %s", i, c.name)
		}
	}
}
