package yield

// Habit decides for one goroutine whether a yield before it parks is worth its
// price, from what it found after the last ones. A yield that finds something
// to do saves a park and a wake; one that finds nothing costs as much as they
// do. The zero Habit yields.
//
// Only one goroutine at a time may use a Habit.
type Habit struct {
	vain    uint8 // grows with each yield that found nothing, and shrinks faster with each that found something
	skipped uint8 // since the last yield
}

const (
	// vainMost yields in a row that find nothing end the habit, and one that
	// finds something makes up for worth of them: where one in three finds
	// something, the habit stays.
	vainMost, worth = 8, 2
	// tryAgain yields are skipped before one tries whether yields are of use
	// again.
	tryAgain = 15
)

// Pays reports whether to yield now, if there is nothing else to do. A
// goroutine that then yields calls [Habit.Found].
func (h *Habit) Pays() bool {
	switch {
	case h.vain < vainMost:
		return true
	case h.skipped < tryAgain:
		h.skipped++
		return false
	default:
		h.skipped = 0
		return true
	}
}

// Found records whether there was something to do after a yield.
func (h *Habit) Found(something bool) {
	switch {
	case something:
		h.vain = max(h.vain, worth) - worth
	case h.vain < vainMost:
		h.vain++
	}
}
