package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/stage/queue"
)

// Whatever comes later, a command with k older ones before it is among the next n(k+1) that are taken.
func TestNoCommandStarvesIfTheOldestHasAPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "n")
		line := queue.New[int](queue.Priority{}.Every(n))
		item, taken, latest := 0, 0, map[int]int{} // of each item, how many are taken by then
		push := func(key queue.Key) {
			latest[item] = taken + n*(line.Len()+1)
			line.Push(item, key)
			item++
		}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "pushed") {
				push(queue.Key(rapid.IntRange(-3, 3).Draw(t, "key")))
			}
			batch := make([]int, rapid.IntRange(0, 3).Draw(t, "batch"))
			for _, got := range batch[:line.PopInto(batch)] {
				taken++
				require.LessOrEqual(t, taken, latest[got])
			}
		}
	})
}

// The most important class always waits. The class below it, and the lowest, share what is guaranteed in the order of their arrival.
func TestLowerClassesHaveTheirPartBesideOneThatFillsTheStage(t *testing.T) {
	for _, n := range []int{2, 5, 10, 100} {
		const taken = 10000
		line := queue.New[int](queue.Priority{}.Every(n))
		for i := range taken {
			line.Push(i%2, queue.Key(1+i%2)) // classes 0 and 1
		}
		var of [3]int
		for range taken {
			line.Push(2, 0)
			line.Push(2, 0)
			var got [1]int
			line.PopInto(got[:])
			of[got[0]]++
		}
		require.Equal(t, taken/n, of[0]+of[1])
		require.Equal(t, taken/n/2, of[0])
	}
}
