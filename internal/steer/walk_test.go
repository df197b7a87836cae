package steer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/steer"
)

// left is how a visit ended.
type left struct {
	handled int
	bounded bool
}

func TestAWalkFollowsThePlan(t *testing.T) {
	var (
		nothing = left{0, false}
		some    = left{3, false}
		bound   = left{8, true}
	)
	tests := map[string]struct {
		plan   *controller.VisitPlan
		visits []left
		want   []int // places
		rounds int
	}{
		"no plan":                    {nil, []left{some, nothing, bound, some}, []int{0, 1, 2, 0, 1}, 1},
		"without a restart":          {&controller.VisitPlan{}, []left{some, nothing, bound, some}, []int{0, 1, 2, 0, 1}, 1},
		"with one":                   {&controller.VisitPlan{Restart: true}, []left{nothing, some, nothing, nothing, some}, []int{0, 1, 0, 1, 2, 0}, 0},
		"with one, after a bound":    {&controller.VisitPlan{Restart: true}, []left{nothing, bound, nothing}, []int{0, 1, 0, 1}, 0},
		"with one, to advance":       {&controller.VisitPlan{Restart: true, Advance: true}, []left{nothing, bound, some, bound, bound, bound}, []int{0, 1, 2, 0, 1, 2, 0}, 1},
		"in the middle":              {&controller.VisitPlan{Restart: true, RestartAt: 1}, []left{nothing, nothing, some, nothing, nothing}, []int{0, 1, 2, 1, 2, 0}, 1},
		"beyond the end":             {&controller.VisitPlan{Restart: true, RestartAt: 9}, []left{some, nothing}, []int{0, 2, 0}, 1},
		"before the beginning":       {&controller.VisitPlan{Restart: true, RestartAt: -9}, []left{nothing, some}, []int{0, 1, 0}, 0},
		"to advance without restart": {&controller.VisitPlan{Advance: true}, []left{bound, some}, []int{0, 1, 2}, 0},
		"nothing to do":              {&controller.VisitPlan{Restart: true}, []left{nothing, nothing, nothing, nothing, nothing, nothing}, []int{0, 1, 2, 0, 1, 2, 0}, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var w steer.Walk
			places, rounds := []int{w.At(3)}, 0
			for _, v := range tt.visits {
				if w.Leave(tt.plan, 3, v.handled, v.bounded) {
					rounds++
				}
				places = append(places, w.At(3))
			}
			require.Equal(t, tt.want, places)
			require.Equal(t, tt.rounds, rounds)
		})
	}
}

func TestARoundEndsAtTheLastPlaceUnlessThePlanHasFullRounds(t *testing.T) {
	back, full := &controller.VisitPlan{Restart: true}, &controller.VisitPlan{Restart: true, FullRounds: true}
	for name, tt := range map[string]struct {
		plan     *controller.VisitPlan
		handled  int
		at, want bool // at the last place; a round ends
	}{
		"success at the last place":                {back, 1, true, true},
		"success before":                           {back, 1, false, false},
		"nothing at the last place":                {back, 0, true, true},
		"full rounds: success at the last place":   {full, 1, true, false},
		"full rounds: nothing at the last place":   {full, 0, true, true},
		"full rounds: nothing before":              {full, 0, false, false},
		"no plan: success at the last place":       {nil, 1, true, true},
		"no restart: success at the last place":    {&controller.VisitPlan{FullRounds: true}, 1, true, true},
		"no restart: success before the last one":  {&controller.VisitPlan{}, 1, false, false},
		"no restart: nothing before the last one":  {&controller.VisitPlan{}, 0, false, false},
		"no restart: nothing at the very last one": {&controller.VisitPlan{}, 0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var w steer.Walk
			w.Leave(nil, 3, 0, false)
			if tt.at {
				w.Leave(nil, 3, 0, false)
			}
			require.Equal(t, tt.want, w.EndsRound(tt.plan, 3, tt.handled, false))
			require.Equal(t, map[bool]int{false: 1, true: 2}[tt.at], w.At(3), "EndsRound does not move the walk")
		})
	}
}

func TestAWalkRestartsWithANewPlan(t *testing.T) {
	var w steer.Walk
	w.Leave(nil, 3, 0, false)
	w.Leave(nil, 3, 0, false)
	require.Equal(t, 2, w.At(3))
	require.Equal(t, 0, w.At(2), "an order that has become shorter")
	w.Leave(nil, 3, 0, false)
	w.Restart()
	require.Equal(t, 0, w.At(3))
}

// With any plan, a worker that finds nothing to do visits every place within one round.
func TestWithoutSuccessAWalkPassesEveryPlaceInOneRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan, n := anyPlan().Draw(t, "plan"), rapid.IntRange(1, 9).Draw(t, "places")
		var w steer.Walk
		wander(t, &w, plan, n)
		for !w.Leave(plan, n, 0, false) {
			w.At(n) // to the end of the round
		}
		for place := range n {
			require.Equal(t, place, w.At(n))
			require.Equal(t, place == n-1, w.Leave(plan, n, 0, false))
		}
	})
}

// wander moves a walk to an arbitrary place.
func wander(t *rapid.T, w *steer.Walk, plan *controller.VisitPlan, n int) {
	for range rapid.IntRange(0, 20).Draw(t, "visits before") {
		w.Leave(plan, n, rapid.IntRange(0, 9).Draw(t, "handled"), rapid.Bool().Draw(t, "bounded"))
		at := w.At(n)
		require.GreaterOrEqual(t, at, 0)
		require.Less(t, at, n)
	}
}

// Some places have endless work, so that each visit ends at its bound; the others have none. However the walk restarts,
// each place has its turn in each round.
func TestNoPlaceStarvesBehindBoundedOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		busy := rapid.SliceOfN(rapid.Bool(), 1, 9).Draw(t, "busy")
		plan := &controller.VisitPlan{
			Gating: controller.Bounded, Restart: true, Advance: true, RestartAt: rapid.IntRange(-3, 9).Draw(t, "restart at"),
		}
		var w steer.Walk
		wander(t, &w, plan, len(busy))
		visited := make([]int, len(busy))
		for range 3 * len(busy) {
			at := w.At(len(busy))
			visited[at]++
			w.Leave(plan, len(busy), map[bool]int{true: 8}[busy[at]], busy[at])
		}
		require.Equal(t, slices.Repeat([]int{3}, len(busy)), visited)
	})
}

// Without Advance, the first place with endless work keeps all the workers. This is why the option exists.
func TestWithoutAdvanceABusyPlaceStarvesThePlacesBehindIt(t *testing.T) {
	var w steer.Walk
	plan := &controller.VisitPlan{Gating: controller.Bounded, Restart: true}
	for range 100 {
		require.Zero(t, w.At(3))
		w.Leave(plan, 3, 8, true)
	}
}

func TestAWalkThroughNoPlacesStaysAtTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w steer.Walk
		plan := anyPlan().Draw(t, "plan")
		for range 5 {
			w.Leave(plan, rapid.IntRange(-2, 3).Draw(t, "places"), rapid.IntRange(-1, 2).Draw(t, "handled"), rapid.Bool().Draw(t, "bounded"))
			require.GreaterOrEqual(t, w.At(3), 0)
			require.Zero(t, w.At(0))
		}
	})
}

// anyPlan draws plans, also those with places and bounds that make no sense.
func anyPlan() *rapid.Generator[*controller.VisitPlan] {
	return rapid.OneOf(rapid.Just[*controller.VisitPlan](nil), rapid.Custom(func(t *rapid.T) *controller.VisitPlan {
		p := &controller.VisitPlan{
			Gating: controller.Gating(rapid.IntRange(0, 5).Draw(t, "gating")), Bound: rapid.IntRange(-3, 9).Draw(t, "bound"),
			Quantum: time.Duration(rapid.IntRange(-3, 9).Draw(t, "quantum")),
			Restart: rapid.Bool().Draw(t, "restart"), RestartAt: rapid.IntRange(-3, 9).Draw(t, "restart at"),
			Advance: rapid.Bool().Draw(t, "advance"), Now: rapid.Bool().Draw(t, "now"),
			FullRounds: rapid.Bool().Draw(t, "full rounds"),
		}
		for _, s := range rapid.SliceOfN(rapid.IntRange(-3, 9), 0, 4).Draw(t, "order") {
			p.Order = append(p.Order, controller.StageID(s))
		}
		for s, n := range rapid.MapOfN(rapid.IntRange(-3, 9), rapid.IntRange(-3, 9), 0, 3).Draw(t, "bounds") {
			if p.Bounds == nil {
				p.Bounds = map[controller.StageID]int{}
			}
			p.Bounds[controller.StageID(s)] = n
		}
		return p
	}))
}
