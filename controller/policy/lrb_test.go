package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// afterLoads returns a pipeline in which so many commands arrived at each stage before a round ended.
func afterLoads(law policy.LRB, loads ...int) *fake {
	h := newFake(law, line(len(loads))...)
	for i, n := range loads {
		h.handled(i+1, n, 0, 0)
	}
	h.round(time.Second, policy.SharedPool)
	return h
}

func TestT03_TheExampleOfTheDissertation(t *testing.T) {
	h := afterLoads(policy.LRB{Preset: policy.Cruz, Size: 9}, 50, 30, 20)
	h.sound(t)
	require.Equal(t, "1 2 1 2 1 2 1 3 1 3", h.order())
	require.Equal(t, "0 0 0", h.bounds(), "visits last until the queue is empty")
	require.Equal(t, 2, h.Pool(policy.SharedPool).Workers)
}

func TestT04_VisitsAreSpreadSmoothly(t *testing.T) {
	tests := map[string]struct {
		size  int
		loads []int
		want  string
	}{
		"50 30 20":         {9, []int{50, 30, 20}, "1 2 3 1 1 2 1 3 2 1"},
		"equal":            {9, []int{1, 1, 1}, "1 2 3 1 2 3 1 2 3"},
		"one without load": {12, []int{100, 100, 100, 0}, "1 2 3 4 1 2 3 1 2 3 1 2 3"},
		"90 5 5":           {9, []int{90, 5, 5}, "1 1 1 2 1 1 1 3 1 1 1"},
		"nothing":          {9, []int{0, 0, 0}, "1 2 3"},
		"one stage":        {3, []int{7}, "1"},
		"three per stage":  {0, []int{50, 30, 20}, "1 2 3 1 1 2 1 3 2 1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := afterLoads(policy.LRB{Demand: policy.ByArrivals, Size: tt.size}, tt.loads...)
			h.sound(t)
			require.Equal(t, tt.want, h.order())
		})
	}
}

// In each of these rows except the first, the original lost stages or never ended.
func TestT05_NoStageIsLostUnderAnyLoads(t *testing.T) {
	tests := map[string]struct {
		size  int
		loads []int
		want  string
	}{
		"equal":                      {9, []int{1, 1, 1}, "1 2 1 2 1 2 3 3 3"},
		"one without load":           {9, []int{50, 50, 0}, "1 2 1 2 1 2 1 2 1 2 3"},
		"the last without load":      {12, []int{40, 30, 30, 0}, "1 2 1 2 1 2 1 2 1 3 3 3 3 4"},
		"three equal and one not":    {12, []int{100, 100, 100, 0}, "1 2 1 2 1 2 1 2 3 3 3 3 4"},
		"the first without load":     {9, []int{0, 5, 5}, "2 3 2 3 2 3 2 3 2 3 1"},
		"all at the last":            {12, []int{0, 0, 0, 100}, "4 1 4 2 4 3 4 4 4 4 4 4 4 4 4"},
		"nothing":                    {9, []int{0, 0, 0}, "1 2 3"},
		"one stage":                  {3, []int{5}, "1"},
		"one stage with nothing":     {3, []int{0}, "1"},
		"two stages":                 {6, []int{5, 5}, "1 2 1 2 1 2"},
		"a ceiling in whole numbers": {15, []int{3, 3, 1, 1, 1}, "1 2 1 2 1 2 1 2 1 2 3 3 4 4 5 5"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := afterLoads(policy.LRB{Preset: policy.Cruz, Size: tt.size}, tt.loads...)
			h.sound(t)
			require.Equal(t, tt.want, h.order())
		})
	}
	newFake(policy.LRB{Preset: policy.Cruz}).sound(t) // no stages
}

// Two workers, four stages, a hundred commands: at the third table the original had only the third stage, took the
// loads (0, 0, 0, 100) for equal, and left them at the fourth stage for ever.
func TestT06_TheRecipeForAStallDoesNotStall(t *testing.T) {
	for _, law := range []policy.LRB{{}, {Preset: policy.Cruz}} {
		t.Run(law.Name(), func(t *testing.T) {
			h := newFake(law, line(4)...)
			for _, loads := range [][]int{{100, 100, 60, 0}, {0, 0, 40, 0}, {0, 0, 0, 100}} {
				for i, n := range loads {
					h.handled(i+1, n, n, time.Millisecond)
				}
				h.round(20*time.Millisecond, policy.SharedPool)
				for id := range controller.StageID(4) {
					require.Contains(t, h.plan().Order, id)
				}
			}
			h.sound(t)
			require.Equal(t, controller.StageID(3), h.plan().Order[0], "all demand is there")

			before := h.plan()
			h.round(20*time.Millisecond, policy.SharedPool)
			require.Same(t, before, h.plan(), "nothing arrived, nothing changes")
		})
	}
}

// One stage is ten times slower, with the same arrivals.
func TestDemandIsWorkUnlessItIsSetToArrivals(t *testing.T) {
	tests := map[policy.Key]string{
		policy.ByArrivals: "1 2 1 2 1 2",
		policy.ByWork:     "2 2 2 1 2 2 2",
	}
	for demand, want := range tests {
		h := newFake(policy.LRB{Demand: demand}, line(2)...)
		h.handled(1, 10, 10, time.Millisecond)
		h.handled(2, 10, 10, 10*time.Millisecond)
		h.round(time.Second, policy.SharedPool)
		h.sound(t)
		require.Equal(t, want, h.order(), demand)
	}
}

// 100 commands arrived at each stage; they take 2 ms where this is known.
func TestAStageThatNeverHandledACommandCountsAsTheMeanOfAll(t *testing.T) {
	h := newFake(policy.LRB{}, line(2)...)
	h.handled(1, 100, 50, 2*time.Millisecond)
	h.handled(2, 100, 0, 0)
	h.round(time.Second, policy.SharedPool)
	h.sound(t)
	require.Equal(t, "1 2 1 2 1 2", h.order())
}

func TestANewTableWaitsForTheEndOfARoundAndForItsInterval(t *testing.T) {
	h := newFake(policy.LRB{Demand: policy.ByArrivals, Interval: 10 * time.Millisecond}, line(2)...)
	first := h.plan()
	h.handled(1, 100, 0, 0)
	h.tick(20 * time.Millisecond)
	require.Same(t, first, h.plan(), "no round has ended")
	h.round(0, policy.SharedPool)
	second := h.plan()
	require.NotSame(t, first, second)

	h.handled(2, 100, 0, 0)
	h.round(5*time.Millisecond, policy.SharedPool)
	require.Same(t, second, h.plan(), "the plan is not Interval old yet")
	h.tick(5 * time.Millisecond)
	third := h.plan()
	require.NotSame(t, second, third, "the end of the round is remembered")

	h.handled(1, 100, 0, 0)
	h.tick(99 * time.Millisecond)
	require.Same(t, third, h.plan())
	h.tick(time.Millisecond)
	require.NotSame(t, third, h.plan(), "ten intervals are enough, whether a round ends or not")
	h.sound(t)
}

// After a round end that gave the same plan there is no further round end for that plan.
func TestARoundEndThatChangedNothingIsRepeatedAtTheNextTick(t *testing.T) {
	h := afterLoads(policy.LRB{Demand: policy.ByArrivals}, 10, 10)
	same := h.plan()
	h.handled(1, 10, 0, 0)
	h.handled(2, 10, 0, 0)
	h.round(10*time.Millisecond, policy.SharedPool)
	require.Same(t, same, h.plan())
	h.handled(2, 10, 0, 0)
	h.tick(10 * time.Millisecond)
	h.sound(t)
	require.NotSame(t, same, h.plan())
}

func TestLRBAsksForTicksAndForTheEndsOfRounds(t *testing.T) {
	h := newFake(policy.LRB{}, line(2)...)
	on, ok := h.d.WantsRoundEnd()
	require.True(t, on && ok)
	require.Equal(t, 10*time.Millisecond, h.d.Interval())
	require.Equal(t, "8 8", h.bounds())
}

func TestAVeryLargeDemandDoesNotOverflow(t *testing.T) {
	h := newFake(policy.LRB{}, line(3)...)
	h.Stages[0].Total = controller.Counters{Accepted: 1 << 63, OK: 1, Busy: time.Hour}
	h.Stages[1].Total = controller.Counters{Accepted: 1 << 63, OK: 1, Busy: time.Hour}
	h.round(time.Second, policy.SharedPool)
	h.sound(t)
	require.Equal(t, "1 2 1 2 3 1 2 1 2 1 2", h.order())
}

func TestLRBReturnsAllFaultsAtOnce(t *testing.T) {
	require.NoError(t, policy.LRB{Preset: policy.Cruz, Bound: policy.NoBound, Size: 4096}.Check())
	require.EqualError(t, policy.LRB{
		Preset: "gordon", Workers: -1, Demand: policy.ByRank, Spacing: "golden", Size: 5000, Bound: -2, Interval: -1,
	}.Check(),
		"policy: lrb: unknown Preset \"gordon\"; known are cruz, measured\n"+
			"policy: lrb: Workers -1 is negative\n"+
			"policy: lrb: unknown Demand \"rank\"; known are work, arrivals\n"+
			"policy: lrb: unknown Spacing \"golden\"; known are smooth, interleaved\n"+
			"policy: lrb: Size 5000 is more than 4096\n"+
			"policy: lrb: Bound -2 is negative; use NoBound for none\n"+
			"policy: lrb: Interval -1ns is negative")
	require.EqualError(t, policy.LRB{Size: -1}.Check(), "policy: lrb: Size -1 is negative")
}
