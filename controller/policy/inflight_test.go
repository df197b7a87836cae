package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// work lets a second pass in 100-ms ticks, in which a stage does some commands of some time each.
func (h *limited) work(i int, done uint64, each time.Duration) {
	for range 10 {
		h.At += 100 * ms
		st := &h.Stages[i]
		st.Total.OK, st.Total.Accepted = st.Total.OK+done/10, st.Total.Accepted+done/10
		st.Total.Busy += time.Duration(done/10) * each
		st.Work = durations{Count: done / 10, Mean: each, P90: each}
		h.ask(controller.EventTick)
	}
}

func fixedStage(name string, workers, most int) controller.StageStats {
	return controller.StageStats{Name: name, Workers: workers, MinWorkers: workers, MaxWorkers: most}
}

// Four workers do 200 commands a second, each in 20 ms: 100 of them are answered within half a second.
func TestInFlightIsTheCapacityTimesTheTime(t *testing.T) {
	tests := map[string]struct {
		law   policy.InFlight
		stage controller.StageStats
		done  uint64
		each  time.Duration
		want  int
	}{
		"half a second is the default":                      {policy.InFlight{}, fixedStage("s", 4, 4), 100, 20 * ms, 100},
		"the capacity is known at any load":                 {policy.InFlight{}, fixedStage("s", 4, 4), 190, 20 * ms, 100},
		"a time of one's own":                               {policy.InFlight{Within: 200 * ms}, fixedStage("s", 4, 4), 100, 20 * ms, 40},
		"a pool that may have twice the workers":            {policy.InFlight{}, fixedStage("s", 4, 64), 100, 20 * ms, 200},
		"and one that may have one more":                    {policy.InFlight{}, fixedStage("s", 4, 5), 100, 20 * ms, 125},
		"handlers that take longer than the time":           {policy.InFlight{Within: 100 * ms}, fixedStage("s", 4, 4), 10, 200 * ms, 5},
		"nothing is known while hardly anything is handled": {policy.InFlight{}, fixedStage("s", 4, 4), 0, 20 * ms, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newLimited(t, test.law, test.stage)
			h.work(0, test.done, test.each)
			require.Equal(t, test.want, h.Entry.Limit)
		})
	}
}

func TestALimitInFlightSaysWhyAndStaysWhileItIsAboutRight(t *testing.T) {
	h := newLimited(t, policy.InFlight{}, fixedStage("s", 4, 4))
	h.work(0, 100, 20*ms)
	require.Equal(t, "200/s can be done, so 100 within 500ms", h.journal[len(h.journal)-1].Why)
	changes := len(h.journal)
	h.work(0, 100, 21*ms)
	require.Len(t, h.journal, changes)
	for range 6 {
		h.work(0, 100, 40*ms)
	}
	require.InDelta(t, 50, h.Entry.Limit, 6, "handlers take twice as long")
}

// The narrowest stage is the capacity of the pipeline. In a group each stage has its own.
func TestInFlightOfAGroupLimitsEachStage(t *testing.T) {
	for group, want := range map[string][3]int{"": {50, 0, 0}, "both": {0, 50, 200}} {
		h := newLimited(t, policy.InFlight{}, fixedStage("a", 2, 2), fixedStage("b", 8, 8))
		h.Group = group
		for range 20 {
			h.At += 100 * ms
			for i := range h.Stages {
				st := &h.Stages[i]
				st.Total.OK, st.Total.Accepted, st.Total.Busy = st.Total.OK+10, st.Total.Accepted+10, st.Total.Busy+200*ms
				st.Work = durations{Count: 10, Mean: 20 * ms, P90: 20 * ms}
			}
			h.Stages[1].Inflows = []uint64{h.Stages[1].Total.Accepted}
			h.ask(controller.EventTick)
		}
		require.Equal(t, want, [3]int{h.Entry.Limit, h.Stages[0].Admission.Limit, h.Stages[1].Admission.Limit}, group)
	}
}

func TestInFlightIsNeverBelowOneWhateverItSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := policy.InFlight{
			Within:   time.Duration(rapid.IntRange(0, 2000).Draw(t, "within")) * ms,
			Interval: time.Duration(rapid.IntRange(0, 2000).Draw(t, "interval")) * ms,
		}
		require.NoError(t, law.Check())
		h := newLimited(t, law, controller.StageStats{Name: "s"})
		if rapid.Bool().Draw(t, "group") {
			h.Group = "s"
		}
		known := false
		for range rapid.IntRange(1, 50).Draw(t, "ticks") {
			h.At += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * ms
			h.InFlight = rapid.Int().Draw(t, "in flight")
			st := &h.Stages[0]
			st.Workers, st.MaxWorkers = rapid.IntRange(-1, 100).Draw(t, "workers"), rapid.Int().Draw(t, "most")
			st.Wait, st.Work = anyDurations(t), anyDurations(t)
			st.Total.OK += rapid.Uint64Range(0, 1<<40).Draw(t, "ok")
			st.Total.Accepted += rapid.Uint64Range(0, 1<<40).Draw(t, "accepted")
			st.Total.Busy += time.Duration(rapid.Int64Range(0, math.MaxInt64/100).Draw(t, "busy"))
			h.ask(controller.EventTick)
			limit := max(h.Entry.Limit, st.Admission.Limit)
			require.True(t, limit > 0 || !known, "a limit that is known is not lifted")
			require.GreaterOrEqual(t, min(h.Entry.Limit, st.Admission.Limit), 0)
			known = known || limit > 0
		}
	})
}

func TestAnInFlightWithoutSenseIsAFault(t *testing.T) {
	require.EqualError(t, policy.InFlight{Within: -1, Interval: -2}.Check(),
		"policy: inflight: Within -1ns is negative\npolicy: inflight: Interval -2ns is negative")
	require.Equal(t, []controller.Knob{controller.KnobLimit}, policy.InFlight{}.Claims())
}
