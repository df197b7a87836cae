package policy_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// second lets a second pass, in which the pipeline has admitted and done commands, 90 of 100 of them within a time in the first stage, and
// has refused a tenth as many if there is a rate. It returns the rate.
func (h *limited) second(admitted, done uint64, p90 time.Duration) float64 {
	h.At += time.Second
	st := &h.Stages[0]
	st.Total.OK += done
	st.Total.Accepted += admitted
	if h.Entry.Rate.PerSecond > 0 && !h.suffices {
		st.Total.Rejected += admitted / 10
	}
	h.InFlight += int(admitted) - int(done)
	st.Work = durations{Count: done, P90: p90}
	h.ask(controller.EventTick)
	return h.Entry.Rate.PerSecond
}

// The vector of the two implementations, from its second row on. Its first three seconds are of an average that begins with 0.
func TestRT90FollowsTheVectorOfItsAuthors(t *testing.T) {
	h := newLimited(t, policy.RT90{}, controller.StageStats{Name: "s"})
	require.InDelta(t, 83.3333, h.second(100, 100, 1020*ms), 1e-4)
	require.Contains(t, h.journal[0].Why, "90 of 100 within 1.02s, target 1s: 100/s admitted, 100/s done")
	for _, want := range []struct {
		p90  time.Duration
		time string
		rate float64
	}{
		{2000 * ms, "1.31s", 69.4444},
		{100 * ms, "", 69.4444},
		{100 * ms, "", 69.4444},
		{100 * ms, "", 69.4444},
		{100 * ms, "391ms", 70.4615},
		{100 * ms, "304ms", 71.6534},
	} {
		changes := len(h.journal)
		rate := uint64(math.Ceil(h.Entry.Rate.PerSecond))
		require.InDelta(t, want.rate, h.second(rate, rate, want.p90), 1e-4)
		if want.time != "" {
			require.Contains(t, h.journal[changes].Why, "90 of 100 within "+want.time)
		} else {
			require.Len(t, h.journal, changes)
		}
	}
	require.Equal(t, 10, h.Entry.Rate.Burst)
}

func TestRT90IsNotCutWhileTheLastCutHasItsEffect(t *testing.T) {
	h := newLimited(t, policy.RT90{Target: 100 * ms}, controller.StageStats{Name: "s"})
	require.Zero(t, h.second(5000, 1200, 90*ms), "the target is kept")
	require.InDelta(t, 1000, h.second(5000, 1200, time.Second), 1e-9, "what it can do, cut: not what it has admitted")
	require.InDelta(t, 1000, h.second(1000, 1200, 900*ms), 1e-9, "it falls")
	require.InDelta(t, 1000, h.second(1000, 1200, 99*ms), 1e-9, "it is within the target, and the average is not yet")
	require.InDelta(t, 1000/1.2, h.second(1000, 1200, 200*ms), 1e-9)
}

// A rate that is far above what comes is none.
func TestRT90LiftsALimitThatBoundsNothing(t *testing.T) {
	h := newLimited(t, policy.RT90{Target: 100 * ms}, controller.StageStats{Name: "s"})
	h.second(5000, 1200, time.Second)
	h.suffices = true
	for i := 0; h.second(600, 600, 10*ms) > 0; i++ {
		require.Less(t, i, 60)
	}
	require.Equal(t, controller.Rate{}, h.Entry.Rate)
}

func TestRT90AsksForLessQualityBeforeItRefusesCommands(t *testing.T) {
	h := newLimited(t, policy.RT90{Target: 100 * ms, Quality: 0.8}, controller.StageStats{Name: "s", Quality: 1}, controller.StageStats{Name: "t", Quality: 1})
	require.Zero(t, h.second(1200, 1200, time.Second))
	require.InDelta(t, 1/1.2, h.Stages[0].Quality, 1e-9)
	require.InDelta(t, 1/1.2, h.Stages[1].Quality, 1e-9)
	require.Zero(t, h.second(1200, 1200, time.Second))
	require.InDelta(t, 0.8, h.Stages[0].Quality, 1e-9)
	require.InDelta(t, 1000, h.second(1200, 1200, time.Second), 1e-9, "there is no less quality")
	for range 9 {
		h.second(1000, 1000, 10*ms)
	}
	require.InDelta(t, 0.8, h.Stages[0].Quality, 1e-9, "commands are refused still")
	require.Greater(t, h.Entry.Rate.PerSecond, 1000.0)
	h.suffices = true
	for range 30 {
		h.second(500, 500, 10*ms)
	}
	require.InDelta(t, 1, h.Stages[0].Quality, 1e-9)
}

func TestRT90OfAGroupJudgesEachStageByItself(t *testing.T) {
	h := newLimited(t, policy.RT90{Target: 100 * ms}, controller.StageStats{Name: "a"}, controller.StageStats{Name: "b"})
	h.Group = "both"
	require.Zero(t, h.second(1200, 1200, time.Second))
	require.InDelta(t, 1000, h.Stages[0].Admission.Rate.PerSecond, 1e-9)
	require.Zero(t, h.Stages[1].Admission.Rate)
}

// While nothing is handled, the oldest command says how long they take.
func TestRT90SeesAStageThatStandsStill(t *testing.T) {
	h := newLimited(t, policy.RT90{}, controller.StageStats{Name: "s"})
	h.Stages[0].QueueLen, h.Stages[0].OldestWait = 9, 3*time.Second
	require.InDelta(t, 0.05, h.second(100, 0, 0), 1e-9)
}

// ranked is a command of a class.
type ranked int

func (r ranked) Priority() int { return int(r) }

func TestRT90GivesTheRateToTheHighestClassFirst(t *testing.T) {
	h := newLimited(t, policy.RT90{Target: 100 * ms, Classes: 3}, controller.StageStats{Name: "s"})
	h.second(0, 0, 0)
	gate := h.Entry.Gate
	come := func(n int) (admitted [3]int) {
		for range n {
			for class, priority := range []int{-5, 1, 99} { // priorities beyond the classes are of the lowest and of the highest one
				if err := gate.Admit(ranked(priority), 0, 0); err == nil {
					admitted[class]++
				} else {
					require.EqualError(t, err, "the rate is for commands of a higher priority")
				}
			}
		}
		return admitted
	}
	require.Equal(t, [3]int{500, 500, 500}, come(500), "there is no limit")
	require.InDelta(t, 1000, h.second(1500, 1200, time.Second), 1e-9)
	got := come(500)
	require.Zero(t, got[0])
	require.InDelta(t, 450, got[1], 1, "of 950 that are shared")
	require.Equal(t, 500, got[2])
	h.second(950, 950, 900*ms)
	got = come(2000)
	require.Zero(t, got[0])
	require.InDelta(t, 1800, got[1], 1)
	require.Equal(t, 2000, got[2], "more of them than a second before")
	h.second(1000, 950, 800*ms)
	got = come(2000)
	require.Zero(t, got[0]+got[1])
	require.InDelta(t, 950, got[2], 1)
	require.Same(t, gate, h.Entry.Gate, "one gate for all the time")
	require.NoError(t, gate.Admit(ranked(2), 0, 0), "or the next one")
}

func TestRT90StaysWithinItsBoundsWhateverItSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := policy.RT90{
			Target: time.Duration(rapid.IntRange(0, 2000).Draw(t, "target")) * ms, Quality: rapid.Float64Range(0, 1).Draw(t, "least"),
			Classes: rapid.IntRange(0, 4).Draw(t, "classes"),
		}
		require.NoError(t, law.Check())
		h := newLimited(t, law, controller.StageStats{Name: "s", Quality: 1})
		if rapid.Bool().Draw(t, "group") {
			h.Group = "s"
		}
		for range rapid.IntRange(1, 50).Draw(t, "ticks") {
			h.At += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * ms
			h.InFlight = rapid.Int().Draw(t, "in flight")
			st := &h.Stages[0]
			st.Wait, st.Work = anyDurations(t), anyDurations(t)
			st.QueueLen, st.OldestWait = rapid.Int().Draw(t, "queue"), time.Duration(rapid.Int64().Draw(t, "oldest"))
			st.Total.OK += rapid.Uint64Range(0, 1<<40).Draw(t, "ok")
			st.Total.Accepted += rapid.Uint64Range(0, 1<<40).Draw(t, "accepted")
			h.ask(controller.EventTick)
			rate := max(h.Entry.Rate.PerSecond, st.Admission.Rate.PerSecond)
			require.True(t, rate == 0 || rate >= 0.05 && rate < 1e15, rate)
			require.GreaterOrEqual(t, st.Quality, min(law.Quality, 1))
			require.LessOrEqual(t, st.Quality, 1.0)
			for _, g := range []controller.Gate{h.Entry.Gate, st.Admission.Gate} {
				if g != nil {
					_ = errors.Join(g.Admit(ranked(rapid.Int().Draw(t, "priority")), 0, 0), g.Admit("none", 0, 0))
				}
			}
		}
	})
}

func TestAnRT90WithoutSenseIsAFault(t *testing.T) {
	for want, law := range map[string]policy.RT90{
		"Target -1ns is negative":       {Target: -1},
		"Interval -1ns is negative":     {Interval: -1},
		"Quality NaN is not from 0":     {Quality: math.NaN()},
		"Quality 1.5 is not from 0":     {Quality: 1.5},
		"Classes -1 is not from 0":      {Classes: -1},
		"Classes 1001 is not from 0 to": {Classes: 1001},
	} {
		require.ErrorContains(t, law.Check(), want)
	}
	require.Equal(t, []controller.Knob{controller.KnobRate}, policy.RT90{Classes: 1, Quality: 1}.Claims())
	require.Equal(t, []controller.Knob{controller.KnobRate, controller.KnobQuality, controller.KnobGate}, policy.RT90{Classes: 2, Quality: 0.5}.Claims())
}
