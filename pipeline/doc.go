// Package pipeline makes a pipeline of stages, wires and options: it checks all
// of them at once, runs them, and stops them.
//
//	p, err := pipeline.New("images", load, gray, save, pipeline.Wire(done, save))
//	err = p.Run(ctx) // until ctx ends or all feeds are exhausted, then drains
//
// # Life cycle
//
// [New] makes a pipeline, [Pipeline.Start] starts it, and [Pipeline.Stop]
// drains and stops it. [Pipeline.Run] does both, and [Pipeline.RunUntilSignal]
// stops at SIGTERM. The last stage starts first, so that a stage that forwards
// finds the next stage ready, and stops last. A pipeline runs once: it cannot
// be started again after it has stopped.
//
// [Pipeline.Started] is closed when all stages take commands, and
// [Pipeline.Done] when the pipeline has stopped. Then [Pipeline.Ending] says
// what ended it: the program, a signal, or a failure.
//
// A source that must stop before its pipeline, such as an HTTP server, starts
// when Started is closed. At the end it stops first, while the pipeline still
// completes the commands that the source waits for; Stop is called after it.
// Such a program calls Run in a goroutine, with a context that the signal does
// not end, instead of RunUntilSignal. The server stops also when Done is
// closed, because the pipeline may give up. stagehttp.Serve of adapter/http
// does this for an http.Server.
//
// # Feeds
//
// [Feed] makes a source a part of the pipeline. It submits commands to a stage
// from the start until it is exhausted, and is restarted when it fails. Run
// returns when all feeds are exhausted and their commands have ended;
// [Pipeline.Ending] is Exhausted then. Sources stop before the pipeline drains.
//
// # Failure
//
// A crash of a handler stays within the stage: the command counts as crashed,
// and the worker starts afresh. A stage whose workers crash one after another
// without completing a command in between fails in the end, and the pipeline
// decides. As the options [Supervise] and [Intensity] say, it restarts the
// stage, or gives up: then it stops hard, and Run returns an error that reports
// the crashes.
//
// # The accounting law
//
// Every accepted command ends exactly once. [Pipeline.Snapshot] reads all
// accounts at one instant, and at any instant
//
//	Accepted = Replied + Failed + Shed + DeadLettered + InFlight
//
// where InFlight counts the commands that are really there: in queues, in hand,
// waiting for a retry, and between two stages.
//
// # Policies
//
// A policy, by default [policy.Backlog], is shown all stages again and again
// and decides how they run: how many workers each has, or that several stages
// share workers, and in which order those go from stage to stage.
// [Pipeline.SetPolicy] replaces the policy while the pipeline runs.
// [Pipeline.Journal] has the changes that policies made.
//
// [Group] makes stages share a pool of workers whatever the policy. A handler
// must not block a worker that several stages share: see [stage.Blocking].
//
// # Changing a pipeline that runs
//
// [Pipeline.Pause] stops workers from taking commands from a stage's queue, and
// [Pipeline.Resume] lets them. [Pipeline.Drain] empties stages, and keeps them
// empty until [Pipeline.Reopen]; the stages before them wait. [Pipeline.Add]
// adds stages, [Pipeline.Rewire] has ports and flows lead elsewhere, and
// [Pipeline.Remove] removes a stage.
//
// # Contexts
//
// A context must not be nil. A function of this package, or of packages stage
// and supervisor, that is given a nil context panics at once with a message
// that names the call, and has no other effect: a nil context is a mistake of
// the calling program, and no command ends because of it. Use
// [context.Background] if there is no other context.
//
// # Parts
//
// [Subgraph] makes one part of several, so that a function can return a
// sub-graph. The four steps of PCAM, LEDA's method, are the stages (partition),
// the wires (communication), the groups (agglomeration) and [Assign] (mapping).
//
// # Several processes
//
// With [RunsHere] a process runs only what [Assign] gives it, and a [remote.Carrier]
// takes the commands for the other stages to the processes that run them.
// Without it one process runs all stages. Behaviours do not know where they
// run: location is in the parts that New is given.
package pipeline
