package yield

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rests has a habit decide about yields, of which found says whether each would find something, and returns those that it made.
func rests(h *Habit, n int, found func(i int) bool) (made int) {
	for i := range n {
		if h.Pays() {
			made++
			h.Found(found(i))
		}
	}
	return made
}

func TestAHabitYieldsAsLongAsYieldsFindSomething(t *testing.T) {
	tests := map[string]struct {
		found func(i int) bool
		least int // of 1,600 yields
		most  int
	}{
		"always, if all find something":               {func(int) bool { return true }, 1600, 1600},
		"always, if every second finds something":     {func(i int) bool { return i%2 == 0 }, 1600, 1600},
		"always, if every third finds something":      {func(i int) bool { return i%3 == 0 }, 1600, 1600},
		"one in sixteen, if none finds something":     {func(int) bool { return false }, 100, 100 + vainMost},
		"seldom, if one in a hundred finds something": {func(i int) bool { return i%100 == 0 }, 100, 160},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			made := rests(new(Habit), 1600, tt.found)
			require.GreaterOrEqual(t, made, tt.least)
			require.LessOrEqual(t, made, tt.most)
		})
	}
}

func TestAHabitThatEndedComesBackWhenYieldsFindSomethingAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Habit
		for range rapid.IntRange(0, 1000).Draw(t, "rests before") {
			rests(&h, 1, func(int) bool { return rapid.Bool().Draw(t, "found") })
		}
		rests(&h, tryAgain+1, func(int) bool { return true })
		require.Equal(t, 100, rests(&h, 100, func(int) bool { return true }))
	})
}
