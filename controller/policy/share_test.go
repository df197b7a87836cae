package policy

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func bounds(fewestAndMost ...[2]int) []unit {
	us := make([]unit, 0, len(fewestAndMost))
	for _, b := range fewestAndMost {
		us = append(us, unit{least: b[0], most: b[1]})
	}
	return us
}

func dealt(us []unit, budget int) []int {
	h := divide(us, budget)
	ns := make([]int, 0, len(us))
	for i := range us {
		ns = append(ns, h.next(&us[i]))
	}
	return ns
}

func TestAllUnitsGetTheSameAsFarAsTheirBoundsAllow(t *testing.T) {
	wide := [2]int{1, 10}
	tests := map[string]struct {
		pools  []unit
		budget int
		want   []int
	}{
		"no pools":                         {bounds(), 10, []int{}},
		"one takes all":                    {bounds(wide), 7, []int{7}},
		"one takes all it may":             {bounds(wide), 70, []int{10}},
		"equal shares":                     {bounds(wide, wide, wide), 6, []int{2, 2, 2}},
		"the rest goes to the first ones":  {bounds(wide, wide, wide), 8, []int{3, 3, 2}},
		"others get what one may not have": {bounds([2]int{1, 1}, wide, wide), 8, []int{1, 4, 3}},
		"others lack what one must have":   {bounds([2]int{6, 9}, wide, wide), 8, []int{6, 1, 1}},
		"too few for the minimum":          {bounds([2]int{4, 9}, [2]int{3, 9}), 2, []int{4, 3}},
		"too many for the maximum":         {bounds([2]int{1, 4}, [2]int{1, 3}), 99, []int{4, 3}},
		"none":                             {bounds(wide, wide), 0, []int{1, 1}},
		"the greatest int":                 {bounds(wide, [2]int{1, math.MaxInt}), math.MaxInt, []int{10, math.MaxInt - 10}},
		"the lower bound wins":             {bounds([2]int{5, 3}, wide), 8, []int{5, 3}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, dealt(tt.pools, tt.budget)) })
	}
}

// The model is the simple way: deal out one worker after the other, each to the first of the units with the fewest.
func TestSharesEqualDealingOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var us []unit
		for range rapid.IntRange(1, 6).Draw(t, "pools") {
			fewest := rapid.IntRange(0, 5).Draw(t, "fewest")
			us = append(us, unit{least: fewest, most: fewest + rapid.IntRange(0, 5).Draw(t, "span")})
		}
		budget := rapid.IntRange(0, 70).Draw(t, "budget")
		require.Equal(t, oneByOne(us, budget), dealt(us, budget))
	})
}

func oneByOne(us []unit, budget int) []int {
	ns := make([]int, len(us))
	for i := range us {
		ns[i] = us[i].least
		budget -= ns[i]
	}
	for ; budget > 0; budget-- {
		poorest := -1
		for i := range ns {
			if ns[i] < us[i].most && (poorest < 0 || ns[i] < ns[poorest]) {
				poorest = i
			}
		}
		if poorest < 0 {
			break
		}
		ns[poorest]++
	}
	return ns
}
