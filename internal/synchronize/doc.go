// Package synchronize evaluates the rules of synchronizers over the stages of one pipeline.
//
// There are no messages. A [Board] has the synchronizers of a pipeline, and a [Member] for each stage that they name. The inbox of the
// stage asks its Member where it asks its guards, and reports what it gives out and what has ended. The lock of the Board comes after the
// locks of the inboxes: an inbox that has locked itself locks the Board, looks, counts and unlocks it. So the rules hold, the
// counters grow and the triggers run in one step.
//
// # The turn
//
// A method that a constraint refuses is remembered. When the state of its synchronizer has changed, the first of those that were refused,
// and whose counters allow it, has the turn: its inbox is poked, after all locks were released, and while a worker of it is on its way the
// others are refused. Otherwise the stage that has just ended a command would always be the first to ask again. The turn passes on
// as soon as no worker is on its way, so it never waits for a stage that is paused, halted or busy. There is one turn for
// all synchronizers of a pipeline: with several, two stages could wait for each other's.
//
// # Atomic rules
//
// An inbox offers the oldest request that its guards allow to each event of an atomic rule. When all events have an offer, the
// requests are granted in one step: they are counted, triggers run, and the inboxes are poked to give them out first. An inbox makes its
// offers anew whenever anything has changed that its guards may see, and has none while a granted request waits to be given out. A
// rule that could have happened for longer, but for guards, keeps its place: a younger one does not take a request's method from it.
package synchronize
