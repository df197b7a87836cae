package supervisor_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/supervisor"
)

// The rows of docs/supervision.md.

func TestServicesStartInOrderAndStopInReverse(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, named("a", "b", "c")...)
		tree := c.start(t)
		require.ElementsMatch(t, []string{"+a", "+b", "+c"}, c.book.read())
		require.Empty(t, tree.Stop())
		require.Equal(t, []string{"-c", "-b", "-a"}, c.book.read())
		require.NoError(t, tree.Wait())
	})
}

func TestAServiceIsReadyWhenItSaysSoAndTheNextWaitsForIt(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long)
		slow := readyService("slow", func(ctx context.Context, ready func()) error {
			time.Sleep(time.Second)
			c.book.write("slow is up")
			ready()
			<-ctx.Done()
			return nil
		})
		c.spec.Children = []supervisor.Child{slow, c.child("b", supervisor.Permanent)}
		begun := time.Now()
		tree := c.start(t)
		require.Equal(t, time.Second, time.Since(begun))
		require.Equal(t, []string{"slow is up", "+b"}, c.book.read())
		require.Empty(t, tree.Stop())
	})
}

func TestAServiceThatCannotStartStopsThoseBeforeIt(t *testing.T) {
	held(t)
	for name, serve := range map[string]func(context.Context, func()) error{
		"it returns an error": func(context.Context, func()) error { return errBoom },
		"it panics":           func(context.Context, func()) error { panic(errBoom) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newServices(supervisor.OneForOne, long, named("a", "b")...)
				c.spec.Children = append(c.spec.Children, readyService("bad", serve), c.child("never", supervisor.Permanent))
				tree, err := supervisor.Start(t.Context(), system, c.spec)
				require.Nil(t, tree)
				var cannot *supervisor.StartError
				require.ErrorAs(t, err, &cannot)
				require.Equal(t, "bad", cannot.Child)
				require.ErrorIs(t, err, errBoom)
				require.Subset(t, []string{"+a", "+b", "-b", "-a"}, c.book.read())
			})
		})
	}
}

func TestAStartHasALimitIfItIsGivenOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mute := readyService("mute", func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil })
		mute.StartLimit = time.Second
		_, err := supervisor.Start(t.Context(), system, supervisor.Spec{Children: []supervisor.Child{mute}})
		require.ErrorIs(t, err, supervisor.ErrSlow)
	})
}

func TestRestartTypesDecideByTheReasonOfTheEnd(t *testing.T) {
	held(t)
	reasons := map[string]func() error{
		"normal": normal, "shutdown": shutdown, "{shutdown,_}": wrappedShutdown,
		"error": boomed, "panic": panicked, "goexit": exited,
	}
	for _, row := range []struct {
		restart  supervisor.Restart
		well     string // state after normal, shutdown, {shutdown,_}
		crashed  string
		restarts bool
	}{
		{supervisor.Permanent, "running", "running", true},
		{supervisor.Transient, "down", "running", false},
		{supervisor.Temporary, "forgotten", "forgotten", false},
	} {
		for name, end := range reasons {
			t.Run(row.restart.String()+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					c := newServices(supervisor.OneForOne, long, supervisor.Child{Name: "a", Restart: row.restart})
					tree := c.start(t)
					c.order("a", end)
					want := row.crashed
					if name == "normal" || name == "shutdown" || name == "{shutdown,_}" {
						want = row.well
					}
					assert.Equal(t, want, state(tree, "a"))
					require.Empty(t, tree.Stop())
					require.NoError(t, tree.Wait())
				})
			})
		}
	}
}

func TestACrashOfAServiceHasAStack(t *testing.T) {
	held(t)
	for name, end := range map[string]func() error{"panic": panicked, "Goexit": exited} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newServices(supervisor.OneForOne, supervisor.Intensity{}, named("a")...)
				tree := c.start(t)
				c.order("a", end)
				err := tree.Wait()
				var crash *supervisor.CrashError
				require.ErrorAs(t, err, &crash)
				require.Contains(t, string(crash.Stack), "services_test.go")
				var story *supervisor.EscalationError
				require.ErrorAs(t, err, &story)
				require.Contains(t, story.Story(), "services_test.go")
			})
		})
	}
}

func TestAPanicWithErrShutdownIsACrash(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, supervisor.Child{Name: "a", Restart: supervisor.Transient})
		tree := c.start(t)
		c.order("a", func() error { panic(supervisor.ErrShutdown) })
		require.Equal(t, "running", state(tree, "a"))
		tree.Stop()
	})
}

func TestTemporarySiblingsAreForgottenAndOthersStartedAgain(t *testing.T) {
	held(t)
	for _, row := range []struct {
		strategy supervisor.Strategy
		want     []string
		left     []string
	}{
		{supervisor.OneForOne, []string{"+b"}, []string{"a", "b", "temp", "d"}},
		{supervisor.RestForOne, []string{"-d", "-temp", "+b", "+d"}, []string{"a", "b", "d"}},
		{supervisor.OneForAll, []string{"-d", "-temp", "-a", "+a", "+b", "+d"}, []string{"a", "b", "d"}},
	} {
		t.Run(row.strategy.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newServices(row.strategy, long, supervisor.Child{Name: "a"}, supervisor.Child{Name: "b"},
					supervisor.Child{Name: "temp", Restart: supervisor.Temporary}, supervisor.Child{Name: "d"})
				tree := c.start(t)
				c.book.read()
				c.order("b", boomed)
				lines := c.book.read()
				require.ElementsMatch(t, row.want, lines)
				stops := len(row.want) - countPlus(row.want)
				require.Equal(t, row.want[:stops], lines[:stops], "in reverse order, before any child starts")
				require.Equal(t, row.left, names(tree))
				tree.Stop()
			})
		})
	}
}

func countPlus(lines []string) (n int) {
	for _, l := range lines {
		if l[0] == '+' {
			n++
		}
	}
	return n
}

// As in OTP, where restart_multiple_children starts all children in the list.
func TestChildrenThatAreDownAreStartedAgainOnBehalfOfAnother(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.RestForOne, long, supervisor.Child{Name: "a"},
			supervisor.Child{Name: "ended", Restart: supervisor.Transient}, supervisor.Child{Name: "terminated"})
		tree := c.start(t)
		c.order("ended", normal)
		require.NoError(t, tree.Terminate("terminated"))
		require.Equal(t, "down", state(tree, "ended"))
		require.Equal(t, "down", state(tree, "terminated"))
		c.order("a", boomed)
		require.Equal(t, "running", state(tree, "ended"))
		require.Equal(t, "running", state(tree, "terminated"))
		tree.Stop()
	})
}

func TestOneRestartTooManyStopsAllInReverseAndTheSupervisor(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, supervisor.Intensity{Restarts: 2, Within: 5 * time.Second}, named("a", "b", "c")...)
		tree := c.start(t)
		c.order("b", boomed)
		c.order("a", normal) // it counts, too
		c.book.read()
		c.order("b", boomed)
		<-tree.Done()
		require.Equal(t, []string{"-c", "-a"}, c.book.read())
		var story *supervisor.EscalationError
		require.ErrorAs(t, tree.Wait(), &story)
		require.Equal(t, "b", story.Child)
		require.Equal(t, 2, story.Restarts)
		require.Len(t, story.Failures, 3)
		require.Contains(t, story.Story(), "one restart too many")
		require.Equal(t, "down", state(tree, "a"))
		_, err := tree.Add(t.Context(), c.child("d", supervisor.Permanent))
		require.ErrorIs(t, err, errBoom, "the error says why the supervisor ended")
	})
}

func TestARestartAtTheEdgeOfThePeriodStillCounts(t *testing.T) {
	held(t)
	for name, row := range map[string]struct {
		gap  time.Duration
		many bool
	}{"at the end": {5 * time.Second, true}, "after it": {5*time.Second + 1, false}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newServices(supervisor.OneForOne, supervisor.Intensity{Restarts: 1, Within: 5 * time.Second}, named("a")...)
				tree := c.start(t)
				c.order("a", boomed)
				time.Sleep(row.gap)
				c.order("a", boomed)
				select {
				case <-tree.Done():
					require.True(t, row.many)
				default:
					require.False(t, row.many)
				}
				tree.Stop()
			})
		})
	}
}

func TestAFailureToStartInARestartCountsAsAnotherRestart(t *testing.T) {
	held(t)
	for _, restart := range []supervisor.Restart{supervisor.Permanent, supervisor.Transient} {
		bubble(t, func(t *testing.T) {
			starts := 0
			child := supervisor.Child{Name: "a", Restart: restart, Serve: func(ctx context.Context, ready func()) error {
				if starts++; starts == 1 {
					ready()
					time.Sleep(time.Second)
				}
				return errBoom
			}}
			c := newServices(supervisor.OneForOne, supervisor.Intensity{Restarts: 3, Within: time.Hour}, child)
			tree := c.start(t)
			var story *supervisor.EscalationError
			require.ErrorAs(t, tree.Wait(), &story)
			require.Equal(t, 4, starts)
			require.Len(t, story.Failures, 4)
			require.True(t, story.Failures[3].Starting)
		})
	}
}

func TestShutdownValues(t *testing.T) {
	held(t)
	for name, row := range map[string]struct {
		patience, takes, want time.Duration
		left                  bool
	}{
		"by default five seconds":          {0, time.Hour, 5 * time.Second, true},
		"a limit that is kept":             {time.Minute, time.Second, time.Second, false},
		"a limit that is not":              {time.Minute, time.Hour, time.Minute, true},
		"infinity":                         {supervisor.Infinity, time.Hour, time.Hour, false},
		"brutal kill, which does not wait": {supervisor.BrutalKill, time.Hour, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newServices(supervisor.OneForOne, long, supervisor.Child{Name: "a", Patience: row.patience, Run: func(ctx context.Context) error {
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), supervisor.ErrShutdown) {
						t.Error(context.Cause(ctx))
					}
					time.Sleep(row.takes)
					return nil
				}})
				tree := c.start(t)
				begun := time.Now()
				left := tree.Stop()
				require.Equal(t, row.want, time.Since(begun))
				require.Equal(t, row.left, len(left) == 1)
				var lost *supervisor.LeftError
				require.Equal(t, row.left, errors.As(tree.Wait(), &lost))
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestAutoShutdown(t *testing.T) {
	held(t)
	sig := func(name string, r supervisor.Restart) supervisor.Child {
		return supervisor.Child{Name: name, Restart: r, Significant: true}
	}
	for name, row := range map[string]struct {
		auto     supervisor.AutoShutdown
		children []supervisor.Child
		ends     map[string]func() error
		over     bool
		err      bool
	}{
		"any: a transient one ends well":      {supervisor.AnySignificant, []supervisor.Child{sig("a", supervisor.Transient), sig("b", supervisor.Transient)}, map[string]func() error{"a": normal}, true, false},
		"any: a transient one crashes":        {supervisor.AnySignificant, []supervisor.Child{sig("a", supervisor.Transient)}, map[string]func() error{"a": boomed}, false, false},
		"any: a temporary one crashes":        {supervisor.AnySignificant, []supervisor.Child{sig("a", supervisor.Temporary)}, map[string]func() error{"a": boomed}, true, true},
		"any: one that is not significant":    {supervisor.AnySignificant, []supervisor.Child{sig("a", supervisor.Transient), {Name: "b", Restart: supervisor.Transient}}, map[string]func() error{"b": normal}, false, false},
		"all: one of two":                     {supervisor.AllSignificant, []supervisor.Child{sig("a", supervisor.Transient), sig("b", supervisor.Temporary)}, map[string]func() error{"a": normal}, false, false},
		"all: both, and a third goes with it": {supervisor.AllSignificant, []supervisor.Child{sig("a", supervisor.Transient), sig("b", supervisor.Temporary), {Name: "c"}}, map[string]func() error{"a": normal, "b": normal}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newServices(supervisor.OneForOne, long, row.children...)
				c.spec.AutoShutdown = row.auto
				tree := c.start(t)
				for name, end := range row.ends {
					c.order(name, end)
				}
				select {
				case <-tree.Done():
					require.True(t, row.over)
					require.Equal(t, row.err, tree.Wait() != nil)
				default:
					require.False(t, row.over)
				}
				tree.Stop()
			})
		})
	}
}

func TestTerminatingASignificantChildIsNoAutoShutdown(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, supervisor.Child{Name: "a", Restart: supervisor.Temporary, Significant: true})
		c.spec.AutoShutdown = supervisor.AnySignificant
		tree := c.start(t)
		require.NoError(t, tree.Terminate("a"))
		_, err := tree.Add(t.Context(), c.child("b", supervisor.Permanent))
		require.NoError(t, err)
		tree.Stop()
	})
}

// A child that is terminated together with a sibling causes no auto-shutdown either, even if it is temporary and is not
// restarted.
func TestASignificantChildThatIsTerminatedForASiblingIsNoAutoShutdown(t *testing.T) {
	held(t)
	for _, auto := range []supervisor.AutoShutdown{supervisor.AnySignificant, supervisor.AllSignificant} {
		for _, strategy := range []supervisor.Strategy{supervisor.RestForOne, supervisor.OneForAll} {
			t.Run(strategy.String()+", "+auto.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					c := newServices(strategy, long, supervisor.Child{Name: "a"},
						supervisor.Child{Name: "b", Restart: supervisor.Temporary, Significant: true},
						supervisor.Child{Name: "c", Restart: supervisor.Transient, Significant: true})
					c.spec.AutoShutdown = auto
					tree := c.start(t)
					c.order("a", boomed)
					require.Equal(t, []string{"a", "c"}, names(tree))
					require.Equal(t, "running", state(tree, "c"))
					tree.Stop()
				})
			})
		}
	}
}

func TestASignificantChildThatEndsDuringTheStartEndsTheSupervisorAfterIt(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long)
		c.spec.AutoShutdown = supervisor.AnySignificant
		c.spec.Children = []supervisor.Child{
			{Name: "short", Restart: supervisor.Transient, Significant: true, Run: func(context.Context) error { return nil }},
			readyService("slow", func(ctx context.Context, ready func()) error {
				time.Sleep(time.Second)
				ready()
				<-ctx.Done()
				return nil
			}),
		}
		tree, err := supervisor.Start(t.Context(), system, c.spec)
		require.NoError(t, err)
		require.NoError(t, tree.Wait())
	})
}

func TestFlagsAndSpecsAreCheckedBeforeAnythingStarts(t *testing.T) {
	held(t)
	run := func(context.Context) error { return nil }
	ok := supervisor.Child{Name: "a", Run: run}
	with := func(change func(*supervisor.Child)) supervisor.Spec {
		c := ok
		change(&c)
		return supervisor.Spec{Children: []supervisor.Child{c}}
	}
	for name, row := range map[string]struct {
		spec supervisor.Spec
		want string
	}{
		"invalid_strategy":                {supervisor.Spec{Strategy: 9}, "no such strategy"},
		"invalid_intensity":               {supervisor.Spec{Intensity: supervisor.Intensity{Restarts: -1}}, "Restarts is negative"},
		"invalid_period":                  {supervisor.Spec{Intensity: supervisor.Intensity{Within: -1}}, "Within is negative"},
		"restarts, and no period":         {supervisor.Spec{Intensity: supervisor.Intensity{Restarts: 3}}, "Restarts is 3 and Within is zero"},
		"invalid_auto_shutdown":           {supervisor.Spec{AutoShutdown: 9}, "no such auto-shutdown"},
		"duplicate_child_name":            {supervisor.Spec{Children: []supervisor.Child{ok, ok}}, "the name is used twice"},
		"missing_id":                      {with(func(c *supervisor.Child) { c.Name = "" }), "has no name"},
		"missing_id, of several":          {supervisor.Spec{Name: "h", Children: []supervisor.Child{ok, {Run: run}}}, `supervisor "h": child 2: has no name`},
		"no child has a name":             {with(func(c *supervisor.Child) { c.Name = "" }), "supervisor: child 1: has no name"},
		"two of no name":                  {supervisor.Spec{Children: []supervisor.Child{{Run: run}, {Run: run}}}, "child 2: has no name"},
		"missing_start":                   {with(func(c *supervisor.Child) { c.Run = nil }), "needs exactly one of"},
		"two starts":                      {with(func(c *supervisor.Child) { c.Supervisor = &supervisor.Spec{} }), "needs exactly one of"},
		"invalid_restart_type":            {with(func(c *supervisor.Child) { c.Restart = 9 }), "no such restart type"},
		"invalid_shutdown":                {with(func(c *supervisor.Child) { c.Patience = -2 }), "no such patience"},
		"a start limit below zero":        {with(func(c *supervisor.Child) { c.StartLimit = -2 }), "no such limit"},
		"significant with never":          {with(func(c *supervisor.Child) { c.Significant, c.Restart = true, supervisor.Transient }), "AutoShutdown is never"},
		"significant and permanent":       {with(func(c *supervisor.Child) { c.Significant = true }), "cannot be permanent"},
		"simple_one_for_one and children": {supervisor.Spec{Strategy: supervisor.SimpleOneForOne, Children: []supervisor.Child{ok}}, "starts without children"},
		"simple_one_for_one and auto":     {supervisor.Spec{Strategy: supervisor.SimpleOneForOne, AutoShutdown: supervisor.AnySignificant}, "has no auto-shutdown"},
		"more than may be":                {supervisor.Spec{Most: 1, Children: []supervisor.Child{ok, {Name: "b", Run: run}}}, "2 children, but Most is 1"},
		"Most below zero":                 {supervisor.Spec{Most: -1}, "Most is negative: -1"},
		"a pause below zero":              {supervisor.Spec{Backoff: supervisor.Backoff{First: -1}}, "First is negative: -1ns"},
		"a longest pause below zero":      {supervisor.Spec{Backoff: supervisor.Backoff{Max: -1}}, "Max is negative: -1ns"},
		"a first pause above the longest": {supervisor.Spec{Backoff: supervisor.Backoff{First: 2, Max: 1}}, "Max 1ns must not be less than First 2ns"},
		"a calm below zero":               {supervisor.Spec{Backoff: supervisor.Backoff{Calm: -1}}, "Calm is negative: -1ns"},
		"jitter above one":                {supervisor.Spec{Backoff: supervisor.Backoff{Jitter: 1.5}}, "Jitter is 1.5"},
		"jitter below zero":               {supervisor.Spec{Backoff: supervisor.Backoff{Jitter: -0.5}}, "Jitter is -0.5"},
		"jitter is not a number":          {supervisor.Spec{Backoff: supervisor.Backoff{Jitter: math.NaN()}}, "Jitter is NaN"},
		"a fault below":                   {supervisor.Spec{Children: []supervisor.Child{nested(supervisor.Spec{Name: "sub", Strategy: 9})}}, "no such strategy"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := supervisor.Start(t.Context(), system, row.spec)
			var fault *supervisor.SpecError
			require.ErrorAs(t, err, &fault)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestStartChild(t *testing.T) {
	held(t)
	for _, strategy := range []supervisor.Strategy{supervisor.OneForOne, supervisor.RestForOne, supervisor.OneForAll} {
		t.Run(strategy.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newServices(strategy, long, supervisor.Child{Name: "a"}, supervisor.Child{Name: "down", Restart: supervisor.Transient})
				tree := c.start(t)
				c.order("down", normal)
				add := func(child supervisor.Child) error {
					_, err := tree.Add(t.Context(), child)
					return err
				}
				id, err := tree.Add(t.Context(), c.child("b", supervisor.Permanent))
				require.NoError(t, err)
				require.Equal(t, "b", id)
				require.ErrorIs(t, add(c.child("a", supervisor.Permanent)), supervisor.ErrAlreadyStarted)
				require.ErrorIs(t, add(c.child("down", supervisor.Permanent)), supervisor.ErrAlreadyPresent)
				var fault *supervisor.SpecError
				require.ErrorAs(t, add(supervisor.Child{Name: "x"}), &fault)
				bad := readyService("bad", func(context.Context, func()) error { return errBoom })
				require.ErrorIs(t, add(bad), errBoom)
				ignored := readyService("ignored", func(context.Context, func()) error { return supervisor.ErrIgnore })
				require.NoError(t, add(ignored), "OTP's ignore: the child is kept, but does not run")
				ignored.Name, ignored.Restart = "ignored temporary", supervisor.Temporary
				require.NoError(t, add(ignored), "a temporary one is not even kept")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				mute := readyService("mute", func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil })
				_, err = tree.Add(ctx, mute)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, []string{"a", "down", "b", "ignored"}, names(tree), "a child that could not start is not added")
				require.Equal(t, "down", state(tree, "ignored"))
				tree.Stop()
				require.ErrorIs(t, add(c.child("late", supervisor.Permanent)), supervisor.ErrStopped)
			})
		})
	}
}

func TestTerminateRestartAndDeleteChild(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, supervisor.Child{Name: "a"}, supervisor.Child{Name: "temp", Restart: supervisor.Temporary})
		tree := c.start(t)
		ctx := t.Context()
		require.ErrorIs(t, tree.Terminate("x"), supervisor.ErrNotFound)
		require.ErrorIs(t, tree.Restart(ctx, "x"), supervisor.ErrNotFound)
		require.ErrorIs(t, tree.Delete("x"), supervisor.ErrNotFound)
		require.ErrorIs(t, tree.Restart(ctx, "a"), supervisor.ErrRunning)
		require.ErrorIs(t, tree.Delete("a"), supervisor.ErrRunning)
		require.NoError(t, tree.Terminate("a"))
		require.NoError(t, tree.Terminate("a"), "one that is down is terminated already")
		require.Equal(t, "down", state(tree, "a"))
		require.NoError(t, tree.Restart(ctx, "a"))
		require.Equal(t, "running", state(tree, "a"))
		require.NoError(t, tree.Terminate("a"))
		require.NoError(t, tree.Delete("a"))
		require.NoError(t, tree.Terminate("temp"), "a temporary one is forgotten")
		require.Empty(t, tree.Children())
		_, err := tree.Add(ctx, c.child("a", supervisor.Permanent))
		require.NoError(t, err, "the name is free")
		require.NoError(t, tree.Remove("a"))
		require.Empty(t, tree.Children())
		tree.Stop()
		require.ErrorIs(t, tree.Terminate("a"), supervisor.ErrStopped)
	})
}

func TestARestartByHandThatFailsLeavesTheChildDown(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		starts := 0
		c := newServices(supervisor.OneForOne, supervisor.Intensity{}, supervisor.Child{Name: "a", Serve: func(ctx context.Context, ready func()) error {
			if starts++; starts == 2 {
				return errBoom
			}
			ready()
			<-ctx.Done()
			return nil
		}})
		tree := c.start(t)
		require.NoError(t, tree.Terminate("a"))
		require.ErrorIs(t, tree.Restart(t.Context(), "a"), errBoom)
		require.Equal(t, "down", state(tree, "a"))
		require.NoError(t, tree.Restart(t.Context(), "a"))
		tree.Stop()
	})
}

func TestAChildThatIsBeingRestartedIsNeitherRestartedNorDeletedButTerminated(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, named("a")...)
		c.spec.Backoff = supervisor.Backoff{First: time.Minute}
		tree := c.start(t)
		c.order("a", boomed)
		require.Equal(t, "restarting", state(tree, "a"))
		require.ErrorIs(t, tree.Restart(t.Context(), "a"), supervisor.ErrRestarting)
		require.ErrorIs(t, tree.Delete("a"), supervisor.ErrRestarting)
		_, err := tree.Add(t.Context(), c.child("a", supervisor.Permanent))
		require.ErrorIs(t, err, supervisor.ErrAlreadyPresent)
		require.NoError(t, tree.Terminate("a"))
		c.book.read()
		time.Sleep(time.Hour)
		require.Empty(t, c.book.read(), "the child was not started after the pause")
		require.Equal(t, "down", state(tree, "a"))
		tree.Stop()
	})
}

func TestWhichChildrenAndCountChildren(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, supervisor.Child{Name: "a"}, supervisor.Child{Name: "b", Restart: supervisor.Transient})
		c.spec.Children = append(c.spec.Children, nested(supervisor.Spec{Name: "sub", Children: []supervisor.Child{c.child("deep", supervisor.Permanent)}}))
		tree := c.start(t)
		c.order("b", normal)
		all := tree.Children()
		require.Equal(t, []string{"a", "b", "sub"}, names(tree), "in the order of their start")
		require.NotNil(t, all[0].PID)
		require.Nil(t, all[1].PID)
		require.ErrorIs(t, all[1].Last, supervisor.ErrNormal)
		require.NotNil(t, all[2].PID)
		require.Equal(t, "deep", all[2].Supervisor.Children[0].Name)
		time.Sleep(time.Second)
		name := c.spec.Name
		require.Equal(t, name+" (one_for_one, 0 of 1073741824 restarts in 1h0m0s)\n"+
			"├── a: running for 1s\n"+
			"├── b: down for 1s, transient, last: supervisor: ended normally\n"+
			"└── sub: running for 1s (rest_for_one, no restarts)\n"+
			"    └── deep: running for 1s\n", tree.Info().String())
		require.Equal(t, "flowchart TB\n"+
			"  n0[\""+name+"<br/>one_for_one\"]\n"+
			"  n1([\"a<br/>running, restarts: 0\"])\n  n0 --> n1\n"+
			"  n2([\"b<br/>down, restarts: 0\"])\n  n0 --> n2\n"+
			"  n3[\"sub<br/>rest_for_one\"]\n"+
			"  n4([\"deep<br/>running, restarts: 0\"])\n  n3 --> n4\n  n0 --> n3\n", tree.Info().Mermaid())
		tree.Stop()
		require.Equal(t, "down", state(tree, "a"), "there is a last snapshot")
	})
}

func TestSimpleOneForOne(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.SimpleOneForOne, long)
		c.spec.Most = 3
		tree := c.start(t)
		slow := supervisor.Child{Name: "conn", Restart: supervisor.Transient, Run: func(ctx context.Context) error {
			select {
			case do := <-c.channel("conn"):
				return do()
			case <-ctx.Done():
				time.Sleep(time.Second)
				return nil
			}
		}}
		for _, want := range []string{"conn-1", "conn-2", "conn-3"} {
			id, err := tree.Add(t.Context(), slow)
			require.NoError(t, err)
			require.Equal(t, want, id)
		}
		_, err := tree.Add(t.Context(), slow)
		require.ErrorIs(t, err, supervisor.ErrFull)
		require.ErrorContains(t, tree.Restart(t.Context(), "conn-1"), "not with simple_one_for_one")
		require.ErrorContains(t, tree.Delete("conn-1"), "not with simple_one_for_one")
		require.NoError(t, tree.Terminate("conn-1"))
		require.ErrorIs(t, tree.Terminate("conn-1"), supervisor.ErrNotFound)
		c.order("conn", boomed)
		require.Len(t, tree.Children(), 2, "one that crashed is restarted")
		c.order("conn", normal)
		require.Len(t, tree.Children(), 1, "one that ended well is forgotten")
		for range 2 {
			_, err = tree.Add(t.Context(), slow)
			require.NoError(t, err)
		}
		begun := time.Now()
		require.Empty(t, tree.Stop())
		require.Equal(t, time.Second, time.Since(begun), "all at once")
	})
}

func TestANestedSupervisorStopsItsChildrenInReverseWhenItIsStopped(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long)
		c.spec.Children = []supervisor.Child{
			c.child("a", supervisor.Permanent),
			nested(supervisor.Spec{Name: "sub", Children: []supervisor.Child{c.child("b", supervisor.Permanent), c.child("c", supervisor.Permanent)}}),
			c.child("d", supervisor.Permanent),
		}
		tree := c.start(t)
		c.book.read()
		require.Empty(t, tree.Stop())
		require.Equal(t, []string{"-d", "-c", "-b", "-a"}, c.book.read())
	})
}

func TestASupervisorThatGivesUpFailsTowardsTheOneAboveWhoseStoryIncludesIt(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, supervisor.Intensity{Restarts: 1, Within: time.Hour})
		c.spec.Children = []supervisor.Child{nested(supervisor.Spec{
			Name: "sub", Intensity: supervisor.Intensity{Restarts: 1, Within: time.Hour},
			Children: []supervisor.Child{c.child("x", supervisor.Permanent), c.child("y", supervisor.Permanent)},
		})}
		tree := c.start(t)
		before, there := tree.Sub("sub")
		require.True(t, there)
		c.order("x", boomed)
		c.order("x", panicked) // sub gives up, and is restarted
		after, _ := tree.Sub("sub")
		require.NotSame(t, before, after)
		require.Equal(t, 1, tree.Children()[0].Restarts)
		require.Error(t, before.Wait())
		c.order("x", boomed)
		c.order("x", exited)
		err := tree.Wait()
		var top *supervisor.EscalationError
		require.ErrorAs(t, err, &top)
		require.Equal(t, "sub", top.Child)
		var below *supervisor.EscalationError
		require.ErrorAs(t, top.Reason, &below)
		require.Equal(t, "x", below.Child)
		require.ErrorContains(t, err, "runtime.Goexit")
		story := top.Story()
		for _, part := range []string{`gave up on "sub"`, `gave up on "x"`, "boom", "services_test.go", "restarted at once", "runtime.Goexit"} {
			require.Contains(t, story, part)
		}
	})
}

// In OTP, too, the exit reason of a supervisor that gives up is shutdown.
func TestATransientSupervisorThatGivesUpIsNotRestarted(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long)
		sub := nested(supervisor.Spec{Name: "sub", Children: []supervisor.Child{c.child("x", supervisor.Permanent)}})
		sub.Restart = supervisor.Transient
		c.spec.Children = []supervisor.Child{sub}
		tree := c.start(t)
		c.order("x", boomed)
		require.Equal(t, "down", state(tree, "sub"))
		require.ErrorIs(t, tree.Children()[0].Last, errBoom)
		tree.Stop()
	})
}

func TestANestedAutoShutdownIsAShutdownForTheSupervisorAbove(t *testing.T) {
	held(t)
	for _, row := range []struct {
		restart supervisor.Restart
		want    string
	}{{supervisor.Permanent, "running"}, {supervisor.Transient, "down"}, {supervisor.Temporary, "forgotten"}} {
		bubble(t, func(t *testing.T) {
			c := newServices(supervisor.OneForOne, long)
			x := c.child("x", supervisor.Transient)
			x.Significant = true
			sub := nested(supervisor.Spec{Name: "sub", AutoShutdown: supervisor.AnySignificant, Children: []supervisor.Child{x}})
			sub.Restart = row.restart
			c.spec.Children = []supervisor.Child{sub}
			tree := c.start(t)
			c.order("x", normal)
			require.Equal(t, row.want, state(tree, "sub"))
			tree.Stop()
		})
	}
}

func TestANestedSupervisorThatCannotStartFailsTheStart(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, named("a")...)
		bad := readyService("bad", func(context.Context, func()) error { return errBoom })
		c.spec.Children = append(c.spec.Children, nested(supervisor.Spec{
			Name: "sub", Children: []supervisor.Child{c.child("x", supervisor.Permanent), bad},
		}))
		_, err := supervisor.Start(t.Context(), system, c.spec)
		require.ErrorIs(t, err, errBoom)
		require.ErrorContains(t, err, "sub: bad: boom")
	})
}

func TestAChildThatWasUpAndFailsDuringTheStartIsRestarted(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		c := newServices(supervisor.OneForOne, long, named("a")...)
		c.spec.Children = append(c.spec.Children, readyService("slow", func(ctx context.Context, ready func()) error {
			c.channel("a") <- boomed
			time.Sleep(time.Second)
			ready()
			<-ctx.Done()
			return nil
		}))
		tree := c.start(t)
		require.Equal(t, []string{"+a", "+a"}, c.book.read())
		require.Equal(t, 1, tree.Children()[0].Restarts)
		tree.Stop()
	})
}

func TestATransientActorThatEndsWellIsNotRestarted(t *testing.T) {
	held(t)
	bubble(t, func(t *testing.T) {
		var pid *actor.PID
		c := newServices(supervisor.OneForOne, long, supervisor.Child{
			Name: "a", Restart: supervisor.Transient,
			Spawn: func(by supervisor.Spawner, name string, ready func(error)) (*actor.PID, error) {
				ready(nil)
				var err error
				pid, err = actor.Spawn(by, name, actor.NewMailbox(nil), func() actor.Actor { return ender{} })
				return pid, err
			},
		})
		tree := c.start(t)
		system.Root.Send(pid, fail{})
		synctest.Wait()
		require.Equal(t, "down", state(tree, "a"))
		tree.Stop()
	})
}

type ender struct{}

func (ender) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(fail); ok {
		actor.Fail(ctx, supervisor.ErrNormal)
	}
}
