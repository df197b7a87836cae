package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// busy lets ten seconds pass in which the stages were busy for these parts of the time.
func busy(h *fake, rho ...float64) {
	for i, r := range rho {
		h.handled(i+1, 1000, 1000, time.Duration(r*float64(10*time.Millisecond)))
	}
	h.round(10*time.Second, policy.SharedPool)
}

func TestT07_TheGoldenTableOfTwentyOnePlaces(t *testing.T) {
	h := newFake(policy.MG1{Size: 21}, line(3)...)
	require.Equal(t, "1 2 3", h.order(), "nothing is known")
	busy(h, .5, .3, .2)
	require.Equal(t, "1 2 1 3 2 1 3 1 1 2 1 3 2 1 3 1 1 2 1 3 2", h.order(), "cold: 8 6 5")
	for range 12 {
		busy(h, .5, .3, .2)
	}
	require.Equal(t, "1 2 1 3 2 1 3 2 1 2 1 3 2 1 3 1 3 2 1 3 2", h.order(), "warm: 7 7 6")
	h.sound(t)
}

// The tables were computed by a separate program that does the same as Yield's populatePollingTable: places are given
// out in the order of the stage numbers, and among equals the first fills the table and the last writes over it.
func TestGoldenPlacesFollowTheNumberOfTheStage(t *testing.T) {
	for name, tt := range map[string]struct {
		rho        []float64
		cold, warm string
	}{
		"the second is the most frequent": {
			rho:  []float64{.2, .5, .3},
			cold: "1 3 2 3 2 1 3 2 2 2 1 3 2 1 3 2 2 2 1 3 2",
			warm: "1 3 1 3 2 1 3 2 2 2 1 3 2 1 3 2 3 2 1 3 2",
		},
		"the last is the most frequent": {
			rho:  []float64{.2, .3, .5},
			cold: "1 3 2 3 2 1 3 2 3 3 1 3 2 1 3 2 3 3 1 3 2",
			warm: "1 3 1 3 2 1 3 2 2 2 1 3 2 1 3 2 3 2 1 3 2",
		},
		"all are the same": {
			rho:  []float64{.3, .3, .3},
			cold: "1 2 1 3 2 1 3 2 3 2 1 3 2 1 3 1 3 2 1 3 2",
			warm: "1 2 1 3 2 1 3 2 3 2 1 3 2 1 3 1 3 2 1 3 2",
		},
		"rho beyond its limits": {
			rho:  []float64{.001, .5, 1.5},
			cold: "1 3 2 3 2 2 3 2 2 3 2 3 2 2 3 2 3 3 2 3 2",
			warm: "1 2 2 3 2 2 2 2 2 2 2 3 2 1 2 2 3 2 2 2 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			stages := line(3)
			stages[0].Rank, stages[2].Rank = 2, 0 // the number counts, not the rank
			h := newFake(policy.MG1{Size: 21}, stages...)
			busy(h, tt.rho...)
			require.Equal(t, tt.cold, h.order(), "cold")
			for range 12 {
				busy(h, tt.rho...)
			}
			require.Equal(t, tt.warm, h.order(), "warm")
			h.sound(t)
		})
	}
}

func TestAStageThatIsBusyHalfOfTheTimeIsMostFrequent(t *testing.T) {
	h := newFake(policy.MG1{}, line(3)...)
	for range 12 {
		busy(h, .98, .5, .001)
	}
	h.sound(t)
	visits := map[int]int{}
	for _, id := range h.plan().Order {
		visits[int(id)+1]++
	}
	require.Equal(t, map[int]int{1: 28, 2: 102, 3: 14}, visits)
	require.Equal(t, "64 64 64", h.bounds())
}

func TestATableHasAPlaceForEachStage(t *testing.T) {
	h := newFake(policy.MG1{Size: 1}, line(10)...)
	busy(h, .5, .5, .5, .001, .001, .001, .001, .001, .001, .001) // 13 occurrences for 10 places: the first stage loses both of its
	h.sound(t)
	require.ElementsMatch(t, []controller.StageID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2}, h.plan().Order)
}

func TestWithoutArrivalsTheTableStays(t *testing.T) {
	h := newFake(policy.MG1{}, line(2)...)
	busy(h, .5, .01)
	before := h.plan()
	h.round(time.Minute, policy.SharedPool)
	require.Same(t, before, h.plan())
	h.sound(t)
}

func TestMG1OfOneStage(t *testing.T) {
	h := newFake(policy.MG1{}, line(1)...)
	busy(h, .5)
	h.ask(0)
	h.sound(t)
	require.Equal(t, "1", h.order())
}

func TestMG1ReturnsAllFaultsAtOnce(t *testing.T) {
	require.NoError(t, policy.MG1{Workers: 3, Size: 21, Bound: policy.NoBound, Interval: 1}.Check())
	require.EqualError(t, policy.MG1{Workers: 9999, Size: -1, Bound: -5, Interval: -1}.Check(),
		"policy: mg1: Workers 9999 is more than 4096\n"+
			"policy: mg1: Size -1 is negative\n"+
			"policy: mg1: Bound -5 is negative; use NoBound for none\n"+
			"policy: mg1: Interval -1ns is negative")
}
