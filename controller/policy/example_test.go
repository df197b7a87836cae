package policy_test

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// A burst and its end, as ERLDA sees it: one worker more, a rest, one more, and
// back when the queue is empty.
func ExampleERLDA() {
	law := policy.ERLDA{Up: 50, Down: 5}
	parse := controller.StageStats{Name: "parse", QueueCap: 1024, Workers: 1, MinWorkers: 1, MaxWorkers: 4}

	c := law.New()
	var d controller.Decisions
	for second, waiting := range []int{80, 90, 60, 20, 0, 0, 0} {
		parse.QueueLen = waiting
		s := &controller.Snapshot{
			At:     time.Duration(second) * time.Second,
			Stages: []controller.StageStats{parse},
		}
		if err := controller.Ask(c, controller.Event{Kind: controller.EventTick}, s, &d); err != nil {
			fmt.Println(err)
		}
		changes, _ := controller.Settle(law.Name(), s, &d)
		for _, change := range changes {
			parse.Workers = change.After
			fmt.Println(change)
		}
	}
	// Output:
	// 0s erlda: stage "parse": workers 1 to 2: queue 80 > 50 for 1 sample
	// 2s erlda: stage "parse": workers 2 to 3: queue 60 > 50 for 2 samples
	// 4s erlda: stage "parse": workers 3 to 2: queue 0 < 5 for 1 sample
	// 6s erlda: stage "parse": workers 2 to 1: queue 0 < 5 for 2 samples
}

// All faults of the parameters are told at once.
func ExampleERLDA_Check() {
	fmt.Println(policy.ERLDA{Up: 5, Samples: -1}.Check())
	// Output:
	// policy: erlda: Up 5 is not more than Down 10; Down is the default
	// policy: erlda: Samples -1 is negative
}

// A policy by its name, from a flag or a configuration file.
func ExampleByName() {
	p, err := policy.ByName("fixed")
	fmt.Println(p.Name(), err)
	_, err = policy.ByName("magic")
	fmt.Println(err)
	// Output:
	// fixed <nil>
	// policy: unknown policy "magic"; known are erlda, fixed
}
