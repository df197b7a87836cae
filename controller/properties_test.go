package controller_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
)

// anyInt draws small numbers, where the bounds are, and the greatest integers.
func anyInt() *rapid.Generator[int] {
	return rapid.OneOf(rapid.IntRange(-3, 12), rapid.SampledFrom([]int{math.MinInt, math.MaxInt}))
}

func anyFloat() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1}))
}

// anyName draws the name of a stage, of a pool, of neither, or the empty one.
func anyName() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "stage 0", "stage 1", "stage 2", "group", "made", "ghost"})
}

func anyGate() *rapid.Generator[controller.Gate] {
	return rapid.SampledFrom([]controller.Gate{nil, closed{"no"}, &closed{"no"}, holder{1}, (*closed)(nil)})
}

func anyPlan() *rapid.Generator[*controller.VisitPlan] {
	return rapid.OneOf(rapid.Just[*controller.VisitPlan](nil), rapid.Custom(func(t *rapid.T) *controller.VisitPlan {
		p := &controller.VisitPlan{
			Gating: controller.Gating(rapid.IntRange(0, 5).Draw(t, "gating")), Bound: anyInt().Draw(t, "bound"),
			Quantum: time.Duration(anyInt().Draw(t, "quantum")),
			Restart: rapid.Bool().Draw(t, "restart"), RestartAt: anyInt().Draw(t, "restart at"),
			Advance: rapid.Bool().Draw(t, "advance"), Now: rapid.Bool().Draw(t, "now"),
			FullRounds: rapid.Bool().Draw(t, "full rounds"),
		}
		for _, s := range rapid.SliceOfN(anyInt(), 0, 4).Draw(t, "order") {
			p.Order = append(p.Order, controller.StageID(s))
		}
		for s, n := range rapid.MapOfN(anyInt(), anyInt(), 0, 3).Draw(t, "bounds") {
			if p.Bounds == nil {
				p.Bounds = map[controller.StageID]int{}
			}
			p.Bounds[controller.StageID(s)] = n
		}
		return p
	}))
}

func anySnapshot(t *rapid.T) *controller.Snapshot {
	s := &controller.Snapshot{At: time.Duration(rapid.Int64().Draw(t, "at"))}
	withPools := rapid.Bool().Draw(t, "with pools")
	for i := range rapid.IntRange(0, 3).Draw(t, "stages") {
		st := controller.StageStats{
			ID: controller.StageID(i), Name: [...]string{"stage 0", "stage 1", "stage 2"}[i],
			Workers: anyInt().Draw(t, "workers"), MinWorkers: anyInt().Draw(t, "min"), MaxWorkers: anyInt().Draw(t, "max"),
			Pool:  anyName().Draw(t, "pool"),
			Batch: controller.Batch{Max: anyInt().Draw(t, "batch")}, QueueCap: anyInt().Draw(t, "capacity"),
			Admission: controller.Admission{Gate: anyGate().Draw(t, "gate"), Limit: anyInt().Draw(t, "limit")},
		}
		s.Stages = append(s.Stages, st)
		if withPools {
			s.Pools = append(s.Pools, controller.PoolStats{Name: st.Name, Own: true})
		}
	}
	if withPools {
		s.Pools = append(s.Pools, controller.PoolStats{
			Name: "group", Group: true, Plan: anyPlan().Draw(t, "plan"), Workers: anyInt().Draw(t, "workers"),
			MinWorkers: anyInt().Draw(t, "min"), MaxWorkers: anyInt().Draw(t, "max"),
		})
	}
	return s
}

// wishes are all kinds of wishes except steals.
var wishes = []func(t *rapid.T, d *controller.Decisions, s controller.StageID, pool, why string){
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobWorkers.Set(d, s, anyInt().Draw(t, "n"), why)
	},
	func(t *rapid.T, d *controller.Decisions, _ controller.StageID, pool, why string) {
		controller.KnobWorkers.SetPool(d, pool, anyInt().Draw(t, "n"), why)
	},
	func(_ *rapid.T, d *controller.Decisions, s controller.StageID, pool, why string) {
		controller.KnobPool.Set(d, s, pool, why)
	},
	func(t *rapid.T, d *controller.Decisions, _ controller.StageID, pool, why string) {
		controller.KnobDispatch.SetPool(d, pool, controller.Dispatch(rapid.Byte().Draw(t, "way")), why)
	},
	func(t *rapid.T, d *controller.Decisions, _ controller.StageID, pool, why string) {
		controller.KnobVisit.SetPool(d, pool, anyPlan().Draw(t, "plan"), why)
	},
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobInstances.Set(d, s, anyInt().Draw(t, "n"), why)
	},
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobPriority.Set(d, s, anyInt().Draw(t, "n"), why)
	},
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobBatch.Set(d, s, controller.Batch{Max: anyInt().Draw(t, "n"), Linger: time.Duration(anyInt().Draw(t, "linger"))}, why)
	},
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobCapacity.Set(d, s, anyInt().Draw(t, "n"), why)
	},
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobEnabled.Set(d, s, rapid.Bool().Draw(t, "on"), why)
	},
	func(_ *rapid.T, d *controller.Decisions, s controller.StageID, pool, why string) {
		controller.KnobDiscipline.Set(d, s, pool, why)
	},
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobQuality.Set(d, s, anyFloat().Draw(t, "quality"), why)
	},
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobSojourn.Set(d, s, time.Duration(rapid.Int64().Draw(t, "sojourn")), why)
	},
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobRate.Set(d, s, controller.Rate{PerSecond: anyFloat().Draw(t, "rate"), Burst: anyInt().Draw(t, "burst")}, why)
	},
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobLimit.Set(d, s, anyInt().Draw(t, "n"), why)
	},
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobShed.Set(d, s, controller.Shed{Below: anyInt().Draw(t, "below"), Probability: anyFloat().Draw(t, "p")}, why)
	},
	func(t *rapid.T, d *controller.Decisions, s controller.StageID, _, why string) {
		controller.KnobGate.Set(d, s, anyGate().Draw(t, "gate"), why)
	},
}

func anyDecisions(t *rapid.T) *controller.Decisions {
	var d controller.Decisions
	for range rapid.IntRange(0, 12).Draw(t, "wishes") {
		stage := controller.StageID(anyInt().Draw(t, "stage"))
		rapid.SampledFrom(wishes).Draw(t, "wish")(t, &d, stage, anyName().Draw(t, "name"), rapid.SampledFrom([]string{"", "because"}).Draw(t, "why"))
	}
	return &d
}

// turn applies a change to a snapshot, as an engine would.
func turn(t *rapid.T, s *controller.Snapshot, c controller.Change) {
	if c.Stage == controller.Entry {
		admit(&s.Entry, c)
		return
	}
	if p := pool(s, c); p != nil && turnPool(p, c) {
		return
	}
	require.GreaterOrEqual(t, c.Stage, controller.StageID(0))
	turnStage(&s.Stages[c.Stage], c)
}

// pool returns the pool of a change and makes it if necessary; nil for a change of a stage.
func pool(s *controller.Snapshot, c controller.Change) *controller.PoolStats {
	ofPool := c.What == controller.KnobDispatch || c.What == controller.KnobVisit
	if !ofPool && c.Stage != controller.NoStage {
		return nil
	}
	if s.Pool(c.StageName) == nil {
		s.Pools = append(s.Pools, controller.PoolStats{
			Name: c.StageName, Own: c.Stage >= 0, MinWorkers: 1, MaxWorkers: controller.MostWorkers,
		})
	}
	return s.Pool(c.StageName)
}

func turnPool(p *controller.PoolStats, c controller.Change) bool {
	switch c.What {
	case controller.KnobDispatch:
		p.Dispatch = c.After.(controller.Dispatch)
	case controller.KnobVisit:
		p.Plan = c.After.(*controller.VisitPlan)
	case controller.KnobWorkers:
		p.Workers = c.After.(int)
	default:
		return false
	}
	return true
}

func turnStage(st *controller.StageStats, c controller.Change) {
	switch c.What {
	case controller.KnobWorkers:
		st.Workers = c.After.(int)
	case controller.KnobPool:
		st.Pool = c.After.(string)
	case controller.KnobInstances:
		st.Instances = c.After.(int)
	case controller.KnobPriority:
		st.Priority = c.After.(int)
	case controller.KnobBatch:
		st.Batch = c.After.(controller.Batch)
	case controller.KnobCapacity:
		st.QueueCap = c.After.(int)
	case controller.KnobEnabled:
		st.Enabled = c.After.(bool)
	case controller.KnobDiscipline:
		st.Discipline = c.After.(string)
	case controller.KnobQuality:
		st.Quality = c.After.(float64)
	case controller.KnobSojourn:
		st.Sojourn = c.After.(time.Duration)
	default:
		admit(&st.Admission, c)
	}
}

func admit(a *controller.Admission, c controller.Change) {
	switch c.What {
	case controller.KnobRate:
		a.Rate = c.After.(controller.Rate)
	case controller.KnobLimit:
		a.Limit = c.After.(int)
	case controller.KnobShed:
		a.Shed = c.After.(controller.Shed)
	case controller.KnobGate:
		a.Gate, _ = c.After.(controller.Gate)
	default:
		panic("no such knob: " + c.What.String())
	}
}

func requireEachKnobOnce(t *rapid.T, changes []controller.Change) {
	type knob struct {
		what controller.Knob
		of   controller.StageID
		name string
	}
	turned := map[knob]bool{}
	for _, c := range changes {
		k := knob{c.What, c.Stage, c.StageName}
		require.False(t, turned[k], "a knob changes only once: %v", c)
		turned[k] = true
	}
}

func requireWithinTheBounds(t *rapid.T, s *controller.Snapshot, c controller.Change) {
	if c.What != controller.KnobWorkers || c.Stage < 0 {
		return
	}
	st := &s.Stages[c.Stage]
	require.GreaterOrEqual(t, c.After, st.MinWorkers)
	require.LessOrEqual(t, c.After, max(st.MinWorkers, st.MaxWorkers))
}

func TestSettleOfAnythingIsWithinTheBoundsAndIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, d := anySnapshot(t), anyDecisions(t)
		changes, faults := controller.Settle("any", s, d)
		again, faultsAgain := controller.Settle("any", s, d)
		require.Equal(t, changes, again, "Settle changes nothing itself")
		require.Equal(t, faults, faultsAgain)

		requireEachKnobOnce(t, changes)
		for _, c := range changes {
			require.NotEmpty(t, c.Why)
			require.NotEmpty(t, c.String())
			requireWithinTheBounds(t, s, c)
		}
		for _, c := range changes {
			turn(t, s, c)
		}
		changes, faultsAgain = controller.Settle("any", s, d)
		require.Empty(t, changes, "settling again after the changes changes nothing")
		require.Equal(t, faults, faultsAgain)
	})
}

// Any stage steals from any other, with all other wishes.
func TestSettleTakesAnySteal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, d := anySnapshot(t), anyDecisions(t)
		for range rapid.IntRange(1, 6).Draw(t, "thefts") {
			d.Steal(controller.StageID(anyInt().Draw(t, "thief")), controller.StageID(anyInt().Draw(t, "victim")), anyInt().Draw(t, "n"), "")
		}
		changes, _ := controller.Settle("any", s, d)
		again, _ := controller.Settle("any", s, d)
		require.Equal(t, changes, again)
		requireEachKnobOnce(t, changes)
	})
}
