package backoff

import "math"

const (
	// reserve is how many retries a budget has at the start, and how many it
	// saves at most.
	reserve = 10
	// unit is a retry in the integers that a budget counts in, so that a share
	// such as a tenth is exact.
	unit = 1_000_000
)

// Budget bounds the retries of a stage to a reserve, and a share of the
// commands that have ended.
//
// Invariant: 0 <= left <= reserve·unit, and unit·retries + left <= reserve·unit
// + share·ended.
type Budget struct {
	share int64 // of a retry, in units, that each command earns which ends; at least 1
	left  int64 // in units
	ended int64 // commands that have earned
}

// NewBudget returns a budget with its reserve, nil for the share 0: any number
// of retries.
func NewBudget(share float64) *Budget {
	if share == 0 {
		return nil
	}
	return &Budget{share: int64(math.Round(share * unit)), left: reserve * unit}
}

// Spend takes a retry out of the budget, if there is one. Ended is how many
// commands have ended so far, as far as the caller knows.
func (b *Budget) Spend(ended int64) bool {
	if earned := ended - b.ended; earned > 0 {
		b.ended = ended
		b.left = min(b.left+min(earned, reserve*unit)*b.share, reserve*unit)
	}
	if b.left < unit {
		return false
	}
	b.left -= unit
	return true
}
