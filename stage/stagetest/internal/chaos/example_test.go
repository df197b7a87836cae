package chaos_test

import (
	"errors"
	"fmt"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/chaos"
)

// A plan is a value: it may also be written by hand.
func ExamplePlan_Run() {
	plan := chaos.Plan{
		Seed: 1, Policy: "srpt", Commands: 200, Submitters: 1,
		Graph: chaos.Graph{
			Entries: []int{0}, Hops: 1,
			Nodes: []chaos.Node{
				{Next: []int{1}, Faults: stagetest.Faults{Panic: 0.1}, Retry: stage.RetryPolicy{Attempts: 50}},
				{Capacity: 2},
			},
		},
		Disturbances: []chaos.Disturbance{{At: 20, Action: chaos.KillWorker}, {At: 50, Action: chaos.Swap, Policy: "cohort"}},
	}
	report, err := plan.Run()
	fmt.Println(report.Accepted, report.Replied, err)

	plan.Policy = "luck"
	_, err = plan.Run()
	verdict, _ := errors.AsType[chaos.VerdictError](err)
	fmt.Println(verdict.Promises())
	// Output:
	// 200 200 <nil>
	// checks
}
