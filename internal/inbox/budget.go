package inbox

import (
	"errors"
	"fmt"
	"math"
)

// ErrRetryBudget says that a command was not tried again because the retry
// budget of its stage was spent.
var ErrRetryBudget = errors.New("stage: retry budget spent")

// OverBudget returns the error of a command whose try ended in err, and for
// which there was no other try in the budget.
func OverBudget(err error) error { return fmt.Errorf("%w: %w", ErrRetryBudget, err) }

const (
	// reserve is how many retries a budget has at the start, and how many it
	// saves at most.
	reserve = 10
	// unit is a retry in the integers that a budget counts in, so that a share
	// such as a tenth is exact.
	unit = 1_000_000
)

// budget bounds the retries of a stage to a reserve, and a share of the
// commands that have ended.
//
// Invariant: 0 <= left <= reserve·unit, and unit·retries + left <= reserve·unit
// + share·ended.
type budget struct {
	share int64 // of a retry, in units, that each command earns which ends; at least 1
	left  int64 // in units
	ended int64 // commands that have earned
}

// newBudget returns a budget with its reserve, nil for the share 0: any number
// of retries.
func newBudget(share float64) *budget {
	if share == 0 {
		return nil
	}
	return &budget{share: int64(math.Round(share * unit)), left: reserve * unit}
}

// spend takes a retry out of the budget, if there is one. Ended is how many
// commands have ended so far, as far as the caller knows.
func (b *budget) spend(ended int64) bool {
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
