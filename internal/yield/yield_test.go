package yield

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// after gives how many yields are skipped after each yield, in turn, that takes so long.
func after(t *testing.T, took ...time.Duration) (skipped []int) {
	t.Helper()
	var d time.Duration
	yields := 0
	c := courtesy{dice: func() uint32 { return 0 }, yield: func() { yields++; time.Sleep(d) }}
	for i := range took {
		d = took[i]
		require.True(t, c.once())
		require.Equal(t, i+1, yields, "it should yield")
		n := 0
		for ; c.left.Load() > 0; n++ {
			require.False(t, c.once())
		}
		require.Equal(t, i+1, yields, "it should not yield")
		skipped = append(skipped, n)
	}
	return skipped
}

func TestYieldsAreRarerTheLongerTheyTake(t *testing.T) {
	const quick, slow = long, long + 1
	tests := map[string]struct {
		took []time.Duration
		want []int
	}{
		"always while yields are quick":          {[]time.Duration{0, quick, quick}, []int{0, 0, 0}},
		"a slow one, then a few are skipped":     {[]time.Duration{quick, slow}, []int{0, few}},
		"twice that after each further slow one": {[]time.Duration{slow, slow, slow}, []int{few, 2 * few, 4 * few}},
		"never more than many":                   {[]time.Duration{slow, slow, slow, slow, slow, slow, slow}, []int{16, 32, 64, 128, 256, many, many}},
		"a quick one halves the number":          {[]time.Duration{slow, slow, slow, quick, slow}, []int{few, 2 * few, 4 * few, 0, 4 * few}},
		"two quick ones reset the number":        {[]time.Duration{slow, slow, quick, quick, slow}, []int{few, 2 * few, 0, 0, few}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { require.Equal(t, tt.want, after(t, tt.took...)) })
		})
	}
}

func TestOneYieldInManyIsTimedUntilOneTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, yields := uint32(0), 0
		c := courtesy{dice: func() uint32 { n++; return n }, yield: func() { yields++; time.Sleep(2 * long) }}
		for range timed {
			c.once()
		}
		require.Equal(t, timed, yields)
		for range few {
			c.once()
		}
		require.Equal(t, timed, yields, "the last of them was timed")
	})
}
