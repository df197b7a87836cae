// Package room is the inside of a stage: its bounded queue, its accounts and
// who waits for what.
//
// A room belongs to its stage and outlives every actor: workers come, crash
// and go, the queue stays. One lock guards all of it and is held over no
// user's code; a worker takes it once for each batch, a submitter once for each
// command. No goroutine ever holds the locks of two rooms, except the
// [Snapshot] of a whole house, which takes them in order.
//
// # Who waits for whom
//
//   - Workers with nothing to do are parked in idle, last in first out. One is
//     woken when there is work and no other is already on its way; a worker
//     that leaves commands behind wakes the next.
//   - Workers of other rooms that found this one full are parked in blocked,
//     first come first served. When half of the room is free they are promised
//     seats and woken, so that nobody spins, no goroutine blocks, and nobody who
//     comes later takes their place.
//   - Submitters from outside wait in line for a seat of their own. If both
//     kinds wait they take turns.
//
// # Accounts
//
// Every change of a count happens in the same critical section as the move it
// counts. So at any instant, under the lock,
//
//	submitted + received = ok + forwarded + errors + shed + dead + queued + in hand + delayed
//
// holds for each room, and with it the law of the whole house (see pipeline).
package room
