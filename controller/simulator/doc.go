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
// Each stage of a process is an inbox of the engine, internal/inbox, with its
// lines, pools and gates: queues and disciplines, keys and fair shares, full
// stages and the workers that wait for them, batches, retries, rates, limits,
// shared pools and visit plans are the same functions that a pipeline runs, in
// virtual time. The simulator has no law of its own for any of them, and a test
// of imports holds that. The policies come from package controller/policy. They
// are called through the same interface with the same snapshots, and
// [controller.Settle] limits their decisions to the bounds. An autoscaler has
// the law of package adapter/nats/fleet, [policy.Backlog.Wanted]. Tests compare
// the simulator with pipelines that run, and with the closed forms of queueing
// theory.
//
// # Simplifications
//
// A handler takes a random time, and a command is a number. A worker has no
// goroutine: the calls by which it takes turns and hands over are written here
// once more, after package worker. Nothing takes time but handlers, so there is
// no cost of a hop, of a switch between stages or of a decision. Handlers do
// not crash or suspend. There are no ordered stages, guards and synchronizers,
// and a policy that changes the enabled knob or the quality is refused. The
// server of a Fleet takes a constant time for a message, its network another
// one, and neither fails.
//
// # Purity
//
// Run starts no goroutine, and no clock has an influence on it. The locks of
// the inboxes are never contended. Each source and each stage has a stream of
// random numbers of its own, so a run depends on the model alone: the same
// model gives the same result. Runs of several goroutines do not disturb each
// other.
//
// # Bounds
//
// Run takes memory for the commands that are in flight at once, for the points
// of the series, and for each process that was ever started. A model that is
// overloaded has more and more in flight; end the context of Run to give it up.
package simulator
