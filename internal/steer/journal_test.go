package steer_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/steer"
)

func numbered(from, to int) []controller.Change {
	var changes []controller.Change
	for n := from; n < to; n++ {
		changes = append(changes, controller.Change{After: n})
	}
	return changes
}

func TestAJournalRemembersTheLastChangesInOrder(t *testing.T) {
	tests := map[string]struct {
		capacity, added, first int
	}{
		"empty":                      {3, 0, 0},
		"not full":                   {3, 2, 0},
		"just full":                  {3, 3, 0},
		"one too many":               {3, 4, 1},
		"many too many":              {3, 100, 97},
		"capacity of one":            {1, 5, 4},
		"zero means the default":     {0, 257, 1},
		"negative means the default": {-5, 300, 44},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			j := steer.NewJournal(tt.capacity)
			j.Add(numbered(0, tt.added)...)
			require.ElementsMatch(t, numbered(tt.first, tt.added), unnumbered(j))
			require.IsIncreasing(t, append([]int{-1}, afters(j)...))
		})
	}
}

func TestTheZeroJournalIsReady(t *testing.T) {
	var j steer.Journal
	require.Empty(t, j.Entries())
	j.Add(numbered(0, 256+1)...)
	require.Len(t, j.Entries(), 256)
}

func TestEntriesAreACopy(t *testing.T) {
	j := steer.NewJournal(2)
	j.Add(numbered(0, 2)...)
	j.Entries()[0].After = 99
	require.Equal(t, numbered(0, 2), unnumbered(j))
}

func TestAJournalHoldsTheLastOfTheAddedChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 9).Draw(t, "capacity")
		j, n := steer.NewJournal(capacity), 0
		for _, more := range rapid.SliceOf(rapid.IntRange(0, 12)).Draw(t, "batches") {
			j.Add(numbered(n, n+more)...)
			n += more
			kept := min(n, capacity)
			require.Len(t, j.Entries(), kept)
			for i, c := range j.Entries() {
				require.Equal(t, n-kept+i, c.After)
			}
		}
	})
}

func afters(j *steer.Journal) []int {
	entries := j.Entries()
	ns := make([]int, 0, len(entries))
	for _, c := range entries {
		ns = append(ns, c.After.(int))
	}
	return ns
}

// unnumbered returns the entries without their numbers.
func unnumbered(j *steer.Journal) []controller.Change {
	entries := j.Entries()
	for i := range entries {
		entries[i].Number = 0
	}
	return entries
}

// A reader that has seen all entries up to a number asks for those with larger ones.
func TestLaterEntriesHaveLargerNumbers(t *testing.T) {
	j := steer.NewJournal(3)
	numbers := func() (all []uint64) {
		for _, c := range j.Entries() {
			all = append(all, c.Number)
		}
		return all
	}
	j.Add(numbered(0, 4)...)
	require.Equal(t, []uint64{2, 3, 4}, numbers())
	plan := controller.Change{What: controller.KnobVisit}
	j.Amend(plan)
	require.Equal(t, []uint64{3, 4, 5}, numbers())
	j.Amend(plan)
	require.Equal(t, []uint64{3, 4, 6}, numbers(), "an entry that is amended is new")
}

func TestAmendKeepsOneEntryForAKnobThatChangesOften(t *testing.T) {
	j := steer.NewJournal(2)
	plan := func(before, after string) controller.Change {
		return controller.Change{Policy: "lrb", StageName: "shared", What: controller.KnobVisit, Before: before, After: after}
	}
	workers := controller.Change{Policy: "lrb", StageName: "shared", What: controller.KnobWorkers, Before: 1, After: 2}
	j.Amend(plan("none", "a"))
	j.Amend(plan("a", "b"))
	j.Amend(plan("b", "c"))
	require.Equal(t, []controller.Change{plan("none", "c")}, unnumbered(j))
	j.Amend(workers)
	j.Amend(plan("c", "d"))
	j.Amend(plan("d", "e"))
	require.Equal(t, []controller.Change{workers, plan("none", "e")}, unnumbered(j), "the last entry is also found when the ring has wrapped around, and behind others of its kind")
	other := plan("x", "y")
	other.StageName = "elsewhere"
	j.Amend(other)
	require.Equal(t, []controller.Change{plan("none", "e"), other}, unnumbered(j))
	j.Add(workers)
	j.Amend(plan("e", "f"))
	require.Equal(t, []controller.Change{workers, plan("e", "f")}, unnumbered(j), "another change came in between")
}
