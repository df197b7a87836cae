// Package stagetest is a test kit for pipelines. It injects faults into your behaviours, kills actors while they work,
// and has an oracle that checks whether every promise was kept.
//
// # Your own pipeline
//
// [Inject] makes faults from a seed; [Wrap], [WrapFunc] and [WrapFactory] put them before a behaviour. [Start] starts a
// pipeline. When the test is over, it stops the pipeline and checks that the accounts were balanced in every snapshot,
// that the pipeline drained, and that no goroutine is left. Meanwhile [Trial.Storm] kills workers, the supervisors of
// stages and the control loop, changes the policy of the pipeline, rescales and pauses it; [Trial.Await] checks that
// tickets are answered. A test that hangs fails at once with a report of which handler waits for which stage, and its
// pipeline is stopped hard. [Watch], [Balanced], [AtRest] and [Diagnose] are the parts of the oracle, to be used alone.
//
// # Random pipelines
//
// [Plans] draws, with rapid, a whole [Plan]: a graph, options, faults, the load, a storm of actions and an ending. [Plan.Run] runs it and returns what happened and which promises were broken. Golda tests itself in this way (make chaos). Run it, too, for a new policy or after a change of the engine.
//
// # Step by step
//
// [Orders] runs a test in a given number of orders. The actors of its pipeline handle one message at a time, and time
// stands still meanwhile. It finds, and finds again, errors that appear only when one worker is slower than another:
// the order that failed has a seed, and is reported with as few steps out of line as are needed.
//
// # Reproducibility
//
// A plan is a value: the same seed draws the same plan, and in it each command meets the same faults. The plan does not
// determine which goroutine is faster. So a plan that broke a promise once may have to be run a few times before it
// does so again.
//
// # Concurrency
//
// A trial and a plan look for leaked goroutines, so no other test may run beside them.
//
// The kit is the top layer: it imports rapid and goleak, and it uses the engine's internals to find its actors. A
// program that is not a test should not import it.
package stagetest
