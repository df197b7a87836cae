package backoff

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The model counts in fractions of any size. A worker that has not booked yet is known by others to have ended fewer commands:
// then only the bound is checked.
func TestABudgetAllowsItsShareOfRetriesExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		thousandths := rapid.Int64Range(1, 1000).Draw(t, "thousandths")
		share, one, most := big.NewRat(thousandths, 1000), big.NewRat(1, 1), big.NewRat(reserve, 1)
		late := rapid.Bool().Draw(t, "late")
		b, left, ended, retries := NewBudget(float64(thousandths)/1000), new(big.Rat).Set(most), int64(0), int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			n := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, 1<<50)).Draw(t, "ended")
			ended += n
			left.Add(left, new(big.Rat).Mul(share, big.NewRat(n, 1)))
			if left.Cmp(most) > 0 {
				left.Set(most)
			}
			seen := ended
			if late {
				seen -= rapid.Int64Range(0, min(ended, 30)).Draw(t, "not known")
			}
			allowed := b.Spend(seen)
			if allowed {
				retries++
			}
			if late {
				bound := new(big.Rat).Add(most, new(big.Rat).Mul(share, big.NewRat(ended, 1)))
				require.LessOrEqual(t, big.NewRat(retries, 1).Cmp(bound), 0)
				continue
			}
			require.Equal(t, left.Cmp(one) >= 0, allowed)
			if allowed {
				left.Sub(left, one)
			}
		}
	})
}
