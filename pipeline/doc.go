// Package pipeline is the front door: it takes stages, wires and options, checks
// them all at once, and runs them.
//
//	p, err := pipeline.New("images", load, gray, save, pipeline.Wire(done, save))
//	err = p.Run(ctx) // until ctx ends, then drains
//
// # Life
//
// A pipeline is made by [New], started by [Pipeline.Start], and ended by
// [Pipeline.Stop], which drains it first; [Pipeline.Run] does both, and
// [Pipeline.RunUntilSignal] until SIGTERM. Stages start
// last room first, so that whoever forwards finds the next room ready, and stop
// in reverse. A pipeline runs once: what has stopped is not started again.
//
// [Pipeline.Started] is closed when all stages take commands, and [Pipeline.Done] when the pipeline has stopped. Then
// [Pipeline.Ending] says what ended it: the program ([Finished]), a signal ([Interrupted]) or a failure ([GaveUp]).
//
// A source that must stop before its pipeline, such as an HTTP server, begins when Started is closed. At the end it stops
// first, while the pipeline still completes what the source waits for; Stop is called after it. Such a program calls Run in a
// goroutine, with a context that the signal does not end, instead of RunUntilSignal. The server stops as well when Done is closed,
// because the pipeline may give up. The program examples/ingest shows this.
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
// and what is on its way between two inboxes.
//
// # Who runs the stages
//
// A policy, by default [policy.Backlog], is shown all stages again and again and says how
// they should be run: how many workers each has, or that several share workers and in
// which order those go from stage to stage. [Pipeline.Use] has another policy take over
// while the pipeline runs. What a policy changes is kept in [Pipeline.Journal].
//
// [Group] has stages share a pool of workers whatever the policy. A worker that several
// stages share must not be kept waiting by a handler: see [stage.Blocking].
//
// # Stages that come and go
//
// [Pipeline.Pause] and [Pipeline.Resume] stop and start the taking of commands from one
// stage's queue. [Pipeline.Drain] empties stages, and keeps them so until [Pipeline.Reopen]; those before
// them wait. [Pipeline.Add] and [Pipeline.Remove] change which stages there are.
//
// # Contexts
//
// A context must not be nil: what is given one panics at once, here and in packages stage and
// supervisor, says which call it was, and has done nothing. It is a mistake in the program
// that calls, and no command's fate. Who has none gives [context.Background].
//
// # Parts
//
// [Join] makes several parts one, so that a function can return a sub-graph. The four
// steps of PCAM, LEDA's method, are the stages (partition), the wires (communication),
// the groups (agglomeration) and [Map] (mapping), which is checked and drawn and not yet
// followed: one process runs all.
package pipeline
