package cputime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheTimeOfTheMachineIsThatOfAllItsCPUsWithoutIdle(t *testing.T) {
	const stat = "cpu  100 10 20 5000 600 1 2 3 50 0\ncpu0 50 5 10 2500 300 1 1 1 25 0\ncpu1 50 5 10 2500 300 0 1 2 25 0\nintr 1 2 3\n"
	busy, cpus, known := parseStat(stat)
	require.True(t, known)
	require.Equal(t, 2, cpus)
	require.Equal(t, 1360*time.Millisecond, busy)
	for _, bad := range []string{"", "cpu", "cpu a b c d e\ncpu0 1 2 3 4\n", "intr 1 2 3 4 5\n", "cpu 1 2 3 4 5\n"} {
		_, _, known := parseStat(bad)
		require.False(t, known, bad)
	}
	before, _, known := Machine()
	require.True(t, known)
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		if now, _, _ := Machine(); now > before+50*time.Millisecond {
			return
		}
	}
	require.Fail(t, "a minute of computing has used no CPU time")
}
