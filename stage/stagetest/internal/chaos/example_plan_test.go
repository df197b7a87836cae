package chaos_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/stage/stagetest/internal/chaos"
)

func keepsEveryPromise(t *rapid.T) {
	plan := chaos.Plans().Draw(t, "plan")
	plan.Control = policy.Cohort{} // or a policy of your own
	if _, err := plan.Run(); err != nil {
		t.Log(err)
		verdict, _ := errors.AsType[chaos.VerdictError](err)
		t.Fatalf("broken: %s", verdict.Promises()) // the same words each time, so that rapid makes the plan smaller
	}
}

func TestAPolicyIsTriedWithRandomPlans(t *testing.T) {
	set(t, "rapid.checks", 10)
	set(t, "rapid.seed", 1)
	set(t, "rapid.nofailfile", true)
	rapid.Check(t, keepsEveryPromise)
}

// One policy runs a hundred random pipelines. If one breaks a promise, rapid prints its seed and the smallest plan that
// breaks the same promise.
func ExamplePlans() {
	_ = func(t *testing.T) { rapid.Check(t, keepsEveryPromise) }
	// Output:
}
