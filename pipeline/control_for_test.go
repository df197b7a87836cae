package pipeline_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/leda"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// asking is a policy that calls one function at every event.
type asking struct {
	name string
	do   func(ev controller.Event, s *controller.Snapshot, d *controller.Decisions)
}

func (a asking) Name() string               { return a.name }
func (asking) Check() error                 { return nil }
func (a asking) New() controller.Controller { return a }
func (a asking) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind != controller.EventStop {
		a.do(ev, s, d)
	}
}

// fourStages returns a single stage, a group of two, and a last stage: "first" leads to "g0", "g1" and "last".
func fourStages() (first *stage.Stage[int], parts []pipeline.Part) {
	to := func(name string, port *behaviour.Port[int], opts ...stage.Option) *stage.Stage[int] {
		return stage.Func(name, func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(port, n) },
			append(opts, stage.Out(port))...)
	}
	var ports []*behaviour.Port[int]
	for _, name := range []string{"to g0", "to g1", "to last"} {
		ports = append(ports, behaviour.NewPort[int](name))
	}
	last := stage.Func("last", echo[int], stage.Workers(1, 4))
	g0, g1 := to("g0", ports[1]), to("g1", ports[2])
	first = to("first", ports[0], stage.Workers(1, 4))
	return first, []pipeline.Part{
		first, pipeline.Group("g", 1, 8, g0, g1), last,
		pipeline.Wire(ports[0], g0), pipeline.Wire(ports[1], g1), pipeline.Wire(ports[2], last),
	}
}

func namesOf(s *controller.Snapshot) (names []string) {
	for i := range s.Stages {
		names = append(names, s.Stages[i].Name)
	}
	return names
}

func TestAGroupsControllerSeesTheGroupAndThePipelinesControllerTheRest(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var ofGroup, ofRest controller.Snapshot
		look := func(to *controller.Snapshot) func(controller.Event, *controller.Snapshot, *controller.Decisions) {
			return func(_ controller.Event, s *controller.Snapshot, _ *controller.Decisions) { *to = *s }
		}
		_, parts := fourStages()
		p := bubble(t, append(parts, pipeline.Control(asking{"rest", look(&ofRest)}), pipeline.ControlFor("g", asking{"own", look(&ofGroup)}))...)
		require.Equal(t, "g", ofGroup.Group)
		require.Equal(t, []string{"g0", "g1"}, namesOf(&ofGroup))
		require.Equal(t, []controller.StageID{0, 1}, []controller.StageID{ofGroup.Stages[0].ID, ofGroup.Stages[1].ID})
		require.Equal(t, []controller.StageID{1}, ofGroup.Stages[0].Next)
		require.Empty(t, ofGroup.Stages[1].Next)
		require.Equal(t, 2, ofGroup.Stages[1].Rank, "as in the whole pipeline")
		require.Equal(t, []controller.StageID{0, 1}, ofGroup.Pool("g").Stages)
		require.Equal(t, []string{"first", "last"}, ofGroup.Taken)
		require.Empty(t, ofRest.Group)
		require.Equal(t, []string{"first", "last"}, namesOf(&ofRest))
		require.Equal(t, []controller.StageID{1}, ofRest.Stages[0].Next, "edges that pass the group")
		require.Nil(t, ofRest.Pool("g"))
		require.ElementsMatch(t, []string{"g", "g0", "g1"}, ofRest.Taken)
		end(t, p)
	})
}

func TestTwoGroupsRunUnderDifferentPoliciesAtOnce(t *testing.T) {
	entry, parts := line(6, nil)
	p := run(t, pipeline.Group("g", 2, 6, parts[:3]...), pipeline.Group("h", 2, 6, parts[3:]...),
		pipeline.ControlFor("g", policy.SRPT{}), pipeline.ControlFor("h", policy.Cohort{}))
	require.Equal(t, controller.SharedPriority, pool(t, p, "g").Dispatch)
	require.Equal(t, "srpt", pool(t, p, "g").Policy)
	require.Equal(t, controller.Polled, pool(t, p, "h").Dispatch)
	require.Equal(t, "cohort", pool(t, p, "h").Policy)
	require.Regexp(t, "^4 5 6 5, ", pool(t, p, "h").Plan, "by the numbers that the stages have in the pipeline")
	for i := range 1000 {
		require.NoError(t, entry.Submit(soon(t), i))
	}
	require.NoError(t, p.SetGroupPolicy("g", policy.LRB{}))
	require.Regexp(t, "^[123 ]+, ", pool(t, p, "g").Plan)
	require.Regexp(t, "^4 5 6 5, ", pool(t, p, "h").Plan)
	require.NoError(t, p.Drain(soon(t)))
	require.EqualValues(t, 1000, p.Snapshot().Replied)
}

func TestAGroupsControllerIsReplacedAndJournalledSeparately(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		_, parts := fourStages()
		p := bubble(t, parts...)
		scaled := func(group string, n int) controller.Policy {
			return once(func(s *controller.Snapshot, d *controller.Decisions) {
				require.Equal(t, group, s.Group)
				for i := range s.Stages {
					controller.KnobPriority.Set(d, controller.StageID(i), n, "test")
				}
				controller.KnobWorkers.SetPool(d, "g", n, "test")
			})
		}
		priorities := func() (all []int) {
			_ = p.SetPolicy(asking{"look", func(_ controller.Event, s *controller.Snapshot, _ *controller.Decisions) {
				for i := range s.Stages {
					all = append(all, s.Stages[i].Priority)
				}
			}})
			return all
		}
		require.NoError(t, p.SetGroupPolicy("g", scaled("g", 5)))
		synctest.Wait()
		require.Equal(t, 5, pool(t, p, "g").Workers)
		ch := noted(t, p, controller.KnobPriority.String())
		require.Equal(t, []any{"g", controller.StageID(2), "g1"}, []any{ch.Group, ch.Stage, ch.StageName})
		require.Contains(t, ch.String(), `once for "g": stage "g1": priority 0 to 5: test`)
		swap := noted(t, p, "policy")
		require.Contains(t, swap.String(), `once for "g": pool "g": policy the pipeline's to once: replaced by Pipeline.SetPolicy or SetGroupPolicy`)

		require.Equal(t, []int{0, 0}, priorities(), "SetPolicy affects the other stages")
		require.Equal(t, "once", pool(t, p, "g").Policy)
		require.Equal(t, "look", p.Snapshot().Policy)

		require.NoError(t, p.SetGroupPolicy("g"))
		require.Empty(t, pool(t, p, "g").Policy)
		require.Equal(t, []int{0, 0, 0, 0}, priorities(), "the changes of the group's controller are undone")
		require.Contains(t, noted(t, p, "policy").String(), "look")
		require.NoError(t, p.SetPolicy(scaled("", 3)))
		synctest.Wait()
		require.Equal(t, 3, pool(t, p, "g").Workers)
		require.NoError(t, p.SetGroupPolicy("g", policy.Fixed{}))
		require.Equal(t, 3, pool(t, p, "g").Workers, "the number of workers is taken over")
		end(t, p)
	})
}

func TestAGroupsControllerCannotTurnKnobsOutsideTheGroup(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var log bytes.Buffer
		_, parts := fourStages()
		greedy := once(func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobLimit.Set(d, controller.Entry, 1, "test")
			controller.KnobWorkers.SetPool(d, "more", 3, "test")
			controller.KnobPool.Set(d, 0, "more", "test")
			controller.KnobWorkers.SetPool(d, "last", 3, "test")
			controller.KnobPool.Set(d, 1, "last", "test")
			controller.KnobWorkers.Set(d, 3, 4, "test")
			controller.KnobPool.Set(d, 1, "g1", "test")
			controller.KnobInstances.Set(d, 0, 7, "test")
		})
		p := bubble(t, append(parts, pipeline.ControlFor("g", greedy), pipeline.Logger(slog.New(slog.NewTextHandler(&log, nil))))...)
		synctest.Wait()
		var seen controller.Snapshot
		require.NoError(t, p.SetPolicy(asking{"look", func(_ controller.Event, s *controller.Snapshot, _ *controller.Decisions) { seen = *s }}))
		require.Zero(t, seen.Entry)
		require.Equal(t, []string{"last"}, namesOf(&seen)[1:])
		require.Equal(t, "g", p.Snapshot().Stages[1].Pool)
		require.Equal(t, "g1", p.Snapshot().Stages[2].Pool, "it may change its own pool")
		require.Equal(t, 1, workers(p, 3))
		require.False(t, slices.ContainsFunc(p.Snapshot().Pools, func(p pipeline.Pool) bool { return p.Name == "more" }))
		end(t, p)
		for _, said := range []string{`of="the entry of the pipeline"`, `of="pool \"more\""`, `of="pool \"last\""`, "group=g", "unknown stage 3"} {
			require.Contains(t, log.String(), said)
		}
	})
}

func TestThePipelinesControllerCannotTurnKnobsOfAGroupWithItsOwn(t *testing.T) {
	_, parts := line(3, nil)
	p := run(t, parts[0], pipeline.Group("shared", 1, 4, parts[1], parts[2]),
		pipeline.Control(policy.SRPT{}), pipeline.ControlFor("shared", policy.Cohort{}))
	require.Equal(t, "shared 2", p.Snapshot().Stages[0].Pool, "the group's name is taken")
	require.Equal(t, controller.Polled, pool(t, p, "shared").Dispatch)
	require.NoError(t, p.SetPolicy(shared{controller.SharedFIFO, 3, nil}))
	require.Equal(t, []string{"s1", "s2"}, pool(t, p, "shared").Stages)
	require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
		controller.KnobWorkers.SetPool(d, "shared", 4, "test")
		controller.KnobPool.Set(d, 0, "shared", "test")
	})))
	require.Equal(t, 1, pool(t, p, "shared").Workers)
	require.Equal(t, "s0", p.Snapshot().Stages[0].Pool)
}

func TestTheControllerThatGovernsAStageIsNotifiedOfItsEvents(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		told := map[string][]string{}
		hear := func(name string) controller.Policy {
			return asking{name, func(ev controller.Event, s *controller.Snapshot, _ *controller.Decisions) {
				if ev.Kind == controller.EventQueueFull || ev.Kind == controller.EventWorkerDied {
					told[name] = append(told[name], s.Stages[ev.Stage].Name)
				}
			}}
		}
		first := stage.Func("first", echo[int], stage.Capacity(1))
		in := stage.Func("in", func(context.Context, int) behaviour.Outcome { panic("on purpose") }, stage.Capacity(1))
		p := bubble(t, first, pipeline.Group("g", 1, 1, in), pipeline.Control(hear("rest")), pipeline.ControlFor("g", hear("own")))
		submit(t, first, 1)
		submit(t, in, 1)
		synctest.Wait()
		time.Sleep(time.Second) // policies are notified ten times a second
		end(t, p)
		for name, stages := range told {
			for _, of := range stages {
				require.Equal(t, map[string]string{"rest": "first", "own": "in"}[name], of)
			}
		}
		require.NotEmpty(t, told["own"])
		require.NotEmpty(t, told["rest"])
	})
}

func TestEachControllerOfAGroupKeepsItsLoadMoving(t *testing.T) {
	for _, law := range laws(t) {
		t.Run(law.Name(), func(t *testing.T) {
			entry, parts := line(6, nil, stage.Capacity(8))
			p := run(t, parts[0], pipeline.Group("g", 1, 3, parts[1:3]...), pipeline.Group("h", 1, 3, parts[3:5]...), parts[5],
				pipeline.ControlFor("g", law), pipeline.ControlFor("h", law), pipeline.Control(law))
			for i := range 300 {
				submitUntilTaken(t, entry, i)
			}
			require.NoError(t, p.SetGroupPolicy("h"))
			require.NoError(t, p.Drain(soon(t)))
			require.EqualValues(t, 300, p.Snapshot().Replied)
			require.Zero(t, p.Snapshot().Stages[1].Workers.Live)
		})
	}
}

func TestGlobalMeansTheGroupInAScriptForAGroup(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		_, parts := fourStages()
		p := bubble(t, append(parts, pipeline.ControlFor("g", leda.New("script", func(l *leda.Leda) {
			require.Equal(t, []leda.Stage{"g0", "g1"}, l.Stages())
			require.Equal(t, leda.Pool("g"), l.Pool.GetPool("g0"))
			require.NoError(t, l.Pool.Add(leda.Global, 2))
			require.Equal(t, 3, l.Pool.GetThreadsCount(leda.Global))
			require.Empty(t, l.Pool.New(2), "the group is its pool")
			require.NoError(t, l.Pool.SetPool(leda.Pool("g1"), "g1"))
			require.NoError(t, l.Pool.SetPool(leda.Global, "g1"))
			require.Equal(t, leda.Pool("g"), l.Pool.GetPool("g1"))
		})))...)
		synctest.Wait()
		require.Equal(t, 3, pool(t, p, "g").Workers)
		require.Equal(t, []string{"g0", "g1"}, pool(t, p, "g").Stages)
		end(t, p)
	})
}

func TestControllersOfGroupsAreCheckedAndErrorsNameTheGroup(t *testing.T) {
	_, parts := line(2, nil)
	_, err := pipeline.New("p", pipeline.Group("g", 1, 2, parts...), pipeline.ControlFor("nowhere", policy.Fixed{}),
		pipeline.ControlFor("s0", policy.Fixed{}),
		pipeline.ControlFor("g", nil), pipeline.ControlFor("g", policy.ERLDA{}, policy.SEDA{}))
	for _, fault := range []string{
		`ControlFor("s0"): the stage is in group "g", which has one controller for all of its stages`,
		`ControlFor("nowhere"): there is no group of that name, and no stage outside the groups`, `ControlFor("g"): the policy is nil`,
		`ControlFor("g"): it has a controller already`, `ControlFor("g"): policies "erlda" and "seda" both turn the knob`,
	} {
		require.ErrorContains(t, err, fault)
	}
	p := start(t, pipeline.Group("g", 1, 2, parts...))
	require.ErrorIs(t, p.SetGroupPolicy("nowhere", policy.Fixed{}), pipeline.ErrNotPart)
	require.ErrorIs(t, p.SetGroupPolicy("", policy.Fixed{}), pipeline.ErrNotPart)
	require.ErrorContains(t, p.SetGroupPolicy("g", nil), `set policy for "g": the policy is nil`)
	require.NoError(t, p.SetGroupPolicy("g", policy.Fixed{}))
	require.ErrorContains(t, p.SetGroupPolicy("g", onStartFails{}), `"g": policy "on start fails"`)
	require.Equal(t, "fixed", pool(t, p, "g").Policy)
	require.NoError(t, p.Stop(soon(t)))
	require.ErrorIs(t, p.SetGroupPolicy("g", policy.Fixed{}), pipeline.ErrStopped)
}

// onStartFails is a policy without a controller.
type onStartFails struct{}

func (onStartFails) Name() string               { return "on start fails" }
func (onStartFails) Check() error               { return nil }
func (onStartFails) New() controller.Controller { return nil }

func TestAStageHasAControllerOfItsOwn(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		slow := func(name string) *stage.Stage[int] {
			return stage.Func(name, func(context.Context, int) behaviour.Outcome {
				time.Sleep(time.Minute)
				return behaviour.OK(nil)
			}, stage.Workers(1, 4), stage.Batch(1))
		}
		eager, patient := slow("eager"), slow("patient")
		p := bubble(t, eager, patient, pipeline.Control(policy.ERLDA{}), pipeline.ControlFor("eager", policy.ERLDA{Up: 5, Down: 1}))
		for i := range 20 {
			submit(t, eager, i)
			submit(t, patient, i)
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, 4, p.Snapshot().Stages[0].Workers.Live, "more than 5 wait")
		require.Equal(t, 1, p.Snapshot().Stages[1].Workers.Live, "more than 5 and no more than 100 wait")
		require.Contains(t, p.Journal()[0].String(), `erlda for "eager": stage "eager": workers 1 to 2: queue 19 > 5 for 1 sample`)

		require.NoError(t, p.SetGroupPolicy("eager"))
		require.Contains(t, noted(t, p, "policy").String(), `erlda for "eager": pool "eager": policy erlda to the pipeline's`)
		require.NoError(t, p.SetGroupPolicy("patient", policy.ERLDA{Up: 3, Down: 1}))
		time.Sleep(10 * time.Second)
		require.Equal(t, 4, p.Snapshot().Stages[1].Workers.Live)
		end(t, p)
	})
}

func TestAStageWithItsOwnControllerIsNotShared(t *testing.T) {
	_, parts := line(3, nil)
	p := run(t, append(parts, pipeline.Control(policy.SRPT{}), pipeline.ControlFor("s1", policy.ERLDA{}))...)
	require.Equal(t, "s1", p.Snapshot().Stages[1].Pool)
	require.NotEqual(t, "s0", p.Snapshot().Stages[0].Pool)
	require.NoError(t, p.SetGroupPolicy("s0", policy.Fixed{}))
	require.Equal(t, "s0", p.Snapshot().Stages[0].Pool, "it has its own workers again")
	require.NoError(t, p.SetGroupPolicy("s0"))
	require.NoError(t, p.SetPolicy(policy.SRPT{}))
	require.NotEqual(t, "s0", p.Snapshot().Stages[0].Pool)
}

func TestTheControllerOfAStageLeavesWithIt(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		stopped := 0
		own := onStop{func() { stopped++ }}
		stay, gone := stage.Func("stay", echo[int]), stage.Func("gone", echo[int])
		p := bubble(t, stay, gone, pipeline.ControlFor("gone", own))
		require.NoError(t, p.Remove(t.Context(), gone))
		synctest.Wait()
		require.Equal(t, 1, stopped)
		require.ErrorIs(t, p.SetGroupPolicy("gone", own), pipeline.ErrNotPart)
		end(t, p)
		require.Equal(t, 1, stopped)
	})
}

// onStop is a policy that calls a function when it is stopped.
type onStop struct{ f func() }

func (onStop) Name() string                 { return "on stop" }
func (onStop) Check() error                 { return nil }
func (o onStop) New() controller.Controller { return o }
func (o onStop) Control(ev controller.Event, _ *controller.Snapshot, _ *controller.Decisions) {
	if ev.Kind == controller.EventStop {
		o.f()
	}
}
