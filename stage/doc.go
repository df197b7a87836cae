// Package stage is the inbox of a pipeline: a bounded queue of commands, workers
// that run a behaviour on them, and the accounts of what became of each.
//
// A stage is made with [New], around one behaviour that all workers share, or
// with [Each], which has an instance for every worker that is at it. It runs once a
// pipeline is made of it; see package pipeline.
//
// # What runs in parallel, and what is ordered
//
// A stage has GOMAXPROCS workers from the start, and up to four times as many as the pipeline's policy sees
// fit; [Workers] sets both bounds. Each worker runs one handler at a time, so by default handlers of one stage
// run in parallel, and commands may overtake one another. With one worker they are handled and forwarded in
// the order in which the queue gives them out. A pipeline keeps the order of its commands from end to end if each of its
// stages has one worker.
//
// Which kind of stage a handler needs:
//
//	the handler …                                    use                              handlers at once
//	keeps no state, or state that is safe to share   Func or New                      one for each worker
//	has buffers, a decoder, a connection of its own  Each                             one for each worker and instance
//	updates a map, appends to a file, counts: needs  Func, New or Each,               one; commands stay in order
//	  every command, one at a time                     with Workers(1, 1)
//	waits for a disk or a peer                       Func, New or Each, with          one for each worker
//	                                                   Blocking() and more Workers
//	waits for other stages, timers or many peers     Coroutine                        GOMAXPROCS, while up to
//	                                                                                    1024 others wait
//	is better at many commands than at one           New or Each with a Batcher,      one batch for each worker
//	                                                   and perhaps Linger
//
// # Ownership
//
// The queue belongs to the stage and outlives every worker. A crash of a
// worker loses no queued command: the one in hand is charged, the others of its
// batch go back to the front of the queue.
//
// So do the instances of [Each]: a worker uses one while it is at the stage. At most
// [Instances] workers are here at once, whoever they are: the stage's own, or those of
// a pool that several stages share (pipeline.Group, and policies that have workers go
// from stage to stage). The stage does not know which, and need not.
//
// # Order
//
// Commands leave the queue first in, first out, or as its [Discipline] says. With
// one worker, or one instance, they are handled and forwarded in that order; with more, as by default,
// they may overtake one another. A command that is tried again goes to the end of the
// queue; what a crash gave back comes before all others.
//
// # Back-pressure
//
// A stage has room for [Capacity] commands, 1024 by default. What a full stage
// does is its [Overflow] rule: by default submitters wait, and so do workers of
// the stages before it, up to the source. Waiting holds no goroutine but the
// submitter's own. A wire that closes a loop is never waited for: what comes
// back that way is let in beyond the capacity, because it is in the pipeline
// already, and the entries of the loop are kept waiting instead. So a loop
// cannot block itself, and holds no more than its stages' capacities, the batches
// in hand with what they emit, and the commands that wait for a retry.
//
// Workers that several stages share never wait, since they may be the only ones who
// could make room: what they hand over is let in, and in return they take nothing from
// a stage while one ahead of it is full. So such a queue holds no more than its capacity
// and a batch for each worker.
//
// [Overloaded] is the one question whether an error means that there is too much to do, with a hint when to try again.
//
// # Handlers that wait
//
// A handler that blocks holds its worker. One of a [Coroutine], or of a [behaviour.Suspending], suspends
// instead: it waits with its coroutine.Context, and the worker takes the next command. Its own
// command is in hand meanwhile, and bounded by [Instances]; whatever happens to it is what happens to
// any other. See docs/coordination.md.
//
// # The end of a command
//
// Every accepted command ends exactly once: replied (an OK outcome), failed (an
// Error outcome), shed (dropped by the overflow rule, expired in the queue, or forwarded
// to a stage that a policy has disabled) or dead-lettered (its
// handler crashed as often as it may be tried, or the pipeline stopped hard).
// Shed and dead-lettered commands, and failed ones of which nobody else has both the command and the error, leave
// letters: the pipeline keeps them, and calls the functions that are set for them, or logs them.
//
// # The caller's context
//
// A handler's context has the values of the context that its command was submitted with, and so have those of all commands
// that come of it. With [Stage.Ask] and [Call] the command also ends with that context: a handler's context ends, and what
// waits in a queue fails without being begun. With [Stage.Submit] it goes on. See docs/speed.md for what that costs, and
// [TTL] and [ExpiresAt] for commands that are worth nothing after some time.
//
// # Actors
//
// A running stage is an ordinary protoactor process: any actor may send it a
// command by its PID, see [Stage.PID].
//
// # Watching
//
// [Stage.Snapshot] reads the accounts; a pipeline's snapshot reads those of all
// its stages at one instant. Nothing is measured on a command's way but what a
// batch costs anyway: counts under a lock that is held already, and one
// reading of the clock.
//
// # Testing
//
// A behaviour needs no stage to be tested. To test a stage, make a pipeline of
// it alone and use [Call].
package stage
