// Package controller says what a policy sees and what it may want.
//
// A [Policy] is a value: a name and parameters. Its [Controller] is asked from
// time to time with a [Snapshot] of the pipeline and writes what it wants
// changed into [Decisions]. Three things do the rest: [Ask] puts the question and
// survives a panic in the answer, [Settle] holds the wishes against the bounds
// and tells what is to change, and a [Journal] remembers it.
//
// # Order
//
// A controller belongs to one run of one pipeline and is called serially: first
// with [EventStart], then with [EventTick] as often as it asked for with
// [Decisions.Every], with other events as they happen, and last with [EventStop]. It
// therefore needs no lock. A policy is shared and may be asked for a New controller
// at any time, so its methods change nothing in it. A [Gate] alone is called by many
// at once.
//
// # Knobs
//
// What can be decided is a [Knob] of a stage, of a pool of workers, or of the
// [Entry]. Every stage has a pool of its own, under its own name, and may be bound to
// another one that it shares. A pool has a number of workers, a [Dispatch] and, if
// it is polled, a [VisitPlan], by which each of its workers takes a [Walk].
//
// Each knob has one owner. Several policies may work side by side if each is a
// [Claimer] and no two claim the same.
//
// # Ownership
//
// The snapshot and the decisions are lent for the length of one call: a
// controller copies what it wants to remember, keeps neither, and changes
// nothing in the snapshot. What is given away with a decision, a visit plan or a
// gate, is not changed any more. What a controller remembers is its own; counters are
// never reset under it (see [Windows]).
//
// # Purity
//
// A controller starts no goroutine, reads no clock and holds no lock. Time is an
// argument, [Snapshot.At], counted from the start of the pipeline; "never" is
// absence, not zero. So the same code runs in production and in a simulator,
// where an hour passes in a millisecond. What a controller wants is set, not
// added: wanting twelve workers twice is wanting twelve workers. Thefts alone speak of a
// difference, see [Decisions.Steal].
//
// # Errors
//
// No input is illegal: no stages at all, no load, stages that come and go. A
// wish beyond a knob's bounds is held to them, and the journal says so. A wish for
// a stage or pool that is not there, or for a value that makes no sense, is a fault
// ([UnknownStageError], [UnknownPoolError], [ValueError]) and changes nothing. A
// panic ([PanicError]) leaves everything as it was last decided.
//
// # Bounds
//
// Decisions hold one wish for each knob spoken of; a journal holds a fixed number
// of changes and counts those it had to forget.
//
// # Testing
//
// Write down a snapshot, call [Ask], look at the wishes with [Decisions.Wish] or
// at the changes with [Settle]. No pipeline, no waiting: see the examples. A Walk
// tells where a worker goes by a plan.
//
// This package is the ground floor: it imports nothing of Golda.
package controller
