package policy_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// ERLDA sees a burst and its end: it adds one worker, waits for the cooldown, adds one more, and removes both when the
// queue is empty.
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
			parse.Workers = change.After.(int)
			fmt.Println(change)
		}
	}
	// Output:
	// 0s erlda: stage "parse": workers 1 to 2: queue 80 > 50 for 1 sample
	// 2s erlda: stage "parse": workers 2 to 3: queue 60 > 50 for 2 samples
	// 4s erlda: stage "parse": workers 3 to 2: queue 0 < 5 for 1 sample
	// 6s erlda: stage "parse": workers 2 to 1: queue 0 < 5 for 2 samples
}

// SEDA sees a burst, a trickle that keeps the workers, and then no load: after five seconds without work it removes a
// worker.
func ExampleSEDA() {
	law := policy.SEDA{}
	parse := controller.StageStats{Name: "parse", QueueCap: 1024, Workers: 1, MinWorkers: 1, MaxWorkers: 4}

	c := law.New()
	var d controller.Decisions
	for second, waiting := range []int{80, 90, 60, 20, 1, 0, 0, 0, 0, 0, 0} {
		parse.QueueLen = waiting
		parse.Busy = min(waiting, parse.Workers)
		s := &controller.Snapshot{
			At:     time.Duration(second) * time.Second,
			Stages: []controller.StageStats{parse},
		}
		if err := controller.Ask(c, controller.Event{Kind: controller.EventTick}, s, &d); err != nil {
			fmt.Println(err)
		}
		changes, _ := controller.Settle(law.Name(), s, &d)
		for _, change := range changes {
			parse.Workers = change.After.(int)
			fmt.Println(change)
		}
	}
	// Output:
	// 1s seda: stage "parse": workers 1 to 2: queue 90 >= 64 for 2 samples
	// 10s seda: stage "parse": workers 2 to 1: 2 of 2 workers idle for 5s
}

// Stealing divides six workers between two stages, one of which has no work.
func ExampleStealing() {
	law := policy.Stealing{Workers: 6}
	stages := []controller.StageStats{
		{ID: 0, Name: "parse", Workers: 1, MinWorkers: 1, MaxWorkers: 8},
		{ID: 1, Name: "save", Workers: 1, MinWorkers: 1, MaxWorkers: 8},
	}

	c := law.New()
	var d controller.Decisions
	for second := range 4 {
		event := controller.Event{Kind: controller.EventTick}
		if second == 0 {
			event.Kind = controller.EventStart
		}
		s := &controller.Snapshot{At: time.Duration(second) * time.Second, Stages: stages}
		if err := controller.Ask(c, event, s, &d); err != nil {
			fmt.Println(err)
		}
		changes, _ := controller.Settle(law.Name(), s, &d)
		for _, change := range changes {
			stages[change.Stage].Workers = change.After.(int)
			fmt.Println(change)
		}
		save := &stages[1]
		save.QueueLen, save.Busy = 100, save.Workers
		save.Total.Accepted += 50
	}
	// Output:
	// 0s stealing: stage "parse": workers 1 to 3: its share of 6 workers for 2 pools
	// 0s stealing: stage "save": workers 1 to 3: its share of 6 workers for 2 pools
	// 2s stealing: stage "save": workers 3 to 4: steals from "parse": queue 100 > 3 for 2 samples
	// 2s stealing: stage "parse": workers 3 to 2: gives to "save": 3 of 3 workers free for 2 samples
}

// A preset is a policy as a known system, here the dissertation of Cruz, had it. Not every policy has every preset.
func ExamplePreset() {
	p, err := policy.ByName("seda:cruz")
	fmt.Println(p == policy.SEDA{Preset: policy.Cruz}, err)
	fmt.Println(policy.Stealing{Preset: policy.Welsh}.Check())
	// Output:
	// true <nil>
	// policy: stealing: unknown Preset "welsh"; known is cruz
}

// Check returns all faults of the parameters at once.
func ExampleERLDA_Check() {
	fmt.Println(policy.ERLDA{Up: 5, Samples: -1}.Check())
	// Output:
	// policy: erlda: Up 5 is not more than Down 10; Down is the default
	// policy: erlda: Samples -1 is negative
}

// ByName finds a policy by its name, from a flag or a configuration file.
func ExampleByName() {
	p, err := policy.ByName("fixed")
	fmt.Println(p.Name(), err)
	_, err = policy.ByName("magic")
	var unknown *policy.UnknownError
	fmt.Println(errors.As(err, &unknown), unknown.Name)
	// Output:
	// fixed <nil>
	// true magic
}
