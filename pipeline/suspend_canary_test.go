package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/upgrade"
)

// after makes a version do something when it has slept for the time that the command says.
type after struct {
	*sleeper
	do func(c behaviour.Suspender, d time.Duration)
}

func (a after) HandleSuspending(c behaviour.Suspender, d time.Duration) behaviour.Outcome {
	o := a.sleeper.HandleSuspending(c, d)
	if a.do != nil {
		a.do(c, d)
	}
	return o
}

func put(s *stage.Stage[time.Duration], t *testing.T, version behaviour.Behaviour[time.Duration], opts ...upgrade.Option) *upgrade.Rollout {
	t.Helper()
	up, err := s.Upgrade(t.Context(), func() behaviour.Behaviour[time.Duration] { return version }, opts...)
	require.NoError(t, err)
	return up
}

func TestSuspendedCommandsEndInTheirVersionWhateverTheTrialsResult(t *testing.T) {
	for name, promote := range map[string]bool{"promoted": true, "rolled back": false} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				old, fresh := newSleeper("old"), newSleeper("new")
				s := stage.New("s", old, stage.Workers(1, 1))
				p := bubble(t, s, way)
				before := askFor(t, s, time.Minute)
				synctest.Wait()
				up := put(s, t, fresh, upgrade.Canary(0.5))
				var during []*stage.Ticket
				for range 4 {
					during = append(during, askFor(t, s, time.Minute))
				}
				synctest.Wait()
				require.Equal(t, 5, s.Snapshot().Suspended)
				var err error
				wins, loser := "new", old
				if promote {
					require.NoError(t, up.Promote())
				} else {
					wins, loser, err = "old", fresh, upgrade.ErrRolledBack
					require.NoError(t, up.Rollback())
				}
				answers(t, askFor(t, s, time.Second), wins)
				require.Zero(t, loser.stopped.Load(), "its commands are suspended")
				for i, ticket := range append(during, before) {
					answers(t, ticket, []string{"old", "new"}[i%2])
				}
				require.ErrorIs(t, up.Wait(soon(t)), err)
				require.EqualValues(t, 1, loser.stopped.Load())
				status := up.Status()
				require.EqualValues(t, 2, status.Old.Commands, "not the one that was started before")
				require.EqualValues(t, 2, status.New.Commands)
				require.NoError(t, p.Stop(t.Context()))
				for _, version := range []*sleeper{old, fresh} {
					require.EqualValues(t, 1, version.stopped.Load(), version.version)
				}
				atRest(t, p)
			})
		})
	}
}

func TestACanaryThatCrashesAfterASuspensionCostsNoCommand(t *testing.T) {
	for name, crash := range map[string]func(c behaviour.Suspender, d time.Duration){
		"panic":  func(behaviour.Suspender, time.Duration) { panic("v2 is no good") },
		"goexit": func(behaviour.Suspender, time.Duration) { runtime.Goexit() },
		"stuck":  func(behaviour.Suspender, time.Duration) { time.Sleep(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				old, fresh := newSleeper("old"), newSleeper("new")
				s := stage.New("s", old, stage.Workers(1, 1), stage.Timeout(2*time.Minute), stage.Grace(time.Second))
				p := bubble(t, s, way)
				up := put(s, t, after{fresh, func(c behaviour.Suspender, d time.Duration) {
					if d == time.Second {
						crash(c, d)
					}
				}}, upgrade.Canary(0.5))
				var tickets []*stage.Ticket
				others := time.Minute
				if name == "stuck" { // no other handler has the worker then
					others = time.Second / 2
				}
				for _, d := range []time.Duration{others, others, others, time.Second} {
					tickets = append(tickets, askFor(t, s, d))
				}
				answers(t, tickets[0], "old")
				answers(t, tickets[1], "new")
				answers(t, tickets[2], "old")
				answers(t, tickets[3], "old")
				err := up.Wait(soon(t))
				if name == "stuck" { // it still has a command
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorIs(t, up.Status().Why, upgrade.ErrCanary)
					time.Sleep(time.Hour)
					err = up.Wait(soon(t))
				}
				require.ErrorIs(t, err, upgrade.ErrCanary)
				crash, ok := errors.AsType[*stage.CrashError](err)
				require.True(t, ok)
				require.Equal(t, "new", crash.Version)
				require.Equal(t, 1, crash.Attempts)
				require.EqualValues(t, 1, fresh.stopped.Load())
				snap := p.Snapshot()
				require.Zero(t, snap.DeadLettered)
				require.EqualValues(t, 1, snap.Stages[0].Crashes)
				require.NoError(t, p.Stop(t.Context()))
				atRest(t, p)
			})
		})
	}
}

func TestACrashOfTheOldVersionDuringATrialCountsForThatVersion(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		old, fresh := newSleeper("old"), newSleeper("new")
		s := stage.New("s", after{old, func(behaviour.Suspender, time.Duration) { panic("as ever") }}, stage.Workers(1, 1))
		p := bubble(t, s)
		begun := askFor(t, s, time.Minute) // before the trial, so it does not count for it
		synctest.Wait()
		up := put(s, t, fresh, upgrade.Canary(0.5))
		lost, kept := askFor(t, s, time.Second), askFor(t, s, 2*time.Minute)
		_, err := lost.Wait(t.Context())
		crash, ok := errors.AsType[*stage.CrashError](err)
		require.True(t, ok, err)
		require.Equal(t, "old", crash.Version)
		_, err = begun.Wait(t.Context())
		require.True(t, stage.Crashed(err))
		answers(t, kept, "new")
		status := up.Status()
		require.Equal(t, upgrade.OnTrial, status.State)
		require.EqualValues(t, 1, status.Old.Crashes)
		require.Zero(t, status.New.Crashes)
		require.NoError(t, p.Stop(t.Context()))
		require.ErrorIs(t, up.Wait(t.Context()), upgrade.ErrEnded)
		require.EqualValues(t, 1, fresh.stopped.Load())
		require.EqualValues(t, 1, old.stopped.Load())
	})
}

func TestAHardStopDuringATrialEndsSuspendedCommandsOfBothVersions(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		old, fresh := newSleeper("old"), newSleeper("new")
		s := stage.New("s", old, stage.Workers(2, 2))
		p := bubble(t, s, way)
		up := put(s, t, fresh, upgrade.Canary(0.5), upgrade.PromoteAfter(1, 0))
		var tickets []*stage.Ticket
		for range 6 {
			tickets = append(tickets, askFor(t, s, time.Hour))
		}
		synctest.Wait()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_ = p.Stop(over)
		for _, ticket := range tickets {
			_, err := ticket.Wait(soon(t))
			require.ErrorIs(t, err, coroutine.ErrStopped)
		}
		require.Error(t, up.Wait(soon(t)))
		synctest.Wait()
		require.EqualValues(t, 1, old.stopped.Load())
		require.EqualValues(t, 1, fresh.stopped.Load())
		require.True(t, p.Snapshot().Balanced())
		require.Zero(t, p.Snapshot().InFlight)
	})
}

// versioned performs scripts as one version of several, and checks that it is used only while it is started.
type versioned struct {
	*actors
	name  string
	bad   bool // it crashes instead
	alive *atomic.Int32
	using *atomic.Int32
}

func (v versioned) Start(context.Context) error { v.alive.Add(1); return nil }
func (v versioned) Version() string             { return v.name }

func (v versioned) Stop() {
	if n := v.using.Load(); n > 0 {
		panic(fmt.Sprintf("%s is stopped while %d commands use it", v.name, n))
	}
	v.alive.Add(-1)
}

func (v versioned) HandleCommand(context.Context, *script) behaviour.Outcome {
	return behaviour.Error(behaviour.ErrCannotSuspend)
}

func (v versioned) HandleSuspending(c behaviour.Suspender, s *script) behaviour.Outcome {
	v.using.Add(1)
	defer v.using.Add(-1)
	if v.bad {
		for i, step := range s.steps {
			_ = v.step(c, step, i)
		}
		panic("a bad version")
	}
	return v.perform(c, s)
}

// Each command ends as its script says, as if there were only one version, whatever versions are tried and whichever of them crash;
// and each version is stopped in the end.
func TestTrialsOfVersionsThatSuspendAffectNoCommand(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(rt, "workers")
		a := newActors()
		var alive []*atomic.Int32
		version := func(bad bool) behaviour.Behaviour[*script] {
			v := versioned{a, fmt.Sprint("v", len(alive)), bad, new(atomic.Int32), new(atomic.Int32)}
			alive = append(alive, v.alive)
			return v
		}
		a.play = stage.New("play", version(false), stage.Workers(n, n), stage.Capacity(rapid.IntRange(1, 20).Draw(rt, "capacity")),
			stage.Instances(rapid.IntRange(1, 40).Draw(rt, "instances")), stage.Restart(stage.RestartPolicy{Limit: 1 << 30, Max: time.Millisecond}))
		p := start(t, a.parts(), pipeline.Intensity(1000, time.Second))
		scripts := rapid.SliceOfN(aScript("ok", "ok", "forward", "error"), 1, 60).Draw(rt, "scripts")
		laws := suspendingWays(n)
		var tickets []*stage.Ticket
		var up *upgrade.Rollout
		for _, s := range scripts {
			switch rapid.IntRange(0, 10).Draw(rt, "meanwhile") {
			case 0:
				require.NoError(t, p.Use(laws[rapid.IntRange(0, len(laws)-1).Draw(rt, "law")]))
			case 1, 2:
				if up == nil || up.Status().State != upgrade.OnTrial {
					bad := rapid.Bool().Draw(rt, "bad")
					crashes := rapid.IntRange(0, 3).Draw(rt, "crashes")
					fraction := rapid.SampledFrom([]float64{0.1, 0.5, 1}).Draw(rt, "fraction")
					var err error
					up, err = a.play.Upgrade(t.Context(), func() behaviour.Behaviour[*script] { return version(bad) },
						upgrade.Canary(fraction), upgrade.MaxCrashes(crashes), upgrade.MaxErrors(1, 1))
					require.NoError(t, err)
					if !bad && rapid.Bool().Draw(rt, "promote") {
						require.NoError(t, up.Promote())
					}
				}
			case 3:
				if up != nil {
					_ = up.Rollback()
				}
			}
			ticket, err := a.play.Ask(soon(t), s)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
			require.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
		}
		for i, s := range scripts {
			got, err := tickets[i].Wait(soon(t))
			if s.end == "error" {
				require.ErrorIs(t, err, errNo)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, len(s.steps), got)
		}
		require.NoError(t, p.Stop(soon(t)))
		atRest(t, p)
		require.Zero(t, p.Snapshot().DeadLettered)
		for i, n := range alive {
			require.Zero(t, n.Load(), "version %d has been stopped as often as started", i)
		}
	})
}
