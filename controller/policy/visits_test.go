package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// visitors are the policies that share workers, by name, and then some with parameters.
func visitors() []controller.Policy {
	return []controller.Policy{
		policy.Cohort{},
		policy.Cohort{Preset: policy.Cruz},
		policy.Cohort{Preset: policy.Gordon},
		policy.Color{},
		policy.DBR{},
		policy.DBR{Preset: policy.Cruz},
		policy.DBR{Preset: policy.Gordon},
		policy.DBR{Preset: policy.Measured},
		policy.LRB{},
		policy.LRB{Preset: policy.Cruz},
		policy.LRB{Preset: policy.Measured},
		policy.MG1{},
		policy.SRPT{},
		policy.SRPT{Form: policy.Polled},
		policy.SRPT{Form: policy.Polled, Preset: policy.Cruz},
		policy.SRPT{Preset: policy.Cruz},
	}
}

func forEveryVisitor(t *testing.T, check func(t *testing.T, law controller.Policy)) {
	t.Helper()
	for _, law := range visitors() {
		t.Run(law.Name(), func(t *testing.T) { check(t, law) })
	}
}

// claims reports whether a policy claims a knob.
func claims(law controller.Policy, knob controller.Knob) bool {
	c, ok := law.(controller.Claimer)
	return ok && slices.Contains(c.Claims(), knob)
}

func TestEveryPolicyOfVisitsIsAmongTheVisitors(t *testing.T) {
	var found, have []string
	for _, name := range policy.Names() {
		law, err := policy.ByName(name)
		require.NoError(t, err)
		if claims(law, controller.KnobVisit) {
			found = append(found, name)
		}
	}
	for _, law := range visitors() {
		have = append(have, law.Name())
	}
	require.Equal(t, found, have)
}

// anyLine draws a pipeline with groups, loops, and blocking or paused stages.
func anyLine(t *rapid.T) []controller.StageStats {
	stages := line(rapid.IntRange(0, 7).Draw(t, "stages"))
	for i := range stages {
		stages[i].Rank = rapid.IntRange(0, 4).Draw(t, "rank")
		stages[i].Cyclic = rapid.Bool().Draw(t, "cyclic")
		stages[i].Blocking = rapid.IntRange(0, 4).Draw(t, "blocking") == 0
		stages[i].Paused = rapid.IntRange(0, 4).Draw(t, "paused") == 0
		stages[i].Pool = rapid.SampledFrom([]string{"", "", "disk", "shared"}).Draw(t, "group")
		stages[i].QueueCap = rapid.IntRange(-1, 100).Draw(t, "capacity")
		stages[i].Instances = rapid.IntRange(0, 5).Draw(t, "instances")
	}
	return stages
}

// anyDay draws one arbitrary change of the load and the stages.
func (h *fake) anyDay(t *rapid.T) {
	h.At += time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond
	for i := range h.Stages {
		accepted := rapid.IntRange(0, 50).Draw(t, "accepted")
		h.handled(i+1, accepted, rapid.IntRange(0, 50).Draw(t, "handled"), time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "each")))
		h.Stages[i].QueueLen = rapid.IntRange(0, 100).Draw(t, "queue")
		if rapid.IntRange(0, 9).Draw(t, "wakes or rests") == 0 {
			h.Stages[i].Paused = !h.Stages[i].Paused
		}
	}
}

var anyEvent = rapid.Custom(func(t *rapid.T) controller.Event {
	return controller.Event{
		Kind: rapid.SampledFrom([]controller.EventKind{
			controller.EventTick, controller.EventTick, controller.EventRoundEnd, controller.EventRoundEnd,
			controller.EventStarved, controller.EventTopology, controller.EventStart, controller.EventWorkerDied,
		}).Draw(t, "event"),
		Stage: controller.StageID(rapid.IntRange(-2, 7).Draw(t, "where")),
		Pool:  rapid.SampledFrom([]string{"shared", "shared 2", "disk", ""}).Draw(t, "pool"),
	}
})

// After any events, each stage that shares workers is in their plan or in their queue, with a bound under which it is
// served; and each cyclic stage has a bound.
func (h *fake) starvesNobody(t *rapid.T) {
	for i := range h.Pools {
		p := &h.Pools[i]
		if p.Own || len(p.Stages) == 0 {
			continue
		}
		require.Positive(t, p.Workers, p.Name)
		for _, id := range p.Stages {
			st := &h.Stages[id]
			if st.Paused {
				continue
			}
			if p.Dispatch == controller.Polled {
				require.Contains(t, p.Plan.Order, id, p.Name)
			}
			if p.Plan.Gating == controller.Bounded {
				require.Positive(t, p.Plan.BoundOf(id))
			} else {
				require.False(t, st.Cyclic, "a loop has a bound")
			}
		}
	}
}

func TestNoPolicyOfVisitsStarvesAStage(t *testing.T) {
	forEveryVisitor(t, func(t *testing.T, law controller.Policy) {
		rapid.Check(t, func(t *rapid.T) {
			h := newFake(law, anyLine(t)...)
			for range rapid.IntRange(1, 12).Draw(t, "days") {
				h.anyDay(t)
				h.tell(anyEvent.Draw(t, "event"))
				h.ask(controller.EventTopology) // for the stages that were paused or resumed
				h.sound(t)
				h.starvesNobody(t)
			}
		})
	})
}

func TestEveryPolicyOfVisitsAcceptsAnySnapshot(t *testing.T) {
	forEveryVisitor(t, func(t *testing.T, law controller.Policy) {
		rapid.Check(t, func(t *rapid.T) {
			c := law.New()
			var d controller.Decisions
			for range rapid.IntRange(1, 10).Draw(t, "events") {
				s := &controller.Snapshot{At: time.Duration(rapid.Int64().Draw(t, "at")), CPUs: rapid.Int().Draw(t, "cpus")}
				for i := range rapid.IntRange(0, 5).Draw(t, "stages") {
					s.Stages = append(s.Stages, anyMember(t, i))
				}
				for range rapid.IntRange(0, 3).Draw(t, "pools") {
					s.Pools = append(s.Pools, controller.PoolStats{
						Name: rapid.SampledFrom([]string{"", "a", "shared", "disk"}).Draw(t, "pool"),
						Own:  rapid.Bool().Draw(t, "own"), Group: rapid.Bool().Draw(t, "group"),
						Workers: rapid.Int().Draw(t, "workers"), MaxWorkers: rapid.Int().Draw(t, "most"),
					})
				}
				require.NoError(t, controller.Ask(c, anyEvent.Draw(t, "event"), s, &d))
				_, faults := controller.Settle(law.Name(), s, &d)
				require.Empty(t, faults)
			}
		})
	})
}

// anyMember draws a stage with any numbers.
func anyMember(t *rapid.T, i int) controller.StageStats {
	st := anyStats(t, i)
	st.Pool = rapid.SampledFrom([]string{"", "a", "shared", "disk", "unknown"}).Draw(t, "bound to")
	st.Rank, st.Cyclic = rapid.Int().Draw(t, "rank"), rapid.Bool().Draw(t, "cyclic")
	st.Blocking, st.Paused = rapid.Bool().Draw(t, "blocking"), rapid.Bool().Draw(t, "paused")
	for range rapid.IntRange(0, 3).Draw(t, "ways") {
		st.Next = append(st.Next, controller.StageID(rapid.IntRange(-2, 6).Draw(t, "next")))
	}
	st.Total = st.Window
	st.Total.Busy = time.Duration(rapid.Int64().Draw(t, "busy for"))
	st.Instances = rapid.Int().Draw(t, "instances")
	return st
}

func TestEveryPolicyOfVisitsIsDeterministicAndSharesNoMemory(t *testing.T) {
	forEveryVisitor(t, func(t *testing.T, law controller.Policy) {
		rapid.Check(t, func(t *rapid.T) {
			stages := anyLine(t)
			once, again := newFake(law, slices.Clone(stages)...), newFake(law, slices.Clone(stages)...)
			for range rapid.IntRange(1, 12).Draw(t, "days") {
				once.anyDay(t)
				again.At = once.At
				for i := range once.Stages {
					pool, priority := again.Stages[i].Pool, again.Stages[i].Priority
					again.Stages[i] = once.Stages[i]
					again.Stages[i].Pool, again.Stages[i].Priority = pool, priority
				}
				ev := anyEvent.Draw(t, "event")
				once.tell(ev)
				again.tell(ev)
				require.Equal(t, once.journal, again.journal)
			}
		})
	})
}

func TestEveryPolicyOfVisitsTicksWithoutAllocating(t *testing.T) {
	forEveryVisitor(t, func(t *testing.T, law controller.Policy) {
		stages := append(loop(line(6), 2, 3), controller.StageStats{Pool: "disk"}, controller.StageStats{Pool: "disk"})
		h := newFake(law, stages...)
		later := func() {
			h.At += 10 * time.Second
			for i := range h.Stages {
				h.handled(i+1, 100, 100, time.Duration(i+1)*time.Millisecond)
			}
		}
		for range 60 { // until all smoothed values are stable
			later()
			h.round(0, policy.SharedPool)
			h.round(0, "disk")
		}
		h.journal = nil
		require.Zero(t, testing.AllocsPerRun(100, func() {
			later()
			for _, ev := range []controller.Event{
				{Kind: controller.EventTick}, {Kind: controller.EventRoundEnd, Pool: policy.SharedPool}, {Kind: controller.EventRoundEnd, Pool: "disk"},
			} {
				_ = controller.Ask(h.c, ev, &h.Snapshot, &h.d)
			}
		}))
		h.ask(controller.EventTick)
		h.sound(t)
		require.Empty(t, h.journal)
	})
}

// A worker that died is being restarted: no policy wants more or fewer workers because of it.
func TestT14_CrashesDoNotChangeThePolicysDecisions(t *testing.T) {
	forEveryVisitor(t, func(t *testing.T, law controller.Policy) {
		h := newFake(law, line(3)...)
		h.journal = nil
		for range 10 {
			h.Stages[1].Total.Crashes++
			h.tell(controller.Event{Kind: controller.EventWorkerDied, Stage: controller.NoStage, Pool: policy.SharedPool})
			h.tick(time.Second)
		}
		h.sound(t)
		require.Empty(t, h.journal)
		require.Equal(t, 2, h.Pool(policy.SharedPool).Workers)
	})
}
