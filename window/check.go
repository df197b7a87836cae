package window

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/stage"
)

const mostHeld = 1 << 24

// leastTime is less than any window needs: a time below it has no unit.
const leastTime = time.Microsecond

// faults collects the errors in the arguments of a constructor. The stage's
// name is added later.
type faults []error

func (f *faults) that(ok bool, problem, option string, args ...any) {
	if !ok {
		*f = append(*f, &stage.OptionError{Option: fmt.Sprintf(option, args...), Problem: problem})
	}
}

func nilFault(isNil bool, option, problem string) (f faults) {
	f.that(!isNil, problem, "%s", option)
	return f
}

const (
	notNegative = "must not be negative"
	nilKey      = "the function for the key is nil"
)

// check returns the faults of bounds.
func check[C any](hasKey bool, b Bounds[C]) faults {
	return checkBounds(hasKey, b.Size != nil, Bounds[any]{
		Count: b.Count, Bytes: b.Bytes, Time: b.Time, Every: b.Every, Idle: b.Idle, Held: b.Held,
	})
}

// checkBounds is check without the type of the commands, which only Size has.
func checkBounds(hasKey, hasSize bool, b Bounds[any]) (f faults) {
	f.that(hasKey, nilKey, "window")
	f.that(b.Count >= 0, notNegative, "Bounds.Count(%d)", b.Count)
	f.that(b.Bytes >= 0, notNegative, "Bounds.Bytes(%d)", b.Bytes)
	f.time("Time", b.Time)
	f.time("Every", b.Every)
	f.time("Idle", b.Idle)
	f.that(b.Bytes < 0 || (b.Bytes > 0) == hasSize, "Bytes and Size are given together", "Bounds.Bytes(%d)", b.Bytes)
	bounded := b.Count != 0 || b.Bytes != 0 || b.Time != 0 || b.Every != 0 || b.Idle != 0
	f.that(bounded, "a window needs a bound: Count, Bytes, Time, Every or Idle", "Bounds")
	f.held("Bounds", b.Held)
	return f
}

// time finds a bound that is negative, or has no unit.
func (f *faults) time(of string, d time.Duration) {
	f.that(d >= 0, notNegative, "Bounds.%s(%v)", of, d)
	f.that(d <= 0 || d >= leastTime, fmt.Sprintf("must be at least %v: perhaps its unit is missing", leastTime), "Bounds.%s(%v)", of, d)
}

// countFits finds a Count that no window can reach, because its commands are
// more than the stage may hold.
func countFits(of string, count, held int) (f faults) {
	if held == 0 {
		held = defaultHeld
	}
	f.that(count <= held || held < 0, fmt.Sprintf("is more than Held, %d, so no window would ever have as many", held), "%s.Count(%d)", of, count)
	return f
}

func checkParts[C any](hasKey bool, p Parts[C]) faults {
	return append(checkGroups(hasKey, p.Whole != nil, p.Count), checkTicketParts(p)...)
}

func checkGroups(hasKey, hasWhole bool, count int) (f faults) {
	f.that(hasKey, nilKey, "window.Join")
	f.that(count > 1 || count < 0 || hasWhole, "say when a group is complete: by a Count of at least 2, or by Whole",
		"Parts.Count(%d)", count)
	return f
}

func checkTicketParts[C any](p Parts[C]) faults { return checkLimits(p.Count, p.Limit, p.Held) }

func checkLimits(count int, limit time.Duration, held int) (f faults) {
	f.that(count >= 0, notNegative, "Parts.Count(%d)", count)
	f.that(limit > 0, "must be above 0: a part may never come", "Parts.Limit(%v)", limit)
	f.held("Parts", held)
	return append(f, countFits("Parts", count, held)...)
}

func (f *faults) held(of string, n int) {
	f.that(n >= 0, notNegative, "%s.Held(%d)", of, n)
	f.that(n <= mostHeld, fmt.Sprintf("must be at most %d", mostHeld), "%s.Held(%d)", of, n)
}

func checkDebounce(hasKey bool, quiet, limit time.Duration) (f faults) {
	f.that(hasKey, nilKey, "window.Debounce")
	f.that(quiet > 0, "the quiet time must be above 0", "window.Debounce(%v, %v)", quiet, limit)
	f.that(limit == 0 || limit >= quiet, "the limit must be 0 or at least the quiet time", "window.Debounce(%v, %v)", quiet, limit)
	return f
}

func checkThrottle(hasKey bool, period time.Duration) (f faults) {
	f.that(hasKey, nilKey, "window.Throttle")
	f.that(period > 0, "the period must be above 0", "window.Throttle(%v)", period)
	return f
}
