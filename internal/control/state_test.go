package control

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage/queue"
)

// options are the options of a stage that is not there.
type options struct {
	name         string
	fewest, most int
}

func (o *options) Name() string               { return o.name }
func (o *options) Bounds() (fewest, most int) { return o.fewest, o.most }
func (o *options) Preset() inbox.Knobs {
	return inbox.Knobs{Capacity: 64, Instances: 8, Batch: 1, Quality: 1}
}
func (o *options) Discipline() queue.Discipline { return queue.FIFO{} }

// stateOf returns a state of stages a, b, c and d; c and d are in the group g.
func stateOf() (*State, []Group) {
	var stages []Options
	for _, name := range []string{"a", "b", "c", "d"} {
		stages = append(stages, &options{name, 2, 9})
	}
	groups := []Group{{Name: "g", Fewest: 1, Most: 4, Stages: stages[2:]}}
	return NewState(stages, groups), groups
}

// turn returns a change of a knob of a stage, of a pool if the stage's number is NoStage, or of the entry.
func turn(id controller.StageID, name string, knob controller.Knob, after any) controller.Change {
	return controller.Change{Stage: id, StageName: name, What: knob, After: after}
}

const (
	noStage = controller.NoStage
	entry   = controller.Entry
)

func TestAStateStartsAsTheOptionsSetIt(t *testing.T) {
	s, _ := stateOf()
	require.Equal(t, stageState{
		options: s.stages["a"].options, group: "a", pool: "a", workers: 2, discipline: "fifo",
		knobs: inbox.Knobs{Capacity: 64, Instances: 8, Batch: 1, Quality: 1},
	}, *s.stages["a"])
	require.Equal(t, "g", s.stages["c"].pool)
	require.Equal(t, poolState{name: "g", group: true, fewest: 1, most: 4, workers: 1}, *s.pools["g"])
	require.Equal(t, usage{map[string]bool{"a": true, "b": true, "g": true}, map[string]bool{"g": true}}, s.usage())
}

func TestApplyChangesOneKnob(t *testing.T) {
	plan := &controller.VisitPlan{Order: []controller.StageID{0, 1}}
	limit := controller.Admission{Limit: 7}
	for name, row := range map[string]struct {
		change controller.Change
		want   func(s *State)
	}{
		"workers":    {turn(0, "a", controller.KnobWorkers, 5), func(s *State) { s.stages["a"].workers = 5 }},
		"dispatch":   {turn(0, "a", controller.KnobDispatch, controller.Polled), func(s *State) { s.stages["a"].dispatch = controller.Polled }},
		"plan":       {turn(0, "a", controller.KnobVisit, plan), func(s *State) { s.stages["a"].plan = plan }},
		"instances":  {turn(1, "b", controller.KnobInstances, 3), func(s *State) { s.stages["b"].knobs.Instances = 3 }},
		"priority":   {turn(1, "b", controller.KnobPriority, 3), func(s *State) { s.stages["b"].knobs.Priority = 3 }},
		"capacity":   {turn(1, "b", controller.KnobCapacity, 3), func(s *State) { s.stages["b"].knobs.Capacity = 3 }},
		"disabled":   {turn(1, "b", controller.KnobEnabled, false), func(s *State) { s.stages["b"].knobs.Disabled = true }},
		"quality":    {turn(1, "b", controller.KnobQuality, 0.5), func(s *State) { s.stages["b"].knobs.Quality = 0.5 }},
		"discipline": {turn(1, "b", controller.KnobDiscipline, "lifo"), func(s *State) { s.stages["b"].discipline = "lifo" }},
		"batch": {turn(1, "b", controller.KnobBatch, controller.Batch{Max: 4, Linger: 5}), func(s *State) {
			s.stages["b"].knobs.Batch, s.stages["b"].knobs.Linger = 4, 5
		}},
		"a limit":                    {turn(1, "b", controller.KnobLimit, 7), func(s *State) { s.stages["b"].admission = &limit }},
		"a limit of the entry":       {turn(entry, "", controller.KnobLimit, 7), func(s *State) { s.entry = limit }},
		"to a shared pool":           {turn(0, "a", controller.KnobPool, "g"), func(s *State) { s.stages["a"].pool = "g" }},
		"back to the fewest workers": {turn(2, "c", controller.KnobPool, "c"), func(s *State) { s.stages["c"].pool, s.stages["c"].workers = "c", 2 }},
		"workers of a pool":          {turn(noStage, "g", controller.KnobWorkers, 3), func(s *State) { s.pools["g"].workers = 3 }},
		"dispatch of a pool":         {turn(noStage, "g", controller.KnobDispatch, controller.Polled), func(s *State) { s.pools["g"].dispatch = controller.Polled }},
		"a new pool": {turn(noStage, "h", controller.KnobWorkers, 3), func(s *State) {
			s.addPool(&poolState{name: "h", fewest: 1, most: controller.MostWorkers, workers: 3})
		}},
		"of a stage that is not there yet": {turn(4, "e", controller.KnobWorkers, 3), func(*State) {}},
	} {
		t.Run(name, func(t *testing.T) {
			got, groups := stateOf()
			want := NewState([]Options{
				got.stages["a"].options, got.stages["b"].options, got.stages["c"].options, got.stages["d"].options,
			}, groups)
			got.apply(row.change)
			row.want(want)
			require.Equal(t, want, got)
		})
	}
}

func TestResetKeepsWhatHappenedSince(t *testing.T) {
	all := func(string) bool { return true }
	none := func(string) bool { return false }
	// turned returns a state in which much was changed.
	turned := func() (*State, []Group) {
		s, groups := stateOf()
		for _, ch := range []controller.Change{
			turn(entry, "", controller.KnobLimit, 7), turn(0, "a", controller.KnobWorkers, 5), turn(0, "a", controller.KnobCapacity, 1),
			turn(1, "b", controller.KnobPool, "h"), turn(noStage, "h", controller.KnobWorkers, 6), turn(noStage, "g", controller.KnobWorkers, 3),
			turn(2, "c", controller.KnobPriority, 9),
		} {
			s.apply(ch)
		}
		s.SetPaused("d", true)
		return s, groups
	}
	for name, row := range map[string]struct {
		entry         bool
		covers, pools func(string) bool
		runs          func(string) bool
		workers       int // of a
		capacity      int // of a
		limit         int // of the entry
		pool          string
		order         []string // of pools
		h             int      // workers
		priority      int      // of c
	}{
		"all":                          {true, all, all, all, 5, 64, 0, "b", []string{"g", "h"}, 1, 0},
		"all, with a pool not running": {true, all, all, none, 5, 64, 0, "b", []string{"g"}, 0, 0},
		"nothing":                      {false, none, none, all, 5, 1, 7, "h", []string{"g", "h"}, 6, 9},
		"a stage":                      {false, func(n string) bool { return n == "a" }, none, all, 5, 64, 7, "h", []string{"g", "h"}, 6, 9},
		"a pool, and so its stages":    {false, none, func(n string) bool { return n == "h" }, all, 5, 1, 7, "b", []string{"g", "h"}, 1, 9},
		"the stages and pool of group g": {
			false, func(n string) bool { return n == "c" || n == "d" }, func(n string) bool { return n == "g" }, all, 5, 1, 7, "h", []string{"g", "h"}, 6, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, groups := turned()
			s = s.reset(groups, row.entry, row.covers, row.pools, row.runs)
			require.Equal(t, row.workers, s.stages["a"].workers, "taken over")
			require.Equal(t, row.capacity, s.stages["a"].knobs.Capacity)
			require.Equal(t, row.limit, s.entry.Limit)
			require.Equal(t, row.pool, s.stages["b"].pool)
			require.Equal(t, row.order, s.order)
			require.Equal(t, 3, s.pools["g"].workers, "taken over")
			if slices.Contains(row.order, "h") {
				require.Equal(t, row.h, s.pools["h"].workers)
			}
			require.Equal(t, row.priority, s.stages["c"].knobs.Priority)
			require.True(t, s.stages["d"].knobs.Paused, "the user paused it")
		})
	}
}

func TestPoolsWithoutStagesAreDroppedUnlessTheyAreGroups(t *testing.T) {
	s, _ := stateOf()
	s.apply(turn(noStage, "h", controller.KnobWorkers, 3))
	s.apply(turn(noStage, "i", controller.KnobWorkers, 3))
	s.apply(turn(0, "a", controller.KnobPool, "i"))
	s.apply(turn(2, "c", controller.KnobPool, "c"))
	s.apply(turn(3, "d", controller.KnobPool, "d"))
	require.Equal(t, []string{"h"}, s.dropUnused(s.usage()))
	require.Equal(t, []string{"g", "i"}, s.order)
	require.Nil(t, s.pools["h"])
}

func TestAPoolReportsAfterAsManyVisitsAsItsControllerWants(t *testing.T) {
	s, _ := stateOf()
	s.apply(turn(noStage, "h", controller.KnobWorkers, 3))
	s.visits[""] = 5
	require.Equal(t, []int{5, 5}, []int{s.reports("g"), s.reports("h")})
	s.visits["g"] = 0
	require.Equal(t, []int{0, 5}, []int{s.reports("g"), s.reports("h")})
}
