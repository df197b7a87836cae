package inbox

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However many commands wait, and come meanwhile: the pauses that a command lives through add up to Delay at most.
func TestThePausesThatACommandWaitsForAddUpToNoMoreThanTheDelay(t *testing.T) {
	const delay = 100 * time.Millisecond
	for _, arriving := range []int{0, 1, 3, 100} {
		s := newTestInbox(0, Config{Name: "s", Pauses: &Pauses{Crash: func(int) time.Duration { return time.Hour }, Delay: delay}})
		s.state.streak.length = 1
		waiting, clock := []time.Duration{0, 0}, time.Duration(0) // when each came
		for range 1000 {
			require.LessOrEqual(t, clock-waiting[0], delay)
			waiting = waiting[1:] // it crashes
			s.state.counts.inHand = len(waiting)
			var fx effects
			began := clock
			clock += s.state.slowDown(charged, 0, &fx)
			for range arriving {
				waiting = append(waiting, began)
			}
			if len(waiting) == 0 {
				waiting = append(waiting, clock)
			}
		}
	}
}

func TestAnInboxWithAsManyAbandonedHandlersAsThereMayBeGivesOutNothing(t *testing.T) {
	in := newTestInbox(1, Config{Name: "r", Capacity: 4, Batch: 1, StreakEnds: time.Minute})
	for i := range mostAbandoned {
		require.Equal(t, i == mostAbandoned-1, in.Batches().AddAbandoned())
	}
	require.Zero(t, in.state.takeable())
	in.Batches().EndAbandoned()
	in.state.queue.next()
	require.Equal(t, 1, in.state.takeable())
}

func TestAStreakLengthensWithEachCrashThatCountsAndEndsWithACommand(t *testing.T) {
	const ends = time.Minute
	var k streak
	first, later := errors.New("first"), errors.New("later")
	require.Equal(t, CrashStreak{}, k.copy(0, false), "no handler has crashed")

	k.add(charged, first, 1, ends)
	k.add(faultless, later, 2, ends)
	k.add(notStarted, later, 3, ends)
	k.add(notStarted, later, 5, ends)
	require.Equal(t, [2]int32{3, 2}, [2]int32{k.length, k.unstarted})
	require.Equal(t, first, k.facts().First)
	require.EqualValues(t, 4, k.unable(7))

	k.add(charged, later, 8, ends)
	require.Equal(t, [2]int32{4, 0}, [2]int32{k.length, k.unstarted}, "a handler ran")
	require.Zero(t, k.unable(9))

	require.Zero(t, k.end(), "no pause was reported")
	require.Zero(t, k.length)
	k.add(charged, later, 10, ends)
	require.EqualValues(t, 2, k.facts().Number)
	require.Equal(t, later, k.facts().First)

	k.add(charged, first, 10+int64(ends), ends)
	require.EqualValues(t, 2, k.length)
	k.add(charged, first, 11+2*int64(ends), ends)
	require.EqualValues(t, 1, k.length, "the crash before is long ago")
	require.EqualValues(t, 3, k.facts().Number)
}

func TestAStreakIsReportedAnewWhenItHasDoubled(t *testing.T) {
	var k streak
	var reported []int32
	for now := range int64(20) {
		k.add(charged, nil, now, time.Hour)
		if k.report(now) {
			reported = append(reported, k.length)
		}
	}
	require.Equal(t, []int32{1, 2, 4, 8, 16}, reported)
	require.Equal(t, 20, k.end())

	k.add(charged, nil, 21, time.Hour)
	require.False(t, k.report(21), "a shorter streak soon after is no news")
	require.Zero(t, k.end())
	k.add(charged, nil, 22, time.Hour)
	require.True(t, k.report(22+int64(newsEvery)))
}

func TestARestOnlyGrows(t *testing.T) {
	var k streak
	require.True(t, k.rest(0, 10))
	require.False(t, k.rest(5, 5))
	require.True(t, k.rest(5, 10))
	require.EqualValues(t, 3, k.restLeft(12))
	require.Equal(t, CrashStreak{Rests: 2, Rested: 15, rested: 15}, k.copy(15, true))
	require.Equal(t, CrashStreak{Rests: 1, Rested: 12, rested: 15}, k.copy(12, true), "the rest is not over")
}
