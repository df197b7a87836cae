package event

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// Window is the result of a window.
type Window[K comparable, A any] struct {
	Key        K
	Start, End time.Time // in UTC; End is not part of it
	Value      A         // of its commands, as the Fold says
	Count      int       // how many commands Value has, at least 1
	Pane       int       // how often the window was passed on before
	// Early says that the watermark had not reached End: at the end of the
	// input, in another drain or a stop, if the sources were idle or waited for
	// ends, or at the bound Watermark.Held. Of a window that is passed on again
	// the last Pane counts, or all of them if Watermark.Discard is set.
	Early bool
}

// Fold says how commands of type C are made into an aggregate of type A for
// each key: see [Sum].
type Fold[K comparable, C, A any] struct {
	at  func(cmd C) time.Time
	key func(cmd C) K
	add func(sum A, cmd C) A
}

// Sum returns a Fold: the commands with the same key are summed up. At returns
// the time of a command; one that is zero, or not in the years from 1700 to
// 2200, fails. Add is given what it made of the earlier commands of the window,
// in the order of their arrival, at first the zero value, and returns the new
// value. For results that do not depend on the order of arrival, add must not
// depend on it either.
func Sum[K comparable, C, A any](at func(cmd C) time.Time, key func(cmd C) K, add func(sum A, cmd C) A) Fold[K, C, A] {
	return Fold[K, C, A]{at, key, add}
}

// Watermark says how far commands are out of order, and the fate of
// late commands. The zero Watermark is for commands in the order of
// their times, from one source.
type Watermark[C any] struct {
	// Disorder is by how much the time of a command may be behind the latest
	// time before it.
	Disorder time.Duration
	// Source returns the name of a command's source, such as a partition or a
	// machine. Each has a watermark of its own, and the least one counts. Nil:
	// there is one source.
	Source func(cmd C) string
	// ByKey gives each key a watermark of its own.
	ByKey bool
	// Idle is after how long without commands a source no longer holds the
	// watermark up. If all sources are idle, open windows are passed on as in a
	// drain; with ByKey the windows of an idle key are, and the key is
	// forgotten. Idle is by the clock, and may take twice as long. The default
	// is a minute with Source or ByKey, and never without.
	Idle time.Duration
	// Lateness is for how long, in event time, a window stays after the
	// watermark has reached its end.
	Lateness time.Duration
	// Late is where late commands go, as a result of the stage. Give the target
	// to pipeline.New, too.
	Late behaviour.Target[C]
	// Dropped counts late commands, which then end with no result. It is given
	// in place of Late.
	Dropped *atomic.Int64
	// Discard has a window that is passed on again contain only the commands
	// since it was passed on before.
	Discard bool
	// Held is how many windows there are in the stage, of all keys. At the bound
	// the window with the earliest End is passed on Early, and forgotten. The default is
	// 10,000.
	Held int
}

// ErrLate is the error of a late command: see [Watermark].
var ErrLate = errors.New("event: the command is late: its windows are over")

// Tumbling makes a stage with windows of a length, one behind the other, for
// each key. They begin at the multiples of the length since 1970, in UTC. It
// has one worker of its own, so stage.Workers is no option of it.
func Tumbling[K comparable, C, A any](
	name string, length time.Duration, fold Fold[K, C, A], mark Watermark[C], opts ...stage.Option,
) *stage.Flow[C, Window[K, A]] {
	f := form[A]{name: "Tumbling", length: int64(length), every: int64(length)}
	return flow(name, f, fold, mark, opts)
}

// Sliding makes a stage with windows of a length that begin at each multiple of
// every, which is less than the length: each command is in several windows, at
// most in 1,000, and add is called for each. All else is as with [Tumbling].
func Sliding[K comparable, C, A any](
	name string, length, every time.Duration, fold Fold[K, C, A], mark Watermark[C], opts ...stage.Option,
) *stage.Flow[C, Window[K, A]] {
	return flow(name, form[A]{name: "Sliding", length: int64(length), every: int64(every)}, fold, mark, opts)
}

// Session makes a stage with a window for each burst of commands of a key: the
// commands between which there is less than the gap. Start is the time of the
// first, and End the time of the last and the gap. A command may join two
// windows, whose values merge makes into one; it is given the earlier window's
// value first, and must not change data that they point to. All else is as with
// [Tumbling]. With a Lateness a session that was passed on may become part of a
// longer one, which has the Start of the first.
func Session[K comparable, C, A any](
	name string, gap time.Duration, fold Fold[K, C, A], merge func(a, b A) A, mark Watermark[C], opts ...stage.Option,
) *stage.Flow[C, Window[K, A]] {
	return flow(name, form[A]{name: "Session", length: int64(gap), session: true, merge: merge}, fold, mark, opts)
}

// flow makes the stage that adds commands to windows, and behind it the one in
// which the windows wait.
func flow[K comparable, C, A any](
	name string, f form[A], fold Fold[K, C, A], mark Watermark[C], opts []stage.Option,
) *stage.Flow[C, Window[K, A]] {
	faults := check(f, fold, mark)
	late := behaviour.NewPort[C]("late commands")
	if mark.Late != nil {
		if err := connect(late, mark.Late); err != nil {
			faults.add("Watermark.Late", err.Error())
		} else {
			opts = append(opts[:len(opts):len(opts)], stage.Out(late))
		}
	}
	k := newKeeper(f, fold, mark)
	keep := stage.FlowOf(name+" windows",
		func(send func(context.Context, Window[K, A]) behaviour.Outcome) (behaviour.Behaviour[*pane[K, A]], error) {
			k.send = send
			return k, nil
		})
	add := stage.FlowOf(name, func(func(context.Context, *pane[K, A]) behaviour.Outcome) (behaviour.Behaviour[C], error) {
		return &adder[K, C, A]{keeper: k, fold: fold, mark: mark, late: late, to: keep.Inlet()}, errors.Join(faults...)
	}, opts...)
	return stage.Chain(add, keep)
}
