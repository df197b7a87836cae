package controller_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Share gives each stage one worker for every PerWorker commands that wait.
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

// New returns the policy itself: it remembers nothing. One that does returns a
// pointer to a fresh memory.
func (p Share) New() controller.Controller { return p }

func (p Share) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind == controller.EventStart {
		d.Every(time.Second)
	}
	for _, st := range s.Stages {
		d.Workers(st.ID, st.QueueLen/p.PerWorker, fmt.Sprintf("%d waiting", st.QueueLen))
	}
}

// A policy of one's own is three methods for the parameters and one for the
// law. To try it, write down what it sees; no pipeline is needed.
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
	// 3s share: stage "save": workers 3 to 1: 10 waiting (wanted 0, held to the least, 1)
}
