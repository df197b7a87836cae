package streak

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAStreakLengthensWithEachCrashThatCountsAndEndsWithACommand(t *testing.T) {
	const ends = time.Minute
	var k Streak
	first, later := errors.New("first"), errors.New("later")
	require.Equal(t, Facts{}, k.Facts(0, false), "no handler has crashed")

	k.Add(Charged, first, 1, ends)
	k.Add(Faultless, later, 2, ends)
	k.Add(NotStarted, later, 3, ends)
	k.Add(NotStarted, later, 5, ends)
	require.Equal(t, [2]int32{3, 2}, [2]int32{k.length, k.unstarted})
	require.Equal(t, first, k.facts().First)
	require.EqualValues(t, 4, k.Unable(7))

	k.Add(Charged, later, 8, ends)
	require.Equal(t, [2]int32{4, 0}, [2]int32{k.length, k.unstarted}, "a handler ran")
	require.Zero(t, k.Unable(9))

	require.Zero(t, k.End(), "no pause was reported")
	require.Zero(t, k.length)
	k.Add(Charged, later, 10, ends)
	require.EqualValues(t, 2, k.facts().Number)
	require.Equal(t, later, k.facts().First)

	k.Add(Charged, first, 10+int64(ends), ends)
	require.EqualValues(t, 2, k.length)
	k.Add(Charged, first, 11+2*int64(ends), ends)
	require.EqualValues(t, 1, k.length, "the crash before is long ago")
	require.EqualValues(t, 3, k.facts().Number)
}

func TestAStreakIsReportedAnewWhenItHasDoubled(t *testing.T) {
	var k Streak
	var reported []int32
	for now := range int64(20) {
		k.Add(Charged, nil, now, time.Hour)
		if k.Report(now) {
			reported = append(reported, k.length)
		}
	}
	require.Equal(t, []int32{1, 2, 4, 8, 16}, reported)
	require.Equal(t, 20, k.End())

	k.Add(Charged, nil, 21, time.Hour)
	require.False(t, k.Report(21), "a shorter streak soon after is no news")
	require.Zero(t, k.End())
	k.Add(Charged, nil, 22, time.Hour)
	require.True(t, k.Report(22+int64(newsEvery)))
}

func TestARestOnlyGrows(t *testing.T) {
	var k Streak
	require.True(t, k.Rest(0, 10))
	require.False(t, k.Rest(5, 5))
	require.True(t, k.Rest(5, 10))
	require.EqualValues(t, 3, k.RestLeft(12))
	require.Equal(t, Facts{Rests: 2, Rested: 15, rested: 15}, k.Facts(15, true))
	require.Equal(t, Facts{Rests: 1, Rested: 12, rested: 15}, k.Facts(12, true), "the rest is not over")
}
