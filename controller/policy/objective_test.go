package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

func TestObjectiveReportsAllFaultsOfItsParameters(t *testing.T) {
	require.EqualError(t, policy.Objective{Within: -1, Percentile: 100}.Check(),
		"policy: objective: Within -1ns is negative\npolicy: objective: Percentile 100 is not from 50 on and below 100: write 99 for 99 of 100 commands")
	require.EqualError(t, policy.Objective{Within: time.Microsecond, Percentile: 0.99}.Check(),
		"policy: objective: Within 1µs is below a millisecond\npolicy: objective: Percentile 0.99 is not from 50 on and below 100: write 99 for 99 of 100 commands")
	require.NoError(t, policy.Objective{Within: time.Second, Percentile: 99.9}.Check())
}

func TestAnObjectiveThatKeepsCommandsDoesNotClaimWhatDropsThem(t *testing.T) {
	require.Contains(t, policy.Objective{}.Claims(), controller.Knob(controller.KnobSojourn))
	require.NotContains(t, policy.Objective{Keep: true}.Claims(), controller.Knob(controller.KnobSojourn))
	require.NotContains(t, policy.Objective{Keep: true}.Claims(), controller.Knob(controller.KnobDiscipline))
}

// A stage of four workers does 200 commands a second, each in 20 ms. The door is known before an overload: its rate is the capacity, and its
// burst what may wait for half of the time that the handlers leave.
func TestTheDoorOfAnObjectiveIsKnownBeforeAnOverload(t *testing.T) {
	h := newLimited(t, policy.Objective{Within: 500 * ms}, controller.StageStats{Name: "s", Workers: 4, MinWorkers: 4, MaxWorkers: 4})
	h.Pools = nil
	for range 20 { // 50 ms with 5 commands: half of the capacity
		h.At += 50 * ms
		st := &h.Stages[0]
		st.Total.OK, st.Total.Accepted, st.Total.Busy = st.Total.OK+5, st.Total.Accepted+5, st.Total.Busy+100*ms
		st.Work = durations{Count: 5, Mean: 20 * ms, P90: 20 * ms}
		h.ask(controller.EventTick)
	}
	require.InDelta(t, 200, h.Entry.Rate.PerSecond, 1)
	require.InDelta(t, 48, h.Entry.Rate.Burst, 10, "200 a second for half of 480 ms")
	require.Contains(t, h.journal[len(h.journal)-1].Why, `99% within 500ms: `)
	require.Contains(t, h.journal[len(h.journal)-1].Why, `"s" bears 200/s`)
}
