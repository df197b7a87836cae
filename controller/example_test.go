package controller_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Share gives each stage one worker for every PerWorker waiting commands.
type Share struct {
	PerWorker int
}

func (Share) Name() string { return "share" }

func (p Share) Check() error {
	if p.PerWorker < 1 {
		return errors.New("share: PerWorker must be at least 1")
	}
	return nil
}

// New returns the policy itself, since it remembers nothing. A policy that does remember returns a pointer to fresh
// memory.
func (p Share) New() controller.Controller { return p }

func (p Share) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind == controller.EventStart {
		d.Every(time.Second)
	}
	for _, st := range s.Stages {
		controller.KnobWorkers.Set(d, st.ID, st.QueueLen/p.PerWorker, fmt.Sprintf("%d waiting", st.QueueLen))
	}
}

// A custom policy is three methods for the parameters and one for the law. To try it, write down what it sees; no
// pipeline is needed.
func Example() {
	policy := Share{PerWorker: 50}
	see := &controller.Snapshot{At: 3 * time.Second, Stages: []controller.StageStats{
		{ID: 0, Name: "parse", QueueLen: 200, Workers: 2, MinWorkers: 1, MaxWorkers: 8},
		{ID: 1, Name: "save", QueueLen: 10, Workers: 3, MinWorkers: 1, MaxWorkers: 8},
	}}

	var d controller.Decisions
	err := controller.Ask(policy.New(), controller.Event{Kind: controller.EventTick}, see, &d)
	changes, faults := controller.Settle(policy.Name(), see, &d)

	fmt.Println(err, faults)
	for _, change := range changes {
		fmt.Println(change)
	}
	// Output:
	// <nil> []
	// 3s share: stage "parse": workers 2 to 4: 200 waiting
	// 3s share: stage "save": workers 3 to 1: 10 waiting (wanted 0, limited to the minimum, 1)
}

// LongestFirst sends the workers of each shared pool to the stage with the longest queue first.
type LongestFirst struct{}

func (LongestFirst) Name() string                 { return "longest-first" }
func (LongestFirst) Check() error                 { return nil }
func (p LongestFirst) New() controller.Controller { return p }

// Claims leaves the number of workers to another policy.
func (LongestFirst) Claims() []controller.Knob {
	return []controller.Knob{controller.KnobDispatch, controller.KnobVisit}
}

func (LongestFirst) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind == controller.EventStart {
		d.Every(100 * time.Millisecond)
	}
	for _, pool := range s.Pools {
		if len(pool.Stages) < 2 {
			continue
		}
		order := slices.Clone(pool.Stages)
		slices.SortStableFunc(order, func(a, b controller.StageID) int {
			return cmp.Compare(s.Stages[b].QueueLen, s.Stages[a].QueueLen)
		})
		first := s.Stages[order[0]]
		why := fmt.Sprintf("%d waiting at %q", first.QueueLen, first.Name)
		controller.KnobDispatch.SetPool(d, pool.Name, controller.Polled, why)
		controller.KnobVisit.SetPool(d, pool.Name, &controller.VisitPlan{Order: order, Gating: controller.Bounded, Bound: 16, Now: true}, why)
	}
}

// A policy can decide on more than workers: here it decides on the order in which the workers of a group visit stages.
func Example_visitOrder() {
	see := &controller.Snapshot{
		At: time.Second,
		Stages: []controller.StageStats{
			{ID: 0, Name: "parse", Pool: "all", QueueLen: 3},
			{ID: 1, Name: "check", Pool: "all", QueueLen: 40},
			{ID: 2, Name: "save", Pool: "all", QueueLen: 7},
		},
		Pools: []controller.PoolStats{{Name: "all", Group: true, Stages: []controller.StageID{0, 1, 2}, Workers: 4}},
	}

	var d controller.Decisions
	err := controller.Ask(LongestFirst{}.New(), controller.Event{Kind: controller.EventTick}, see, &d)
	changes, faults := controller.Settle(LongestFirst{}.Name(), see, &d)

	fmt.Println(err, faults)
	for _, change := range changes {
		fmt.Println(change)
	}
	// Output:
	// <nil> []
	// 1s longest-first: pool "all": dispatch shared FIFO to polled: 40 waiting at "check"
	// 1s longest-first: pool "all": visit no plan to 2 3 1, bounded 16, now: 40 waiting at "check"
}
