package window

import (
	"context"
	"errors"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/stage"
)

// Window is the result of a stage that collects commands.
type Window[K comparable, V any] struct {
	Key    K
	Value  V         // the commands, or the sum that an [Aggregate] made of them
	Count  int       // how many commands there were, at least 1
	Opened time.Time // when the first command arrived
	Why    Cause     // the reason for which the window was closed
}

// Cause is the reason for which a window was closed.
type Cause string

// The causes.
const (
	Full  Cause = "full"  // it had as many commands or bytes as it may have; of a [Join]: it is complete
	Due   Cause = "due"   // its time was over
	Early Cause = "early" // the stage was drained, or held too many commands, or a command left a full window
	Short Cause = "short" // in a [JoinTicket]: no further part can arrive, but the group is not complete
)

// Bounds says when a window is closed: as soon as one of the bounds is reached.
// A bound of 0 is none. At least one of Count, Bytes, Time, Every and Idle is
// set.
type Bounds[C any] struct {
	// Count is how many commands a window has at most. It is not more than
	// Held, except for an [Aggregate].
	Count int
	// Bytes is how large the commands of a window are at most, together, as
	// Size says. A larger command has a window of its own.
	Bytes int
	// Size returns the size of a command, which is not negative. It is given
	// with Bytes.
	Size func(cmd C) int
	// Time is for how long a window is open, from its first command on.
	Time time.Duration
	// Every closes the windows at each multiple of this time, as
	// time.Time.Truncate counts: with a minute, when the clock shows a full
	// minute. A window without commands is not passed on.
	Every time.Duration
	// Idle closes a window when no command has arrived for that long.
	Idle time.Duration
	// Held is how many commands are held, and how many windows are open, in all
	// windows of the stage. At the bound the window that was opened first is
	// closed, with [Early]. The default is 10,000.
	Held int
}

// All makes a stage that collects all commands, in one window after the other.
// As any stage of this package it sets stage.Workers and stage.Instances
// itself: these are no options of it, unless they are in a list of
// stage.Defaults, where they do not count.
func All[C any](name string, b Bounds[C], opts ...stage.Option) *stage.Flow[C, Window[struct{}, []C]] {
	return By(name, func(C) struct{} { return struct{}{} }, b, opts...)
}

// By makes a stage that collects the commands with the same key. Each key has
// one open window at a time, which its first command opens.
func By[K comparable, C any](
	name string, key func(cmd C) K, b Bounds[C], opts ...stage.Option,
) *stage.Flow[C, Window[K, []C]] {
	r := rules[K, []C, C]{key: with(key), add: collect[C], drop: remove[C], bounds: b}
	faults := append(check(key != nil, b), countFits("Bounds", b.Count, b.Held)...)
	return flow(name, r, faults, opts, func(w Window[K, []C]) Window[K, []C] { return w })
}

// Aggregate makes a stage that sums up the commands with the same key, and
// emits the sum when the window is closed: with Bounds.Every, every period. Add
// is given what it made of the earlier commands of the window, at first the
// zero value, and returns the new value. If it panics, its window has the value
// from before, so add must not change the data that sum points to.
//
//	perMinute := window.Aggregate("bytes", Hit.Host,
//		func(sum int, h Hit) int { return sum + h.Bytes },
//		window.Bounds[Hit]{Every: time.Minute})
//
// Only the first command of a window is held until it is closed; the others
// leave the stage as soon as they are added. So a window may have any number of
// commands, and Bounds.Held is how many windows are open. Callers should use
// Submit: a Call waits until the sum has ended. If the context of the first
// command's caller ends, the window is closed [Early].
//
// When an open window is ended by a hard stop, its value is passed on to the
// next stage and is in the letter that is left there. An aggregate that cannot
// be passed on, because a stage.Flow.Route fails, or because the first
// command's stage.Timeout ends while add hangs, is the command of its letter,
// and in the [*LostError] there: a retry of the letter passes the same window
// on. If C is the type of the window itself, the retry adds the window as a
// command. A middleware that fails the first command after next has returned
// loses the value: the letter has that command and the error of the middleware,
// which callers and sources of the other commands get, too. Retries of the
// stage would add commands twice, so it takes no stage.Retry.
func Aggregate[K comparable, A, C any](
	name string, key func(cmd C) K, add func(sum A, cmd C) A, b Bounds[C], opts ...stage.Option,
) *stage.Flow[C, Window[K, A]] {
	faults := append(check(key != nil, b), nilFault(add == nil, "window.Aggregate", "the function that adds is nil")...)
	r := rules[K, A, C]{key: with(key), add: add, bounds: b, traits: traits{sums: true}}
	return flow(name, r, faults, opts, func(w Window[K, A]) Window[K, A] { return w })
}

// Parts says which parts a [Join] or [JoinTicket] waits for, and for how long.
type Parts[C any] struct {
	// Count is how many parts make a group complete, not more than Held.
	// Without Whole it is at least 2, or 0 in a JoinTicket.
	Count int
	// Whole reports whether the parts that have come are complete. It is called
	// after each part, and must neither change nor keep the slice.
	Whole func(parts []C) bool
	// Limit is for how long a group waits for its parts, from the first on. It
	// must be set.
	Limit time.Duration
	// Fail ends the parts of a group that did not become complete with
	// [ErrIncomplete], each. Without Fail the group is passed on as it is, and
	// its Why is not [Full].
	Fail bool
	// Held is how many parts of incomplete groups there may be, as in [Bounds].
	Held int
}

// ErrIncomplete is the error of the parts of a group that was given up: see
// [Parts].
var ErrIncomplete = errors.New("window: the other parts did not come in time")

// Join makes a stage that collects the parts with the same key, and passes them
// on as one group when the group is complete. A group that is not complete
// within the time limit, or when the stage is drained, is passed on incomplete,
// or its parts fail: see Parts.Fail. A part that arrives later begins a new
// group.
func Join[K comparable, C any](
	name string, key func(cmd C) K, parts Parts[C], opts ...stage.Option,
) *stage.Flow[C, Window[K, []C]] {
	b := Bounds[C]{Count: parts.Count, Time: parts.Limit, Held: parts.Held}
	r := rules[K, []C, C]{key: with(key), add: collect[C], drop: remove[C], whole: parts.Whole, bounds: b, traits: traits{fail: parts.Fail}}
	return flow(name, r, checkParts(key != nil, parts), opts, func(w Window[K, []C]) Window[K, []C] { return w })
}

// Debounce makes a stage that passes on the last command of a key when none has
// come for the time quiet. The earlier commands end with that one, with no
// result. If commands keep arriving, the latest is passed on when the limit,
// counted from the first one, is over; a limit of 0 is none. Commands of 10,000
// keys wait at most; at the bound the stage passes on the command that has
// waited longest.
//
// The last command is the command that arrived last. A source that delivers
// commands again after a failure or a restart, such as an inlet, does not keep
// their order: an older command may come after a newer one, and then it is
// passed on, and the newer one ends with it, or was passed on before. Behind
// such a source let commands have a version, keep the newest with an
// [Aggregate] that has the same Idle and Time, and let the next stage skip a
// version that is older than its own:
//
//	settled := window.Aggregate("settled", Save.File, newer, window.Bounds[Save]{Idle: quiet, Time: limit})
func Debounce[K comparable, C any](
	name string, key func(cmd C) K, quiet, limit time.Duration, opts ...stage.Option,
) *stage.Flow[C, C] {
	b := Bounds[C]{Idle: quiet, Time: limit}
	r := rules[K, C, C]{key: with(key), add: latest[C], bounds: b, traits: traits{last: true}}
	return flow(name, r, checkDebounce(key != nil, quiet, limit), opts, func(w Window[K, C]) C { return w.Value })
}

// Throttle makes a stage that passes on at most one command of a key in each
// period: the first one at once, and, if more come within the period, the last
// of them when the period is over. That one begins the next period. The others
// end with that one, with no result. A drain passes on the last command of a
// key before its period is over.
//
// Commands of 10,000 keys wait for the end of their periods at most; at the
// bound the stage passes on the command that has waited longest. The stage
// knows the periods of a million further keys, with some 600 bytes each; at the
// bound the oldest is over.
func Throttle[K comparable, C any](
	name string, key func(cmd C) K, period time.Duration, opts ...stage.Option,
) *stage.Flow[C, C] {
	r := rules[K, C, C]{key: with(key), add: latest[C], bounds: Bounds[C]{Time: period}, traits: traits{last: true, leads: true}}
	return flow(name, r, checkThrottle(key != nil, period), opts, func(w Window[K, C]) C { return w.Value })
}

// with makes the key of a command from a user's function for it.
func with[K comparable, C any](key func(cmd C) K) func(context.Context, C) (K, error) {
	return func(_ context.Context, cmd C) (K, error) { return key(cmd), nil }
}

func collect[C any](all []C, cmd C) []C { return append(all, cmd) }

func remove[C any](all []C, i int) []C { return append(all[:i:i], all[i+1:]...) }

func latest[C any](_, cmd C) C { return cmd }

// LostError is the error of the first command of an [Aggregate]'s window whose
// value could not be passed on.
type LostError struct {
	Window any   // the window, as it would have been passed on
	Err    error // why it was not

	use link.Use // of the window; nil if nothing changes it any more
}

// Error returns the reason.
func (e *LostError) Error() string {
	return "window: an aggregate could not be passed on: " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *LostError) Unwrap() error { return e.Err }

// flow makes the flow of a collector.
func flow[K comparable, V, C, Out any](
	name string, r rules[K, V, C], faults []error, opts []stage.Option, result func(Window[K, V]) Out,
) *stage.Flow[C, Out] {
	if r.bounds.Held == 0 {
		r.bounds.Held = defaultHeld
	}
	return stage.FlowOf(name, func(send func(context.Context, Out) behaviour.Outcome) (behaviour.Behaviour[C], error) {
		return newCollector(r, func(ctx context.Context, w Window[K, V]) behaviour.Outcome { return send(ctx, result(w)) }),
			errors.Join(faults...)
	}, opts...)
}

// Fixed returns the options of the stage of a collector that do not depend on
// the user. It has one worker, of its own, so that commands and results keep
// their order, and as many instances as it may hold commands. An aggregate is
// never tried again.
func (s *collector[K, V, C]) Fixed(part.Seal) (why string, opts []stage.Option) {
	return "a window sets it itself", s.fixed(s.bounds.Held)
}

// MustLead has pipeline.New refuse a stage of a collector that leads nowhere.
func (s *collector[K, V, C]) MustLead(part.Seal) string { return "window" }

const (
	defaultHeld = 10_000
	// mostPeriods is how many keys of a Throttle have a period in which no
	// further command has come.
	mostPeriods = 1_000_000
	// spare is how many commands may be in progress beside the held ones. The
	// stage must admit one command more than it may hold, because that command
	// closes the oldest window.
	spare = 256
)
