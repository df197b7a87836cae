// Package worker is the hand of a stage: actors that take commands from the
// stage's queue, run its behaviour on them and pass on what comes of it.
//
// A worker is a supervised protoactor actor. Its user mailbox is the queue of
// its stage, shared with the other workers, so the length of the mailbox is the
// length of the queue, and a command that is not yet in a hand belongs to no
// worker and cannot be lost with one. System messages come before commands.
//
// Before its first command a stage may have workers that are only counted: they doze, and the
// stage's keeper makes slot and actor of one when the inbox calls. See [inbox.Inbox.AddUnstarted].
//
// A worker is a stage's own, or one of a shared pool that goes from stage to stage; then its
// mailbox is the queues of all of them. It is lent an instance of the stage where it is,
// and what it hands over is let in everywhere: see package room.
//
// # One batch
//
// A worker takes the lock of its stage's room once for a batch: it books the
// last batch and takes the next. The batch is at most the stage's batch size,
// a fair share of the queue, and as many commands as take about 100 µs, so that
// slow commands are taken one at a time. A stage that lingers takes as many as its batch
// size says. What is forwarded is gathered for each
// target and handed over at the end of the batch. If a target is full, a worker of the
// stage's own parks until half of it is free; no goroutine waits meanwhile.
//
// # Crashes
//
// The worker holds the recover of handlers. A panic in a handler, and a
// runtime.Goexit too, is charged to the command in hand (if a handler of many
// crashed, to none: all go back, in smaller ones, until the culprit is alone); the rest of the batch
// goes back to the front of the queue in order; what the commands before it
// forwarded is handed over. Then the worker fails towards its stage, which
// stops the actor and starts a new one with a fresh instance. The [Worker] value
// is the slot that outlives its actors, so what the last one left behind is
// known to the next.
//
// # A hard stop
//
// When its room is halted a worker finishes the command in hand and begins no other. If it does not within the grace it is
// abandoned: see [Forsake].
//
// # Handlers that suspend
//
// Of a stage whose handlers may suspend each command is a [Run], on a coroutine of the stage's. When it
// suspends it is suspended; when it is woken the inbox gives it out again, to any worker, which puts
// the command back into its hand as it was and goes on with it. A crash on the coroutine is noted there, and thrown
// again by the worker in whose hand the command is. The one word that says whether a worker was given up
// says so, too, whether a run was suspended in time. Workers at such a stage are not abandoned: what
// they have suspended has an end of its own.
//
// This package is for the stages of this house; users meet it in a [CrashError].
package worker
