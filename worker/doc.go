// Package worker runs handlers. A worker is a supervised actor that takes
// batches of commands from the inbox of its stage, runs the stage's behaviour
// on them, and hands over what the handlers forward and emit.
//
// Users of Golda meet this package in a [CrashError] only; the other exported
// names are for the stages of this module. The life of the instances that
// workers use is in internal/version.
//
// # Queue and batch
//
// The mailbox of a worker's actor is the queue of its stage, which all workers
// of the stage share. So the length of the mailbox is the length of the queue,
// and a command that is in no worker's batch cannot be lost with a worker.
// System messages come before commands.
//
// A worker takes the lock of its inbox once for a batch: it books the last
// batch and takes the next. A batch is at most the stage's batch size, a fair
// share of the queue, and as many commands as take about 100 µs, so slow
// commands are taken one at a time. A stage that lingers takes as many as its
// batch size says. The commands that handlers forward are gathered in an outbox
// for each target, and handed over at the end of the batch. If a target is
// full, a worker of the stage's own parks until half of the target's slots are
// free; it blocks no goroutine meanwhile.
//
// A worker belongs to a stage, or to a shared pool that serves several stages;
// then its mailbox is all their queues. At each stage it is lent an instance of
// that stage. Its commands are always accepted, so that it never waits for a
// slot: see package inbox.
//
// Before its first command a stage may have workers that are only counted, and
// are started lazily: the stage's supervisor makes the worker and its actor
// when the inbox calls. See [inbox.Workers.AddUnstarted].
//
// # Crashes
//
// The worker recovers from panics of handlers, and from runtime.Goexit. The
// command that was being handled is charged with the crash. If a handler of
// whole batches crashed, no command is charged at first: all go back in smaller
// batches, until the culprit is alone. The rest of the batch returns to the
// front of the queue, in order. What the commands before the crash forwarded is
// handed over, as far as its targets have free slots. Then the worker fails
// towards its stage's supervisor, which stops the actor and starts a new one
// with a fresh instance, at once or after a pause.
//
// The [Worker] value outlives its actors. What a full target has not taken
// stays in its outboxes: those commands are booked as forwarded and are in
// flight, but hold no slot. The worker counts as one that has an instance in
// use, so that its stage is not taken for empty, and it is not dismissed. The
// next actor hands the commands over before its first turn, and parks at the
// targets that are still full.
//
// # Giving up
//
// A goroutine cannot be ended from outside. A worker whose handler does not
// return is given up instead: because the handler ran past its time limit and
// its grace, or because it was still busy at the end of a hard stop. See
// fate.go for both.
//
// # Handlers that suspend
//
// At a stage whose handlers may suspend, each command is a [Run] on a coroutine
// of the stage. When a run suspends, its worker takes the next command. When it
// is woken, the inbox gives it out again to any worker of the stage, which puts
// the command back into its batch as it was and resumes the run. A crash on the
// coroutine is recorded in the run, and thrown again by the worker that has the
// command in its batch. A hard stop does not give up workers at such a stage;
// it ends the runs instead.
//
// # Where things are
//
// A file uses those before it in this list, with few exceptions, which a test
// in internal/layers counts:
//
//   - what the workers of a stage have in common: stage.go, hang.go
//   - the parts of a worker: fate.go, emit_wait.go, watchdog.go (the time limit), outbox.go, outgoing.go, emits.go,
//     in_order.go, progress.go; worker.go has the struct, instance.go the instance that it uses
//   - commands that leave it: deliver.go, emit.go
//   - handlers, whose contexts are in internal/handling: begin.go, settle.go; run.go (on a coroutine)
//   - executors, one for each form of handlers: executors.go, suspension.go
//   - its actor, crashes and stuck handlers: actor.go, crash.go, stuck.go, abandon.go
//   - turns and batches: loop.go
package worker
