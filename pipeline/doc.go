// Package pipeline is the front door: it takes stages, wires and options, checks
// them all at once, and runs them.
//
//	p, err := pipeline.New("images", load, gray, save, pipeline.Wire(done, save))
//	err = p.Run(ctx) // until ctx ends, then drains
//
// # Life
//
// A pipeline is made by [New], started by [Pipeline.Start], and ended by
// [Pipeline.Stop], which drains it first; [Pipeline.Run] does both. Stages start
// last room first, so that whoever forwards finds the next room ready, and stop
// in reverse. A pipeline runs once: what has stopped is not started again.
//
// # Failure
//
// A crash of a handler is the stage's affair: the command is charged, the worker
// starts afresh. A stage whose workers crash one after another, with nothing
// completed in between, gives up in the end and fails towards the pipeline. As
// the [Supervise] and [Intensity] options say, the pipeline restarts it, or gives
// up as well: then it stops hard, and Run returns an error that tells the
// whole story.
//
// # The law
//
// Every accepted command ends exactly once. [Pipeline.Snapshot] reads all accounts
// at one instant, and at any instant
//
//	Accepted = Replied + Failed + Shed + DeadLettered + InFlight
//
// where InFlight is counted from what is really there: queues, hands, retries,
// and what is on its way between two rooms.
//
// # Scaling
//
// A controller looks at all stages again and again and asks a policy, by default
// [policy.ERLDA], how many workers each should have. What it changes is kept in
// [Pipeline.Journal].
package pipeline
