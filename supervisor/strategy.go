package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
)

// Strategy says which children are restarted when one fails.
type Strategy uint8

// The strategies, under their OTP names.
const (
	// RestForOne restarts the child that failed and those started after it. It
	// is the default.
	RestForOne Strategy = iota
	// OneForOne restarts only the child that failed.
	OneForOne
	// OneForAll restarts all children.
	OneForAll
	// SimpleOneForOne is for a changing set of children that are independent of
	// one another. It starts with none; [Tree.Add] numbers their names; a child
	// that ends is forgotten unless it is restarted; and all are stopped at
	// once. Elixir calls it a DynamicSupervisor.
	SimpleOneForOne
)

// String returns the OTP name.
func (s Strategy) String() string {
	switch s {
	case RestForOne:
		return "rest_for_one"
	case OneForOne:
		return "one_for_one"
	case OneForAll:
		return "one_for_all"
	case SimpleOneForOne:
		return "simple_one_for_one"
	default:
		return fmt.Sprintf("Strategy(%d)", uint8(s))
	}
}

// affected returns the range of children that are restarted when child i of n
// fails.
func (s Strategy) affected(i, n int) (from, to int) {
	switch s {
	case OneForAll:
		return 0, n
	case RestForOne:
		return i, n
	default:
		return i, i + 1
	}
}

// independent reports whether a child may be started while a child before it
// pauses.
func (s Strategy) independent() bool { return s == OneForOne || s == SimpleOneForOne }

// Intensity is how many restarts a supervisor makes within a period before it
// gives up. The zero Intensity allows none: the supervisor gives up at the
// first failure. OTP's default is one restart in five seconds. A positive
// Restarts with a zero Within is a [SpecError], as in OTP.
type Intensity struct {
	Restarts int
	Within   time.Duration
}

// add is supervisor.erl's add_restart: it records a restart, drops restarts
// older than the period, and reports whether there are too many now.
func (in Intensity) add(restarts []time.Time, now time.Time) ([]time.Time, bool) {
	kept := append(in.recent(restarts, now), now)
	return kept, len(kept) > in.Restarts
}

// recent returns the restarts that are not older than the period.
func (in Intensity) recent(restarts []time.Time, now time.Time) []time.Time {
	kept := restarts[:0:0]
	for _, at := range restarts {
		if now.Sub(at) <= in.Within {
			kept = append(kept, at)
		}
	}
	return kept
}

// Backoff is how long a child pauses before it is restarted. The first failure
// in a row costs First, each further one twice as much, up to Max. The zero
// Backoff makes no pause, as OTP.
type Backoff struct {
	First time.Duration
	// Max is the longest pause; zero is a minute.
	Max time.Duration
	// Jitter is the random share of each pause, so that children that failed
	// together are not restarted together: with 0.5 a pause takes between half
	// of its length and all of it. Zero is 0.5; -1 is none, so that pauses are
	// exact.
	Jitter float64
	// Calm is how long a child must have been up for its failures to be
	// forgotten; zero is Max.
	Calm time.Duration
}

const (
	noJitter      = -1
	defaultJitter = 0.5
	defaultMax    = time.Minute
)

// Check returns the problems of b, or nil if there are none. A [Spec] with an
// invalid Backoff does not start.
func (b Backoff) Check() error {
	if problems := b.problems(); len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

func (b Backoff) problems() (all []string) {
	wrong := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	wrong(b.First < 0, "First is negative: %v", b.First)
	wrong(b.Max < 0, "Max is negative: %v", b.Max)
	wrong(b.Calm < 0, "Calm is negative: %v", b.Calm)
	wrong(b.Max > 0 && b.Max < b.First, "Max %v must not be less than First %v", b.Max, b.First)
	wrong(!(b.Jitter >= 0 && b.Jitter <= 1) && b.Jitter != noJitter, "Jitter is %v; it must be from 0 to 1, or -1 for none", b.Jitter)
	return all
}

func (b Backoff) longest() time.Duration {
	if b.Max > 0 {
		return b.Max
	}
	return max(b.First, defaultMax)
}

func (b Backoff) calm() time.Duration {
	if b.Calm > 0 {
		return b.Calm
	}
	return b.longest()
}

// pause returns how long a child waits after streak failures in a row; chance
// is in [0, 1).
func (b Backoff) pause(streak int, chance float64) time.Duration {
	if b.First <= 0 || streak < 1 {
		return 0
	}
	jitter := b.Jitter
	if jitter == 0 {
		jitter = defaultJitter
	}
	return backoff.Pause(b.First, b.longest(), streak, -min(max(jitter, 0), 1)*chance)
}
