package controller_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
)

func TestAVisitPlanPrintsAsOneLine(t *testing.T) {
	order := []controller.StageID{0, 1, 2, 1}
	tests := map[string]*controller.VisitPlan{
		"no plan":                     nil,
		"in order, exhaustive":        {},
		"1 2 3 2, gated":              {Order: order, Gating: controller.Gated},
		"1 2 3 2, bounded 8":          {Order: order, Gating: controller.Bounded, Bound: 8},
		"1 2 3 2, bounded 1":          {Order: order, Gating: controller.Bounded, Bound: -8},
		"in order, bounded 8, 3 at 2": {Gating: controller.Bounded, Bound: 8, Bounds: map[controller.StageID]int{1: 3}},
		"in order, bounded 1, 1 at 1, 5 at 4": {
			Gating: controller.Bounded, Bounds: map[controller.StageID]int{3: 5, 0: -1},
		},
		"in order, time-bounded 100µs":                     {Gating: controller.TimeBounded, Quantum: 100 * time.Microsecond, Bound: 9},
		"in order, unknown":                                {Gating: 9},
		"in order, exhaustive, restart at 1":               {Restart: true},
		"in order, bounded 1, restart at 2 unless bounded": {Gating: controller.Bounded, Restart: true, RestartAt: 1, Advance: true},
		"in order, exhaustive, restart at 1, full rounds":  {Restart: true, FullRounds: true},
		"in order, exhaustive, now":                        {Now: true, Advance: true, RestartAt: 3},
	}
	for want, p := range tests {
		require.Equal(t, want, p.String())
	}
}

func TestTheBoundOfAVisit(t *testing.T) {
	bounds := map[controller.StageID]int{1: 3, 2: 0, 3: -9}
	tests := map[string]struct {
		plan  *controller.VisitPlan
		stage controller.StageID
		want  int
	}{
		"no plan":               {nil, 0, 0},
		"not bounded":           {&controller.VisitPlan{Bound: 8, Bounds: bounds}, 1, 0},
		"time-bounded":          {&controller.VisitPlan{Gating: controller.TimeBounded, Bound: 8}, 1, 0},
		"of all":                {&controller.VisitPlan{Gating: controller.Bounded, Bound: 8, Bounds: bounds}, 0, 8},
		"of the stage":          {&controller.VisitPlan{Gating: controller.Bounded, Bound: 8, Bounds: bounds}, 1, 3},
		"none is one":           {&controller.VisitPlan{Gating: controller.Bounded, Bound: 8, Bounds: bounds}, 2, 1},
		"less than none is one": {&controller.VisitPlan{Gating: controller.Bounded, Bound: 8, Bounds: bounds}, 3, 1},
		"no bound is one":       {&controller.VisitPlan{Gating: controller.Bounded}, 3, 1},
		"an unknown stage":      {&controller.VisitPlan{Gating: controller.Bounded, Bound: 8}, -77, 8},
		"the greatest int":      {&controller.VisitPlan{Gating: controller.Bounded, Bound: math.MaxInt}, 0, math.MaxInt},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, tt.plan.BoundOf(tt.stage)) })
	}
}

func TestPlansWithTheSameFieldsAreEqual(t *testing.T) {
	plan := func(change func(p *controller.VisitPlan)) *controller.VisitPlan {
		p := &controller.VisitPlan{
			Order: []controller.StageID{0, 1}, Gating: controller.Bounded, Bound: 8,
			Bounds: map[controller.StageID]int{1: 3}, Quantum: 1, Restart: true, RestartAt: 1, Advance: true, Now: true,
		}
		change(p)
		return p
	}
	same := plan(func(*controller.VisitPlan) {})
	require.True(t, same.Equal(plan(func(*controller.VisitPlan) {})))
	require.True(t, (&controller.VisitPlan{}).Equal(&controller.VisitPlan{Order: []controller.StageID{}, Bounds: map[controller.StageID]int{}}))
	for what, change := range map[string]func(p *controller.VisitPlan){
		"order":           func(p *controller.VisitPlan) { p.Order[1] = 2 },
		"length":          func(p *controller.VisitPlan) { p.Order = p.Order[:1] },
		"gating":          func(p *controller.VisitPlan) { p.Gating = controller.Gated },
		"bound":           func(p *controller.VisitPlan) { p.Bound++ },
		"a stage's bound": func(p *controller.VisitPlan) { p.Bounds[1]++ },
		"whose bound":     func(p *controller.VisitPlan) { p.Bounds = map[controller.StageID]int{2: 3} },
		"a bound of zero": func(p *controller.VisitPlan) { p.Bounds = map[controller.StageID]int{2: 0} },
		"one bound more":  func(p *controller.VisitPlan) { p.Bounds[0] = 3 },
		"quantum":         func(p *controller.VisitPlan) { p.Quantum++ },
		"restart":         func(p *controller.VisitPlan) { p.Restart = false },
		"restart at":      func(p *controller.VisitPlan) { p.RestartAt++ },
		"advance":         func(p *controller.VisitPlan) { p.Advance = false },
		"now":             func(p *controller.VisitPlan) { p.Now = false },
	} {
		require.False(t, same.Equal(plan(change)), what)
		require.False(t, plan(change).Equal(same), what)
	}
	var none *controller.VisitPlan
	require.True(t, none.Equal(nil))
	require.False(t, none.Equal(&controller.VisitPlan{}))
	require.False(t, (&controller.VisitPlan{}).Equal(nil))
}

func TestAnyPlanCanBePrintedAndCompared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := anyPlan().Draw(t, "p"), anyPlan().Draw(t, "q")
		require.True(t, p.Equal(p)) //nolint:gocritic // the test is about comparing a plan with itself
		require.Equal(t, p.Equal(q), q.Equal(p))
		require.NotEmpty(t, p.String())
		require.GreaterOrEqual(t, p.BoundOf(controller.StageID(anyInt().Draw(t, "stage"))), 0)
	})
}
