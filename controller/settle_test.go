package controller_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
)

// The stages of the snapshot below: two with workers of their own, and two that share the pool of the group "both".
const (
	parse controller.StageID = iota
	save
	mail
	index
)

func fourStages() *controller.Snapshot {
	stage := func(id controller.StageID, name, pool string, workers int) controller.StageStats {
		return controller.StageStats{
			ID: id, Name: name, Pool: pool, Workers: workers, MinWorkers: min(workers, 1), MaxWorkers: 2 * workers,
			QueueCap: 64, Instances: 4, Batch: controller.Batch{Max: 8}, Discipline: "fifo", Enabled: true, Quality: 1,
		}
	}
	own := func(name string, workers int, stages ...controller.StageID) controller.PoolStats {
		return controller.PoolStats{
			Name: name, Own: true, Stages: stages, Workers: workers, MinWorkers: min(workers, 1), MaxWorkers: 2 * workers,
		}
	}
	return &controller.Snapshot{
		At: 3 * time.Second,
		Stages: []controller.StageStats{
			stage(parse, "parse", "parse", 4), stage(save, "save", "save", 4),
			stage(mail, "mail", "both", 0), stage(index, "index", "both", 0),
		},
		Pools: []controller.PoolStats{
			own("parse", 4, parse), own("save", 4, save), own("mail", 0), own("index", 0),
			{
				Name: "both", Group: true, Stages: []controller.StageID{mail, index}, Workers: 3, MinWorkers: 2, MaxWorkers: 6,
				Dispatch: controller.Polled, Plan: &controller.VisitPlan{Order: []controller.StageID{mail, index}},
			},
		},
	}
}

// closed is a gate that can be compared; shut is one that cannot.
type (
	closed struct{ why string }
	shut   func() error
)

func (g closed) Admit(any, int, int) error { return errors.New(g.why) }
func (g shut) Admit(any, int, int) error   { return g() }

type wish = func(d *controller.Decisions)

func TestEachKnobChangesToTheWishWithinItsBounds(t *testing.T) {
	type tests = map[string]struct {
		wish          wish
		before, after any // nil: no change
	}
	plan := &controller.VisitPlan{Order: []controller.StageID{index, mail}}
	for knob, tests := range map[controller.Knob]tests{
		controller.KnobWorkers: {
			"of a stage":                 {func(d *controller.Decisions) { controller.KnobWorkers.Set(d, parse, 5, "x") }, 4, 5},
			"more than the most":         {func(d *controller.Decisions) { controller.KnobWorkers.Set(d, parse, math.MaxInt, "x") }, 4, 8},
			"less than the least":        {func(d *controller.Decisions) { controller.KnobWorkers.Set(d, parse, math.MinInt, "x") }, 4, 1},
			"as it is":                   {func(d *controller.Decisions) { controller.KnobWorkers.Set(d, parse, 4, "x") }, nil, nil},
			"of a stage bound elsewhere": {func(d *controller.Decisions) { controller.KnobWorkers.Set(d, mail, 4, "x") }, nil, nil},
			"of a group":                 {func(d *controller.Decisions) { controller.KnobWorkers.SetPool(d, "both", 5, "x") }, 3, 5},
			"of a group, too many":       {func(d *controller.Decisions) { controller.KnobWorkers.SetPool(d, "both", 7, "x") }, 3, 6},
			"of a group, as it is":       {func(d *controller.Decisions) { controller.KnobWorkers.SetPool(d, "both", 3, "x") }, nil, nil},
			"of a new pool":              {func(d *controller.Decisions) { controller.KnobWorkers.SetPool(d, "new", 5, "x") }, 0, 5},
			"of a new pool, none":        {func(d *controller.Decisions) { controller.KnobWorkers.SetPool(d, "new", 0, "x") }, 0, 1},
			"of a new pool, too many":    {func(d *controller.Decisions) { controller.KnobWorkers.SetPool(d, "new", math.MaxInt, "x") }, 0, controller.MostWorkers},
			"of a stage by its name":     {func(d *controller.Decisions) { controller.KnobWorkers.SetPool(d, "parse", 5, "x") }, 4, 5},
		},
		controller.KnobPool: {
			"to a group":        {func(d *controller.Decisions) { controller.KnobPool.Set(d, parse, "both", "x") }, "parse", "both"},
			"where it is":       {func(d *controller.Decisions) { controller.KnobPool.Set(d, mail, "both", "x") }, nil, nil},
			"to its own":        {func(d *controller.Decisions) { controller.KnobPool.Set(d, mail, "mail", "x") }, "both", "mail"},
			"to its own, too":   {func(d *controller.Decisions) { controller.KnobPool.Set(d, mail, "", "x") }, "both", "mail"},
			"its own as it is":  {func(d *controller.Decisions) { controller.KnobPool.Set(d, parse, "", "x") }, nil, nil},
			"to another stages": {func(d *controller.Decisions) { controller.KnobPool.Set(d, mail, "parse", "x") }, "both", "parse"},
		},
		controller.KnobDispatch: {
			"another way": {func(d *controller.Decisions) { controller.KnobDispatch.SetPool(d, "both", controller.SharedFIFO, "x") }, controller.Polled, controller.SharedFIFO},
			"as it is":    {func(d *controller.Decisions) { controller.KnobDispatch.SetPool(d, "both", controller.Polled, "x") }, nil, nil},
		},
		controller.KnobVisit: {
			"another plan": {func(d *controller.Decisions) { controller.KnobVisit.SetPool(d, "both", plan, "x") }, fourStages().Pools[4].Plan, plan},
			"no plan":      {func(d *controller.Decisions) { controller.KnobVisit.SetPool(d, "both", nil, "x") }, fourStages().Pools[4].Plan, (*controller.VisitPlan)(nil)},
			"as it is": {func(d *controller.Decisions) {
				controller.KnobVisit.SetPool(d, "both", fourStages().Pools[4].Plan, "x")
			}, nil, nil},
			"none as none": {func(d *controller.Decisions) { controller.KnobVisit.SetPool(d, "parse", nil, "x") }, nil, nil},
		},
		controller.KnobInstances: {
			"more":     {func(d *controller.Decisions) { controller.KnobInstances.Set(d, parse, 5, "x") }, 4, 5},
			"none":     {func(d *controller.Decisions) { controller.KnobInstances.Set(d, parse, 0, "x") }, 4, 1},
			"huge":     {func(d *controller.Decisions) { controller.KnobInstances.Set(d, parse, math.MaxInt, "x") }, 4, math.MaxInt32},
			"as it is": {func(d *controller.Decisions) { controller.KnobInstances.Set(d, parse, 4, "x") }, nil, nil},
		},
		controller.KnobPriority: {
			"higher":   {func(d *controller.Decisions) { controller.KnobPriority.Set(d, parse, 5, "x") }, 0, 5},
			"negative": {func(d *controller.Decisions) { controller.KnobPriority.Set(d, parse, -5, "x") }, 0, -5},
			"as it is": {func(d *controller.Decisions) { controller.KnobPriority.Set(d, parse, 0, "x") }, nil, nil},
		},
		controller.KnobBatch: {
			"larger": {func(d *controller.Decisions) { controller.KnobBatch.Set(d, parse, controller.Batch{Max: 9}, "x") }, controller.Batch{Max: 8}, controller.Batch{Max: 9}},
			"to linger": {func(d *controller.Decisions) {
				controller.KnobBatch.Set(d, parse, controller.Batch{Max: 8, Linger: 1}, "x")
			}, controller.Batch{Max: 8}, controller.Batch{Max: 8, Linger: 1}},
			"none": {func(d *controller.Decisions) { controller.KnobBatch.Set(d, parse, controller.Batch{Max: 0}, "x") }, controller.Batch{Max: 8}, controller.Batch{Max: 1}},
			"huge": {func(d *controller.Decisions) {
				controller.KnobBatch.Set(d, parse, controller.Batch{Max: math.MaxInt}, "x")
			}, controller.Batch{Max: 8}, controller.Batch{Max: 1 << 16}},
			"before its time": {func(d *controller.Decisions) {
				controller.KnobBatch.Set(d, parse, controller.Batch{Max: 8, Linger: -1}, "x")
			}, nil, nil},
			"as it is": {func(d *controller.Decisions) { controller.KnobBatch.Set(d, parse, controller.Batch{Max: 8}, "x") }, nil, nil},
		},
		controller.KnobCapacity: {
			"larger":   {func(d *controller.Decisions) { controller.KnobCapacity.Set(d, parse, 65, "x") }, 64, 65},
			"none":     {func(d *controller.Decisions) { controller.KnobCapacity.Set(d, parse, -1, "x") }, 64, 1},
			"huge":     {func(d *controller.Decisions) { controller.KnobCapacity.Set(d, parse, math.MaxInt, "x") }, 64, 1 << 30},
			"as it is": {func(d *controller.Decisions) { controller.KnobCapacity.Set(d, parse, 64, "x") }, nil, nil},
		},
		controller.KnobEnabled: {
			"off":      {func(d *controller.Decisions) { controller.KnobEnabled.Set(d, parse, false, "x") }, true, false},
			"as it is": {func(d *controller.Decisions) { controller.KnobEnabled.Set(d, parse, true, "x") }, nil, nil},
		},
		controller.KnobDiscipline: {
			"another":  {func(d *controller.Decisions) { controller.KnobDiscipline.Set(d, parse, "lifo", "x") }, "fifo", "lifo"},
			"as it is": {func(d *controller.Decisions) { controller.KnobDiscipline.Set(d, parse, "fifo", "x") }, nil, nil},
		},
		controller.KnobQuality: {
			"less":           {func(d *controller.Decisions) { controller.KnobQuality.Set(d, parse, 0.5, "x") }, 1.0, 0.5},
			"less than none": {func(d *controller.Decisions) { controller.KnobQuality.Set(d, parse, math.Inf(-1), "x") }, 1.0, 0.0},
			"more than all":  {func(d *controller.Decisions) { controller.KnobQuality.Set(d, parse, math.Inf(1), "x") }, nil, nil},
		},
		controller.KnobSojourn: {
			"a bound":  {func(d *controller.Decisions) { controller.KnobSojourn.Set(d, parse, time.Second, "x") }, time.Duration(0), time.Second},
			"huge":     {func(d *controller.Decisions) { controller.KnobSojourn.Set(d, parse, math.MaxInt64, "x") }, time.Duration(0), time.Hour},
			"negative": {func(d *controller.Decisions) { controller.KnobSojourn.Set(d, parse, -1, "x") }, nil, nil},
			"as it is": {func(d *controller.Decisions) { controller.KnobSojourn.Set(d, parse, 0, "x") }, nil, nil},
		},
	} {
		for name, tt := range tests {
			t.Run(knob.String()+" "+name, func(t *testing.T) { requireChange(t, knob, tt.wish, tt.before, tt.after) })
		}
	}
}

// The same wishes work for a stage and for the entry.
func TestEachKnobOfAdmissionChangesToTheWish(t *testing.T) {
	for scope, name := range map[controller.StageID]string{parse: "parse", controller.Entry: "entry"} {
		tests := map[string]struct {
			knob          controller.Knob
			wish          wish
			before, after any
		}{
			"a rate": {controller.KnobRate, func(d *controller.Decisions) {
				controller.KnobRate.Set(d, scope, controller.Rate{PerSecond: 9, Burst: 3}, "x")
			}, controller.Rate{}, controller.Rate{PerSecond: 9, Burst: 3}},
			"a rate without a burst": {controller.KnobRate, func(d *controller.Decisions) {
				controller.KnobRate.Set(d, scope, controller.Rate{PerSecond: 9, Burst: -3}, "x")
			}, controller.Rate{}, controller.Rate{PerSecond: 9, Burst: 1}},
			"a huge rate": {controller.KnobRate, func(d *controller.Decisions) {
				controller.KnobRate.Set(d, scope, controller.Rate{PerSecond: math.MaxFloat64, Burst: 1}, "x")
			}, controller.Rate{}, controller.Rate{PerSecond: math.MaxFloat64, Burst: 1}},
			"no rate, whatever burst": {controller.KnobRate, func(d *controller.Decisions) {
				controller.KnobRate.Set(d, scope, controller.Rate{PerSecond: 0, Burst: 7}, "x")
			}, nil, nil},
			"a limit":  {controller.KnobLimit, func(d *controller.Decisions) { controller.KnobLimit.Set(d, scope, 9, "x") }, 0, 9},
			"no limit": {controller.KnobLimit, func(d *controller.Decisions) { controller.KnobLimit.Set(d, scope, -9, "x") }, nil, nil},
			"some are shed": {controller.KnobShed, func(d *controller.Decisions) {
				controller.KnobShed.Set(d, scope, controller.Shed{Below: 2, Probability: 0.5}, "x")
			}, controller.Shed{}, controller.Shed{Below: 2, Probability: 0.5}},
			"all are shed": {controller.KnobShed, func(d *controller.Decisions) {
				controller.KnobShed.Set(d, scope, controller.Shed{Below: 0, Probability: math.Inf(1)}, "x")
			}, controller.Shed{}, controller.Shed{Probability: 1}},
			"less than none are shed": {controller.KnobShed, func(d *controller.Decisions) {
				controller.KnobShed.Set(d, scope, controller.Shed{Below: 0, Probability: -1}, "x")
			}, nil, nil},
			"a gate":                     {controller.KnobGate, func(d *controller.Decisions) { controller.KnobGate.Set(d, scope, closed{"no"}, "x") }, nil, closed{"no"}},
			"no gate where there is one": {controller.KnobGate, func(d *controller.Decisions) { controller.KnobGate.Set(d, scope, nil, "x") }, nil, nil},
		}
		for what, tt := range tests {
			t.Run(name+": "+what, func(t *testing.T) { requireChange(t, tt.knob, tt.wish, tt.before, tt.after) })
		}
	}
}

func requireChange(t *testing.T, knob controller.Knob, w wish, before, after any) {
	t.Helper()
	var d controller.Decisions
	require.NoError(t, controller.Ask(law(func(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) { w(d) }), tick, fourStages(), &d))
	changes, faults := controller.Settle("mine", fourStages(), &d)
	require.Empty(t, faults)
	if before == nil && after == nil {
		require.Empty(t, changes)
		return
	}
	require.Len(t, changes, 1)
	c := changes[0]
	require.Equal(t, knob, c.What)
	require.Equal(t, before, c.Before)
	require.Equal(t, after, c.After)
	require.Equal(t, "mine", c.Policy)
	require.Equal(t, 3*time.Second, c.At)
	require.Contains(t, c.Why, "x")
}

func TestAnImpossibleWishIsAFaultAndOtherWishesCount(t *testing.T) {
	tests := map[string]struct {
		wish wish
		says string
	}{
		"no stage":            {func(d *controller.Decisions) { controller.KnobWorkers.Set(d, controller.NoStage, 1, "") }, "decision for unknown stage -1"},
		"no such stage":       {func(d *controller.Decisions) { controller.KnobBatch.Set(d, 4, controller.Batch{Max: 1}, "") }, "decision for unknown stage 4"},
		"no such thief":       {func(d *controller.Decisions) { d.Steal(9, parse, 1, "") }, "decision for unknown stage 9"},
		"no such victim":      {func(d *controller.Decisions) { d.Steal(parse, -7, 1, "") }, "decision for unknown stage -7"},
		"no scope":            {func(d *controller.Decisions) { controller.KnobLimit.Set(d, controller.NoStage, 1, "") }, "decision for unknown stage -1"},
		"no such pool":        {func(d *controller.Decisions) { controller.KnobDispatch.SetPool(d, "ghost", controller.Polled, "") }, `decision for unknown pool "ghost"`},
		"no pool":             {func(d *controller.Decisions) { controller.KnobVisit.SetPool(d, "", nil, "") }, `decision for unknown pool ""`},
		"a pool without name": {func(d *controller.Decisions) { controller.KnobWorkers.SetPool(d, "", 3, "") }, `decision for unknown pool ""`},
		"bound to no pool":    {func(d *controller.Decisions) { controller.KnobPool.Set(d, parse, "ghost", "") }, `decision for unknown pool "ghost"`},
		"no such dispatch":    {func(d *controller.Decisions) { controller.KnobDispatch.SetPool(d, "both", 9, "") }, `dispatch of "both": unknown dispatch: 9`},
		"quality":             {func(d *controller.Decisions) { controller.KnobQuality.Set(d, parse, math.NaN(), "") }, `quality of "parse": not a number`},
		"a rate of nothing": {func(d *controller.Decisions) {
			controller.KnobRate.Set(d, parse, controller.Rate{PerSecond: math.NaN(), Burst: 1}, "")
		}, `rate of "parse": NaN a second`},
		"a negative rate": {func(d *controller.Decisions) {
			controller.KnobRate.Set(d, controller.Entry, controller.Rate{PerSecond: -1, Burst: 1}, "")
		}, `rate of "entry": -1 a second`},
		"a rate without end": {func(d *controller.Decisions) {
			controller.KnobRate.Set(d, parse, controller.Rate{PerSecond: math.Inf(1), Burst: 1}, "")
		}, `rate of "parse": +Inf a second`},
		"a chance of nothing": {func(d *controller.Decisions) {
			controller.KnobShed.Set(d, parse, controller.Shed{Below: 0, Probability: math.NaN()}, "")
		}, `shed of "parse": not a number`},
		"workers of entry": {func(d *controller.Decisions) { controller.KnobWorkers.Set(d, controller.Entry, 3, "") }, `workers of "entry": has no such knob`},
		"a thief at entry": {func(d *controller.Decisions) { d.Steal(controller.Entry, parse, 3, "") }, `steal of "entry": has no such knob`},
		"a pool of entry":  {func(d *controller.Decisions) { controller.KnobPool.Set(d, controller.Entry, "both", "") }, `pool of "entry": has no such knob`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var d controller.Decisions
			tt.wish(&d)
			controller.KnobWorkers.Set(&d, save, 5, "this one counts")
			changes, faults := controller.Settle("mine", fourStages(), &d)
			require.Len(t, faults, 1)
			require.EqualError(t, faults[0], `controller: policy "mine": `+tt.says)
			require.Len(t, changes, 1)
			require.Equal(t, save, changes[0].Stage)
		})
	}
}

func TestADecisionCanUseAPoolThatItMakes(t *testing.T) {
	var d controller.Decisions
	controller.KnobPool.Set(&d, parse, "new", "to a pool that is made later")
	controller.KnobWorkers.SetPool(&d, "new", 2, "made here")
	controller.KnobWorkers.SetPool(&d, "new", 3, "and set again")
	controller.KnobDispatch.SetPool(&d, "new", controller.Polled, "made here")
	controller.KnobVisit.SetPool(&d, "new", &controller.VisitPlan{Gating: controller.Gated}, "made here")
	require.Equal(t, []string{"new"}, d.Pools())
	require.Equal(t, []string{
		`3s mine: stage "parse": pool parse to new: to a pool that is made later`,
		`3s mine: pool "new": workers 0 to 3: and set again`,
		`3s mine: pool "new": dispatch shared FIFO to polled: made here`,
		`3s mine: pool "new": visit no plan to in order, gated: made here`,
	}, settled(t, &d))
}

func settled(t *testing.T, d *controller.Decisions) []string {
	t.Helper()
	changes, faults := controller.Settle("mine", fourStages(), d)
	require.Empty(t, faults)
	lines := make([]string, 0, len(changes))
	for _, c := range changes {
		lines = append(lines, c.String())
	}
	return lines
}

// A stage's own pool has the stage's name, so wishes for either name set the same knob.
func TestAStageAndItsOwnPoolShareAKnob(t *testing.T) {
	tests := map[string]struct {
		wish wish
		want []string
	}{
		"by the stage": {func(d *controller.Decisions) { controller.KnobWorkers.Set(d, parse, 5, "x") }, []string{`3s mine: stage "parse": workers 4 to 5: x`}},
		"by the name":  {func(d *controller.Decisions) { controller.KnobWorkers.SetPool(d, "parse", 5, "x") }, []string{`3s mine: stage "parse": workers 4 to 5: x`}},
		"last by the name": {func(d *controller.Decisions) {
			controller.KnobWorkers.Set(d, parse, 5, "x")
			controller.KnobWorkers.SetPool(d, "parse", 6, "y")
		}, []string{`3s mine: stage "parse": workers 4 to 6: y`}},
		"last by the stage": {func(d *controller.Decisions) {
			controller.KnobWorkers.SetPool(d, "parse", 5, "x")
			controller.KnobWorkers.Set(d, parse, 6, "y")
		}, []string{`3s mine: stage "parse": workers 4 to 6: y`}},
		"last of three": {func(d *controller.Decisions) {
			controller.KnobWorkers.Set(d, parse, 5, "x")
			controller.KnobWorkers.SetPool(d, "parse", 6, "y")
			controller.KnobWorkers.Set(d, parse, 7, "z")
		}, []string{`3s mine: stage "parse": workers 4 to 7: z`}},
		"last as it is": {func(d *controller.Decisions) {
			controller.KnobWorkers.Set(d, parse, 5, "x")
			controller.KnobWorkers.SetPool(d, "parse", 4, "y")
		}, []string{}},
		"dispatch of own": {func(d *controller.Decisions) { controller.KnobDispatch.SetPool(d, "parse", controller.Polled, "x") }, []string{`3s mine: stage "parse": dispatch shared FIFO to polled: x`}},
		"a group and a stage": {func(d *controller.Decisions) {
			controller.KnobWorkers.SetPool(d, "both", 5, "x")
			controller.KnobWorkers.Set(d, mail, 5, "y")
		}, []string{`3s mine: pool "both": workers 3 to 5: x`}},
		"two stages": {func(d *controller.Decisions) {
			controller.KnobWorkers.Set(d, parse, 5, "x")
			controller.KnobWorkers.SetPool(d, "save", 6, "y")
		}, []string{`3s mine: stage "parse": workers 4 to 5: x`, `3s mine: stage "save": workers 4 to 6: y`}},
		"bound by name and not": {func(d *controller.Decisions) {
			controller.KnobPool.Set(d, mail, "mail", "x")
			controller.KnobPool.Set(d, mail, "", "y")
		}, []string{`3s mine: stage "mail": pool both to mail: y`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var d controller.Decisions
			tt.wish(&d)
			require.Equal(t, tt.want, settled(t, &d))
		})
	}
}

func TestAGroupWithTheNameOfAStageIsTheGroup(t *testing.T) {
	s := fourStages()
	s.Pools[0].Own = false
	var d controller.Decisions
	controller.KnobWorkers.SetPool(&d, "parse", 5, "of the group")
	controller.KnobWorkers.Set(&d, parse, 6, "of the stage")
	changes, _ := controller.Settle("mine", s, &d)
	require.Len(t, changes, 2)
	require.Equal(t, controller.NoStage, changes[0].Stage)
}

func TestStagesHaveOwnPoolsInASnapshotWithoutPools(t *testing.T) {
	s := fourStages()
	s.Pools = nil
	var d controller.Decisions
	controller.KnobWorkers.SetPool(&d, "parse", 5, "x")
	controller.KnobVisit.SetPool(&d, "save", &controller.VisitPlan{}, "y")
	changes, faults := controller.Settle("mine", s, &d)
	require.Empty(t, faults)
	require.Len(t, changes, 2)
	require.Equal(t, 4, changes[0].Before)
}

func TestStealMovesWorkersAndKeepsTheirSum(t *testing.T) {
	tests := map[string]struct {
		wish wish
		want []string
	}{
		"one":                     {func(d *controller.Decisions) { d.Steal(parse, save, 1, "x") }, []string{`3s mine: stage "parse": workers 4 to 5: x`, `3s mine: stage "save": workers 4 to 3: x`}},
		"no more than the victim": {func(d *controller.Decisions) { d.Steal(parse, save, math.MaxInt, "x") }, []string{`3s mine: stage "parse": workers 4 to 7: x (wanted 9223372036854775807, the bounds allow 3)`, `3s mine: stage "save": workers 4 to 1: x (wanted 9223372036854775807, the bounds allow 3)`}},
		"none":                    {func(d *controller.Decisions) { d.Steal(parse, save, 0, "x") }, []string{}},
		"less than none":          {func(d *controller.Decisions) { d.Steal(parse, save, -1, "x") }, []string{}},
		"from itself":             {func(d *controller.Decisions) { d.Steal(parse, parse, 1, "x") }, []string{}},
		"from one with none":      {func(d *controller.Decisions) { d.Steal(parse, mail, 1, "x") }, []string{}},
		"for one limited to none": {func(d *controller.Decisions) { d.Steal(mail, parse, 1, "x") }, []string{}},
		"the later of a pair":     {func(d *controller.Decisions) { d.Steal(parse, save, 1, "x"); d.Steal(parse, save, 2, "y") }, []string{`3s mine: stage "parse": workers 4 to 6: y`, `3s mine: stage "save": workers 4 to 2: y`}},
		"there and back":          {func(d *controller.Decisions) { d.Steal(parse, save, 1, "x"); d.Steal(save, parse, 1, "y") }, []string{}},
		"there and half back":     {func(d *controller.Decisions) { d.Steal(parse, save, 2, "x"); d.Steal(save, parse, 1, "y") }, []string{`3s mine: stage "parse": workers 4 to 5: x; y`, `3s mine: stage "save": workers 4 to 3: x; y`}},
		"after a wish for workers": {func(d *controller.Decisions) {
			d.Steal(parse, save, 1, "x")
			controller.KnobWorkers.Set(d, save, 6, "y")
		}, []string{`3s mine: stage "save": workers 4 to 5: y; x`, `3s mine: stage "parse": workers 4 to 5: x`}},
		"within what a wish leaves": {func(d *controller.Decisions) {
			controller.KnobWorkers.Set(d, save, 1, "y")
			d.Steal(parse, save, 1, "x")
		}, []string{`3s mine: stage "save": workers 4 to 1: y`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var d controller.Decisions
			tt.wish(&d)
			require.Equal(t, tt.want, settled(t, &d))
		})
	}
}

// A victim of two steals loses what the two thieves get, and not more than its bounds allow.
func TestNoStealTakesWhatAnotherHasTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &controller.Snapshot{}
		for i := range rapid.IntRange(1, 5).Draw(t, "stages") {
			least := rapid.IntRange(0, 4).Draw(t, "least")
			most := least + rapid.IntRange(0, 6).Draw(t, "span")
			s.Stages = append(s.Stages, controller.StageStats{
				ID: controller.StageID(i), MinWorkers: least, MaxWorkers: most, Workers: rapid.IntRange(least, most).Draw(t, "workers"),
			})
		}
		stage := rapid.IntRange(0, len(s.Stages)-1)
		var d controller.Decisions
		for range rapid.IntRange(0, 8).Draw(t, "thefts") {
			d.Steal(controller.StageID(stage.Draw(t, "thief")), controller.StageID(stage.Draw(t, "victim")), rapid.IntRange(-1, 9).Draw(t, "n"), "because")
		}
		changes, faults := controller.Settle("any", s, &d)
		require.Empty(t, faults)
		sum := 0
		for _, c := range changes {
			sum += c.After.(int) - c.Before.(int)
			require.NotEqual(t, c.Before, c.After)
			require.GreaterOrEqual(t, c.After, s.Stages[c.Stage].MinWorkers)
			require.LessOrEqual(t, c.After, s.Stages[c.Stage].MaxWorkers)
		}
		require.Zero(t, sum)
		requireEachKnobOnce(t, changes)
	})
}

// Stages with the greatest numbers of workers steal from each other.
func TestStealsOfMaxIntDoNotOverflow(t *testing.T) {
	s := &controller.Snapshot{Stages: []controller.StageStats{
		{ID: 0, Workers: math.MaxInt, MinWorkers: math.MinInt, MaxWorkers: math.MaxInt},
		{ID: 1, Workers: math.MinInt, MinWorkers: math.MinInt, MaxWorkers: math.MaxInt},
	}}
	var d controller.Decisions
	d.Steal(1, 0, math.MaxInt, "all")
	d.Steal(0, 1, math.MaxInt, "and back")
	changes, _ := controller.Settle("any", s, &d)
	require.Empty(t, changes, "there and back")
	d.Reset()
	d.Steal(1, 0, math.MaxInt, "all")
	changes, _ = controller.Settle("any", s, &d)
	require.Len(t, changes, 2)
	require.Equal(t, -1, changes[0].After)
	require.Equal(t, 0, changes[1].After)
}

func TestAGateThatCannotBeComparedIsANewOneEachTime(t *testing.T) {
	no := shut(func() error { return errors.New("no") })
	pointer := &closed{"no"}
	tests := map[string]struct {
		is, wanted controller.Gate
		changes    int
	}{
		"a function again":          {no, no, 1},
		"one that holds a function": {holder{no}, holder{no}, 1},
		"one that holds none":       {holder{1}, holder{1}, 0},
		"a function after a value":  {closed{"no"}, no, 1},
		"a value after a function":  {no, closed{"no"}, 1},
		"a function removed":        {no, nil, 1},
		"a function set":            {nil, no, 1},
		"the same value":            {closed{"no"}, closed{"no"}, 0},
		"another value":             {closed{"no"}, closed{"never"}, 1},
		"the same pointer":          {pointer, pointer, 0},
		"another pointer":           {pointer, &closed{"no"}, 1},
		"none as before":            {nil, nil, 0},
		"a pointer and its value":   {pointer, *pointer, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := fourStages()
			s.Stages[parse].Admission.Gate, s.Entry.Gate = tt.is, tt.is
			for _, scope := range []controller.StageID{parse, controller.Entry} {
				var d controller.Decisions
				controller.KnobGate.Set(&d, scope, tt.wanted, "x")
				changes, faults := controller.Settle("mine", s, &d)
				require.Empty(t, faults)
				require.Len(t, changes, tt.changes)
			}
		})
	}
}

// holder is comparable if the value that it holds is.
type holder struct{ what any }

func (holder) Admit(any, int, int) error { return nil }

func TestDecisionsReturnTheEventSettings(t *testing.T) {
	var d controller.Decisions
	_, ok := d.WantsRoundEnd()
	require.False(t, ok, "nothing was set")
	_, ok = d.WantsVisits()
	require.False(t, ok)
	d.OnRoundEnd(true)
	d.OnRoundEnd(false)
	d.OnVisits(100)
	on, ok := d.WantsRoundEnd()
	require.True(t, ok)
	require.False(t, on)
	n, ok := d.WantsVisits()
	require.True(t, ok)
	require.Equal(t, 100, n)
	d.Reset()
	_, ok = d.WantsRoundEnd()
	require.False(t, ok)
	_, ok = d.WantsVisits()
	require.False(t, ok)
}

func TestWishReturnsTheValueThatWasSet(t *testing.T) {
	var d controller.Decisions
	_, _, ok := controller.KnobBatch.Wish(&d, parse)
	require.False(t, ok)
	controller.KnobBatch.Set(&d, parse, controller.Batch{Max: -4, Linger: -1}, "set")
	v, why, ok := controller.KnobBatch.Wish(&d, parse)
	require.True(t, ok)
	require.Equal(t, controller.Batch{Max: -4, Linger: -1}, v)
	require.Equal(t, "set", why)
	controller.KnobWorkers.SetPool(&d, "new", -4, "set")
	n, _, ok := controller.KnobWorkers.PoolWish(&d, "new")
	require.True(t, ok)
	require.Equal(t, -4, n)
	_, _, ok = controller.KnobVisit.PoolWish(&d, "new")
	require.False(t, ok)
	d.Reset()
	require.Empty(t, d.Pools())
	_, _, ok = controller.KnobWorkers.PoolWish(&d, "new")
	require.False(t, ok)
}

func TestSettlingCurrentValuesAllocatesNothing(t *testing.T) {
	s := fourStages()
	s.Entry.Gate = &closed{"no"}
	s.Entry.Rate = controller.Rate{PerSecond: 5, Burst: 5}
	var d controller.Decisions
	controller.KnobWorkers.Set(&d, parse, 4, "")
	controller.KnobWorkers.SetPool(&d, "save", 4, "")
	controller.KnobWorkers.SetPool(&d, "both", 3, "")
	controller.KnobDispatch.SetPool(&d, "both", controller.Polled, "")
	controller.KnobVisit.SetPool(&d, "both", &controller.VisitPlan{Order: []controller.StageID{mail, index}}, "")
	controller.KnobPool.Set(&d, mail, "both", "")
	controller.KnobInstances.Set(&d, parse, 4, "")
	controller.KnobBatch.Set(&d, parse, controller.Batch{Max: 8}, "")
	controller.KnobCapacity.Set(&d, parse, 64, "")
	controller.KnobEnabled.Set(&d, parse, true, "")
	controller.KnobDiscipline.Set(&d, parse, "fifo", "")
	controller.KnobQuality.Set(&d, parse, 7, "")
	controller.KnobRate.Set(&d, controller.Entry, controller.Rate{PerSecond: 5, Burst: 5}, "")
	controller.KnobShed.Set(&d, parse, controller.Shed{Below: 0, Probability: 0}, "")
	controller.KnobLimit.Set(&d, parse, 0, "")
	controller.KnobGate.Set(&d, controller.Entry, s.Entry.Gate, "")
	d.Steal(mail, save, 1, "")
	changes, faults := controller.Settle("mine", s, &d)
	require.Empty(t, changes)
	require.Empty(t, faults)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = controller.Settle("mine", s, &d) }))
}

func TestValuesPrintShortInAJournal(t *testing.T) {
	for want, v := range map[string]interface{ String() string }{
		"64":               controller.Batch{Max: 64},
		"64 or 10ms":       controller.Batch{Max: 64, Linger: 10 * time.Millisecond},
		"no limit":         controller.Rate{},
		"2.5/s, 3 at once": controller.Rate{PerSecond: 2.5, Burst: 3},
		"none":             controller.Shed{},
		"below 3 and 25%":  controller.Shed{Below: 3, Probability: 0.25},

		"none, but it looks at priorities": controller.Shed{Below: math.MinInt},
		"below 3 and 40% of 3":             controller.Shed{Below: 3, Edge: 0.4},
		"below 3, 40% of 3 and 5%":         controller.Shed{Below: 3, Edge: 0.4, Probability: 0.05},
		"shared FIFO":                      controller.SharedFIFO,
		"shared priority":                  controller.SharedPriority,
		"polled":                           controller.Polled,
		"unknown":                          controller.Dispatch(77),
	} {
		require.Equal(t, want, v.String())
	}
	c := controller.Change{
		At: time.Second, Policy: "mine", Stage: controller.Entry, StageName: "entry", What: controller.KnobRate,
		Before: controller.Rate{}, After: controller.Rate{PerSecond: 100, Burst: 1}, Why: "too much",
	}
	require.Equal(t, "1s mine: entry: rate no limit to 100/s, 1 at once: too much", c.String())
}

func TestAKnobOfAnotherOwnerIsAFaultThatNamesBoth(t *testing.T) {
	var none controller.Setting[int]
	for want, wish := range map[string]func(d *controller.Decisions){
		`dispatch of "parse": has no such knob`:       func(d *controller.Decisions) { controller.KnobDispatch.Set(d, parse, controller.Polled, "x") },
		`priority of "both": a pool has no such knob`: func(d *controller.Decisions) { controller.KnobPriority.SetPool(d, "both", 3, "x") },
		`rate of "both": a pool has no such knob`:     func(d *controller.Decisions) { controller.KnobRate.SetPool(d, "both", controller.Rate{}, "x") },
		` of "parse": has no such knob`:               func(d *controller.Decisions) { none.Set(d, parse, 3, "x") },
	} {
		var d controller.Decisions
		controller.KnobWorkers.SetPool(&d, "both", 2, "there is one")
		wish(&d)
		_, faults := controller.Settle("mine", fourStages(), &d)
		require.Len(t, faults, 1, want)
		require.ErrorContains(t, faults[0], want)
	}
}
