// Package room is the inside of a stage: its bounded queue, its accounts and
// who waits for what; and the shared pools, workers that several inboxes share.
//
// An inbox belongs to its stage and outlives every actor: workers come, crash
// and go, the queue stays. One lock guards all of it and is held over no
// user's code, but that a change of discipline asks the keys of what waits; a worker
// takes it once for each batch, a submitter once for each command. No goroutine ever holds the locks of two inboxes, except the
// [Snapshot] of a whole house, which takes them in order of their places. A shared pool's lock
// is taken within an inbox's.
//
// # Who waits for whom
//
//   - Workers with nothing to do are parked in idle, last in first out. One is
//     woken when there is work and no other is already on its way; a worker
//     that leaves commands behind wakes the next. A queue that is soon done is left to
//     who is at work; see alone.go.
//   - Workers of other inboxes that found this one full, and cannot go on with commands for
//     other inboxes, are parked in blocked,
//     first come first served. When half of the inbox is free they are promised
//     seats and woken, so that nobody spins, no goroutine blocks, and nobody who
//     comes later takes their place.
//   - Submitters from outside wait in line for a seat of their own. If both
//     kinds wait they take turns.
//   - Workers of inboxes in use that have something for an inbox which is drained are held,
//     whether there are seats or not, until it is opened again; see drain.go.
//
// # Crews
//
// An inbox is visited by its own workers, or by those of a [SharedPool]. It gives the shared pool a
// token for each worker that would find something to do, and a shared pool with tokens has
// no idle worker. A worker of a shared pool comes with [SharedPool.Turn], which books its last batch,
// goes on with the visit or ends it, and finds the next room: the one whose token is first
// in the shared queue, or the next one with a token along the visit plan.
//
// Such a worker is never parked for want of room. A shared pool does not take from an inbox
// while one ahead is full (the inbox is stalled); that one tells when half of it is free.
//
// # Instances
//
// At most so many workers hold a seat in the inbox with an instance as its knobs allow.
// Instances that nobody uses are among the idle instances. The inbox does not know what they are.
//
// # Accounts
//
// Every change of a count happens in the same critical section as the move it
// counts. So at any instant, under the lock,
//
//	submitted + received = ok + forwarded + errors + shed + dead + queued + in hand + delayed
//
// holds for each inbox, and with it the law of the whole house (see pipeline).
package inbox
