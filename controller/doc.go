// Package controller defines the state of a pipeline that a policy sees and the
// decisions that it may make.
//
// A [Policy] is a value: a name and parameters. Its [Controller] is called from
// time to time with a [Snapshot] of the pipeline and writes its decisions into
// [Decisions]. Three more parts complete the work: [Ask] calls the controller
// and recovers from its panics, [Settle] limits the wishes to the bounds and
// returns the changes, and a journal records them.
//
// # Order
//
// A controller belongs to one run of one pipeline and is called serially: first
// with [EventStart], then with [EventTick] as often as it asked for with
// [Decisions.Every], with other events as they happen, and last with
// [EventStop]. It therefore needs no lock. A policy is shared and may be asked
// for a New controller at any time, so its methods must not change it. Only a
// [Gate] is called by many goroutines at once.
//
// # Knobs
//
// A decision is about a [Knob] of a stage, of a pool of workers, or of the
// [Entry]. Every stage has a pool of its own, under its own name, and may be
// bound to another one that it shares. A pool has a number of workers, a
// [Dispatch] and, if it is polled, a [VisitPlan]; each of its workers follows
// the plan from place to place.
//
// Each knob has one owner. Several policies may work together if each is a
// [Claimer] and no two claim the same knob.
//
// # Ownership
//
// A controller may use the snapshot and the decisions only during one call: it
// copies the values that it wants to remember, keeps neither of them, and
// changes nothing in the snapshot. A visit plan that was given away with a
// decision must not be changed any more, and a gate only by means that are safe
// while it is asked. A controller's memory is its own; counters are never reset.
//
// # Purity
//
// A controller starts no goroutine, reads no clock and holds no lock. Time is
// an argument, [Snapshot.At], counted from the start of the pipeline; "never"
// is an absent value, not zero. So the same code runs in production and in a
// simulator, where an hour passes in a millisecond. A decision sets a value and
// does not add to one: wanting twelve workers twice is wanting twelve workers.
// Only [Decisions.Steal] states a difference.
//
// # Errors
//
// No input is illegal: no stages at all, no load, stages that are added and
// removed. A wish beyond a knob's bounds is limited to them, and the journal
// says so. A wish for a missing stage or pool, or for an impossible value, is a
// fault and changes nothing. A panic ([PanicError]) leaves the earlier
// decisions in force.
//
// # Bounds
//
// Decisions hold one wish for each knob that was named; a journal holds a fixed
// number of changes and counts the changes that it had to drop.
//
// # Testing
//
// Write down a snapshot, call [Ask], and check the wishes with [Setting.Wish]
// or the changes with [Settle]. No pipeline and no waiting is needed: see the
// examples.
//
// This package is on the lowest layer: it imports nothing of Golda but
// internal/plain.
package controller
