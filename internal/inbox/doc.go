// Package inbox is the inside of a stage: its bounded queue, its accounts, and
// its waiting workers and submitters.
//
// An inbox belongs to its stage and outlives every actor: workers join, crash
// and leave, the queue stays. The commands that wait for their first try are in
// a line of package [line], which decides in which order workers take them. The
// workers, or the workers of a pool that several inboxes share, are in a set of
// package [pool], which decides which of them are woken. The inbox is a state
// machine behind one lock. A worker takes the lock once for each batch, a
// submitter once for each command. Under the lock runs no code of users, with
// two exceptions: a change of discipline asks waiting commands for their keys,
// and guards are evaluated in the step that gives the command out. A transition
// reads the pipeline's clock, changes the state and collects effects;
// [Inbox.unlock] is the one function that applies them, in the one order that
// is written there. A transition takes no second lock, but in a guard; a test
// in internal/layers holds that. No goroutine ever holds the locks of two
// inboxes, except [Snapshot], which takes them in order of their places. A
// worker's emitting (package worker) may be locked before an inbox. A shared
// pool's lock is held with no other.
//
// # What waits for what
//
//   - Workers with nothing to do are idle, last in, first out. One is woken
//     when there is work and no other is already on its way; a worker that
//     leaves commands behind wakes the next. A queue that is soon done is left
//     to the worker that is at work; see available.go.
//   - Workers of other inboxes that found this one full, and cannot go on with
//     commands for other inboxes, are parked in forSlots, first come, first
//     served. When half of the inbox is free they are promised slots and woken,
//     so that no goroutine spins or blocks. A worker keeps its place in line
//     when its actor is replaced after a crash, from when the new actor has
//     parked.
//   - Submitters wait in line for a slot of their own. If both kinds wait they
//     take turns.
//   - Workers of stages in use that have commands for a drained inbox are
//     barred, whether there are free slots or not, until it is opened again;
//     see phase.go.
//   - Results of an ordered stage wait in its inbox until the results of
//     earlier commands have left; see [line.Sequenced]. The worker that hands
//     results over asks for more until none may leave, so no result waits for a
//     worker. When too many results wait, no fresh command is started.
//   - Commands of an inbox with a rate wait in the queue until there are
//     permits for them, and an alarm calls a worker; see [line.Rates] for the
//     rate of each key.
//   - Commands whose caller's context has ended, or whose time is over, do not
//     wait for their turn; see lapsed.go.
//
// One word for each: a worker is parked while it holds no goroutine, for
// whatever reason; idle, parked with nothing to do; blocked, parked in line or
// barred at another inbox with its batch done. A sender is such a worker as the
// other inbox sees it. Commands are carried by a worker that takes a further
// batch before they were handed over. An inbox is stalled while a shared pool
// takes nothing from it.
//
// # Shared pools
//
// An inbox is served by its stage's own workers, or by the workers of a
// [SharedPool]. It gives the shared pool a token for each worker that would
// find something to do, and a shared pool with tokens has no idle worker. The
// tokens are an effect: they are counted in a transition, and delivered after
// it. A worker of a shared pool calls [SharedPool.Turn], which books its last
// batch, continues the visit or ends it, and finds the next inbox: the inbox
// whose token is first in the shared queue, or the next inbox with a token along
// the visit plan.
//
// Such a worker is never parked because an inbox is full. A shared pool does
// not take from an inbox while one ahead is full; see shared_pool.go.
//
// # Instances
//
// The knob Instances bounds how many workers are at the inbox with an instance.
// Instances that no worker uses are idle; see [pool.Instances]. The inbox does
// not know their type.
//
// # Accounts
//
// Every count changes in the same transition as the move that it counts. So at
// any instant, under the lock,
//
//	submitted + received = ok + forwarded + errors + shed + dead + queued + in hand + delayed
//
// holds for each inbox, and with it the accounting law of the whole pipeline;
// see package pipeline.
//
// # Transitions as conversations
//
// The files in testdata are conversations with an inbox: each action of a
// worker, a submitter or the pipeline, and all its effects. Begin with
// crash.txt, hand_over.txt and drain.txt. A change of the code that changes one
// of them changes a promise.
//
// # Where things are
//
// A file uses those before it in this list, with few exceptions, which a test
// in internal/layers counts:
//
//   - the components of an inbox: config.go, phase.go, waiting.go,
//     delayed.go, inbox.go, member.go, waiters.go
//   - state.go, all that the lock guards; effects.go, the actions that a
//     transition leaves to be done
//   - the commands here, and which of them a worker may take: available.go,
//     key_places.go, slots.go, shared_pool.go
//   - what workers did: book.go, batches.go, mishap.go
//   - commands that come and end: entry.go, lapsed.go, submit.go, handover.go
//   - the calls of workers and of the pipeline: the others
package inbox
