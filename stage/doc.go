// Package stage makes the stages of a pipeline: a stage is a bounded queue of
// commands, workers that run a behaviour on them, and the accounts of how each
// command ended.
//
// [New] makes a stage around one behaviour that all workers share. [Each] makes
// one with an instance for every worker that is at it. A stage runs once a
// pipeline is made of it; see package pipeline.
//
// [Map], [FlatMap], [Filter] and [Sink] make stages around plain functions with
// typed results:
//
//	parse := stage.Map("parse", parseLine)  // func(context.Context, string) (Record, error)
//	save := stage.Sink("save", store)       // func(context.Context, Record) error
//	p, err := pipeline.New("log", parse.To(save))
//
// [Flow.To] and [Flow.Route] say where the results go, [Chain] makes one flow
// of two. Behaviours are the general form: they decide for each command where
// it goes on, keep state, and handle batches.
//
// # What runs in parallel, and what is ordered
//
// A stage starts with GOMAXPROCS workers, and the pipeline's policy may give it
// up to four times as many; [Workers] sets both bounds. Each worker runs one
// handler at a time, so by default handlers of one stage run in parallel, and
// commands may overtake one another. With one worker they are handled and
// forwarded in the order in which the queue hands them out. A pipeline keeps
// the order of its commands from end to end if each of its stages has one
// worker.
//
// Which kind of stage a handler needs:
//
//	the handler …                                    use                              handlers at once
//	keeps no state, or state that is safe to share   Map and its like, Func or New    one for each worker
//	has buffers, a decoder, a connection of its own  Each                             one for each worker and instance
//	keeps state for each user, host, order …         Keyed                            one for each key, up to the workers;
//	                                                                                    commands of a key stay in order
//	updates a map, appends to a file, counts: needs  Func, New or Each,               one; commands stay in order
//	  every command, one at a time                     with Workers(1, 1)
//	may run in parallel, and its results must leave  any of them but Keyed,           one for each worker
//	  in the order of arrival                          with Ordered()
//	waits for a disk or a peer                       Func, New or Each, with          one for each worker
//	                                                   Blocking() and more Workers
//	waits for other stages, timers or many peers     Coroutine                        GOMAXPROCS, while up to
//	                                                                                    1024 others wait
//	is better at many commands than at one           New or Each with a Batcher,      one batch for each worker
//	                                                   and perhaps Linger
//
// # Ownership
//
// The queue belongs to the stage and outlives every worker. A crash of a worker
// loses no queued command: the command that crashed is charged with an attempt,
// and the others of its batch go back to the front of the queue.
//
// The instances of [Each] belong to the stage, too: a worker uses one while it
// is at the stage. At most [Instances] workers are at the stage at once, its
// own workers or workers of a pool that several stages share (pipeline.Group,
// and policies that send workers from stage to stage). The stage does not
// depend on which of the two.
//
// # Order
//
// Commands leave the queue first in, first out, or as the [Discipline] of the
// stage says; in a stage with [Fair], keys such as tenants take turns. With one worker, or one instance, they are handled and forwarded
// in that order; with more, as by default, they may overtake one another. A
// command that is tried again goes to the end of the queue. Commands that a
// crash gave back come before all others.
//
// The results of a stage with [Ordered] leave in the order of arrival, though
// its handlers run in parallel; retries and crashes keep their places. A
// [Keyed] stage keeps the order of each key, through retries and crashes too,
// while other keys are handled in parallel.
//
// # Back-pressure
//
// The queue of a stage holds [Capacity] commands, 1024 by default. Its
// [Overflow] rule says how a full stage treats one more command: by default
// submitters wait, and so do workers of the stages before it, up to the source.
// Waiting holds no goroutine but the submitter's own.
//
// No stage waits for a wire that closes a loop. A command that comes back that
// way is accepted beyond the capacity, because it is in the pipeline already,
// and the entries of the loop wait instead. So a loop cannot block itself. It
// holds no more than the capacities of its stages, the batches that workers
// hold with what they emit, and the commands that wait for a retry. A loop that
// fans out beyond memory needs a durable inlet of adapter/nats.
//
// Workers that several stages share never wait either, since a free slot may
// depend on them alone. Commands that they forward are accepted, and in return
// they take none from a stage while a stage after it is full. So such a queue
// holds no more than its capacity and a batch for each worker.
//
// [Overloaded] reports whether an error means that there is too much to do,
// with a hint when to try again.
//
// A stage with a [Rate], or a [RateBy] for each key, starts commands no faster
// than that. Commands that wait for the rate are in the queue, and hold no
// worker. So do commands that a [Guard] holds back until a condition holds.
//
// # Middleware
//
// [Middleware] puts functions around the handlers of a stage, and
// pipeline.Middleware around the handlers of all stages of a pipeline: for
// logging, tracing, metrics, authorisation. A [MiddlewareFunc] is called for
// each command, and for each batch of a [behaviour.Batcher].
//
// # Handlers that wait
//
// A handler that blocks holds its worker. The handler of a [Coroutine], or of a
// [behaviour.Suspending], suspends instead: it waits with its
// coroutine.Context, and the worker takes the next command. The suspended
// command stays in hand, and [Instances] bounds how many there are. Otherwise
// it is treated like any other command. The instances of a [Keyed] stage may
// suspend, too: their keys wait for them, and no other does. See
// docs/coordination.md.
//
// # The end of a command
//
// Every accepted command ends exactly once:
//
//   - replied: an OK outcome;
//   - failed: an Error outcome;
//   - shed: dropped by the overflow rule, expired in the queue, or forwarded to a stage that a policy has disabled;
//   - dead-lettered: its handler crashed as often as the command may be tried, or the pipeline stopped hard.
//
// Shed and dead-lettered commands leave letters. So do failed ones, unless a
// caller has both the command and the error. The pipeline keeps the letters,
// and calls the functions that are set for them, or logs them.
//
// # The caller's context
//
// A handler's context has the values of the context that its command was
// submitted with, and so have the contexts of all commands that it leads to.
// With [Stage.Ask] and [Call] the command also ends with that context: the
// context of a handler that runs ends, and a command that waits in a queue
// fails without being started. With [Stage.Submit] it continues. See
// docs/speed.md for the cost, and [TTL] and [ExpiresAt] for commands that are
// worth nothing after some time.
//
// # Actors
//
// A running stage is an ordinary protoactor process: any actor may send a
// command to its PID, see [Stage.PID].
//
// # Watching
//
// [Stage.Snapshot] reads the accounts of a stage; a pipeline's snapshot reads
// the accounts of all its stages at one instant. The cost for a command is
// small: counts under a lock that is held anyway, and one reading of the clock
// for a batch.
//
// # Testing
//
// A behaviour needs no stage to be tested. To test a stage, make a pipeline of
// it alone and use [Call].
package stage
