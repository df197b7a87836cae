// Package simulator runs a model of a pipeline in virtual time. It answers how
// many processes and workers a load needs, how long commands take, and how a
// policy reacts when the load changes or processes are lost, before there is a
// machine: an hour of a thousand commands a second takes some seconds.
//
// A [Model] has stages with distributions of the times that their handlers
// take, edges, sources with a load, a policy, and perhaps a [Fleet] of
// processes behind a durable queue. [Run] returns a [Result]; [Fewest] finds
// the smallest number of processes with which the result is good.
//
// # Common to the simulator and a pipeline
//
// The policies come from package controller/policy. They are called through the
// same interface with the same snapshots, and [controller.Settle] limits their
// decisions to the bounds. An autoscaler has the law of package
// adapter/nats/fleet, [policy.Backlog.Wanted]. A command that is forwarded to a
// full stage keeps its worker, and workers and sources that wait for a stage
// take turns, as in the engine. Tests compare the simulator with pipelines that
// run, and with the closed forms of queueing theory.
//
// # Simplifications
//
// A handler takes a random time, and a command is a number. A worker takes one
// command after the other, the oldest or the newest first: there are no other
// disciplines, shared pools, rates of stages, retries and synchronizers. A
// policy that needs them is refused. Commands can be shed, or refused by the
// rate of a policy, but not with a Fleet. There are no batches either; without
// stage.Linger the engine's batches take a tenth of a millisecond. The server of a Fleet takes a
// constant time for a message, its network another one, and neither fails.
//
// # Purity
//
// Run starts no goroutine, reads no clock and holds no lock. Each source and
// each stage has a stream of random numbers of its own, so a run depends on the
// model alone: the same model gives the same result. Runs of several goroutines
// do not disturb each other.
//
// # Bounds
//
// Run takes memory for the commands that are in flight at once, for the points
// of the series, and for each process that was ever started. A model that is
// overloaded has more and more in flight; end the context of Run to give it up.
package simulator
