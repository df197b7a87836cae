package line

import (
	"time"

	"github.com/golda-dev/golda/coordination/guard"
)

// Accounts are what only some lines can account for.
type Accounts struct {
	Results int             // that wait until they may leave
	Guards  []GuardAccounts // of the methods
	Held    int             // commands that guards hold back, or whose keys are parked
	Parked  int             // keys that are parked
	// Keys is how many keys of a fair line have commands that wait, and
	// OfOneKey how many commands the key has that has the most for its weight.
	Keys, OfOneKey int
}

// GuardAccounts are the accounts of one method of a stage with guards.
type GuardAccounts struct {
	guard.Counters

	Method string
	Held   bool          // commands wait, and the guards hold back all of them
	Holds  uint64        // how often they began to
	Wait   time.Duration // for how long they did in all
	Run    time.Duration // of the commands that were current
	// During has, for other methods, for how long the method was held back
	// while commands of the other were current.
	During map[string]time.Duration
}
