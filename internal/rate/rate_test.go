package rate

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The model counts permits as fractions of any size: neither a rate for
// nanoseconds nor one for centuries overflows or rounds.
func TestABucketCountsPermitsExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Limit{N: rapid.IntRange(1, math.MaxInt).Draw(t, "n"), Burst: rapid.IntRange(1, math.MaxInt32).Draw(t, "burst")}
		r.Per = time.Duration(rapid.Int64Range(1, math.MaxInt64/int64(r.Burst)).Draw(t, "per"))
		require.True(t, r.Fits())
		b, model, now := New(r), big.NewRat(int64(r.Burst), 1), int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			past := rapid.OneOf(rapid.Int64Range(0, min(1000, math.MaxInt64-now)), rapid.Int64Range(0, math.MaxInt64-now)).Draw(t, "past")
			now += past
			model.Add(model, new(big.Rat).Mul(big.NewRat(past, int64(r.Per)), big.NewRat(int64(r.N), 1)))
			atMost(model, int64(r.Burst))
			whole := int(new(big.Int).Quo(model.Num(), model.Denom()).Int64())
			have := b.Permits(now)
			require.Equal(t, whole, have)
			if have < r.Burst && now < math.MaxInt64 {
				due := b.DueAt(have + 1)
				early, late := *b, *b
				require.Equal(t, have, early.Permits(due-1))
				if late.Permits(due) == have {
					require.EqualValues(t, math.MaxInt64, due)
				}
			}
			if rapid.Bool().Draw(t, "takes") {
				n := rapid.IntRange(0, have).Draw(t, "taken")
				b.Take(n)
				model.Sub(model, big.NewRat(int64(n), 1))
			} else {
				n := rapid.IntRange(0, r.Burst).Draw(t, "given")
				b.GiveBack(n)
				model.Add(model, big.NewRat(int64(n), 1))
				atMost(model, int64(r.Burst))
			}
		}
	})
}

func atMost(model *big.Rat, most int64) {
	if limit := big.NewRat(most, 1); model.Cmp(limit) > 0 {
		model.Set(limit)
	}
}
