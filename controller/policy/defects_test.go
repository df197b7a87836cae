package policy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// scenario is a test case that a controller must pass.
type scenario struct {
	only defects      // the defect that it tests
	law  policy.ERLDA // the parameters of the controller
	run  func(c controller.Controller) error
}

// The defects that are the controller's. Those of the shell (workers without a supervisor, busy answers and so on: E5
// to E17, E20, E21 and E23 to E26) have their tests there. E18, which worker goes and what happens to its mailbox,
// cannot be expressed here: a decision is a number, and the queue belongs to the stage.
var scenarios = map[string]scenario{
	"E1 the last action is remembered, so the cooldown is kept": {
		only: defects{e1: true},
		run: func(c controller.Controller) error {
			f := newRow(c)
			return f.expect("workers", []int{11, 11, 12, 12, 13}, f.run(during(5, 120)...))
		},
	},
	"E1 samples in a row are counted from tick to tick": {
		only: defects{e1: true},
		law:  policy.ERLDA{Samples: 3},
		run: func(c controller.Controller) error {
			f := newRow(c)
			return f.expect("workers", []int{10, 10, 11, 11, 11, 12}, f.run(during(6, 120)...))
		},
	},
	"E2 the first action does not wait for a cooldown": {
		only: defects{e2: true},
		run: func(c controller.Controller) error {
			f := newRow(c)
			return f.expect("workers after the first tick", []int{11}, f.run(120))
		},
	},
	"E2 any clock works": {
		only: defects{e2: true},
		run: func(c controller.Controller) error {
			f := newRow(c)
			f.now = -500_000_000 * time.Second
			return f.expect("workers", []int{11, 11, 12}, f.run(during(3, 120)...))
		},
	},
	"E3 a full queue gets more workers at any capacity": {
		only: defects{e3: true},
		run: func(c controller.Controller) error {
			f := newRow(c, withCapacities(1, 2, 3, 10, 50, 100, 101, 200, 1024)...)
			f.run(1024)
			return f.expect("workers of full stages", []int{11, 11, 11, 11, 11, 11, 11, 11, 11}, f.workers())
		},
	},
	"E4 a stage that starts above its minimum goes down when there is no work": {
		only: defects{e4: true},
		run: func(c controller.Controller) error {
			f := newRow(c, controller.StageStats{Workers: 10, MinWorkers: 8, MaxWorkers: 12})
			return f.expect("workers", []int{9, 9, 8, 8, 8}, f.run(during(5, 0)...))
		},
	},
	"E4 a stage that starts at its minimum goes up and down again": {
		only: defects{e4: true},
		run: func(c controller.Controller) error {
			f := newRow(c, controller.StageStats{Workers: 1, MinWorkers: 1, MaxWorkers: 3})
			up, down := f.run(during(6, 500)...), f.run(during(6, 0)...)
			return errors.Join(
				f.expect("workers under load", []int{2, 2, 3, 3, 3, 3}, up),
				f.expect("workers after it", []int{2, 2, 1, 1, 1, 1}, down))
		},
	},
	"E19 one minimum for all: a pool that was left below it is brought back": {
		only: defects{e19: true},
		run: func(c controller.Controller) error {
			f := newRow(c)
			f.stages[0].Workers = 3 // remove_worker continued down to its own minimum
			return f.expect("workers without load", []int{10, 10, 10}, f.run(during(3, 0)...))
		},
	},
	"E22 the configured parameters are used": {
		only: defects{e22: true},
		law:  policy.ERLDA{Up: 5, Down: 2, Samples: 2, Cooldown: 3 * time.Second},
		run: func(c controller.Controller) error {
			f := newRow(c)
			return f.expect("workers", []int{10, 11, 11, 11, 12, 12}, f.run(during(6, 6)...))
		},
	},
}

func withCapacities(capacities ...int) []controller.StageStats {
	stages := make([]controller.StageStats, 0, len(capacities))
	for _, n := range capacities {
		stages = append(stages, controller.StageStats{QueueCap: n})
	}
	return stages
}

func (f *row) workers() []int {
	ns := make([]int, 0, len(f.stages))
	for _, st := range f.stages {
		ns = append(ns, st.Workers)
	}
	return ns
}

func TestEachDefectOfTheOriginalIsFixedHereAndShowsThere(t *testing.T) {
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, s.run(s.law.New()), "here")
			require.Error(t, s.run(newOriginal(s.law, allDefects)), "the original")
			require.Error(t, s.run(newOriginal(s.law, s.only)), "the original with this defect alone")
			require.NoError(t, s.run(newOriginal(s.law, defects{})), "the original with all of them fixed")
		})
	}
}

// E3 as it was measured: seven seconds at three times the load, all mailboxes at their limit, and always ten workers.
func TestE3TheOriginalStaysAtTenWorkersWhereThisOneGrows(t *testing.T) {
	load := during(7, 1000)
	original := newRow(newOriginal(policy.ERLDA{}, allDefects), withCapacities(50)...)
	require.Equal(t, []int{10, 10, 10, 10, 10, 10, 10}, original.run(load...))
	here := newRow(policy.ERLDA{}.New(), withCapacities(50)...)
	require.Equal(t, []int{11, 11, 12, 12, 13, 13, 14}, here.run(load...))
}

// E22: any type with the methods is a policy.
func TestE22AnotherPolicyTakesThePlaceOfERLDA(t *testing.T) {
	f := newRow(policy.ERLDA{}.New())
	require.Equal(t, []int{11, 11}, f.run(120, 120))
	f.c = greedy{}
	require.Equal(t, []int{200}, f.run(120))
	f.c = policy.Fixed{}.New()
	require.Equal(t, []int{200, 200, 200}, f.run(0, 0, 0))
	require.NoError(t, f.err)
}

type greedy struct{}

func (greedy) Control(_ controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	for _, st := range s.Stages {
		controller.KnobWorkers.Set(d, st.ID, st.MaxWorkers, "all of them")
	}
}
