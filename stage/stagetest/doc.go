// Package stagetest is a test kit for pipelines: faults that are put before your own
// behaviours, actors that are killed while they work, and an oracle that looks whether
// every promise was kept.
//
// # Your own pipeline
//
// [Inject] makes faults, with a seed; [Wrap], [WrapFunc] and [WrapFactory] put them before
// a behaviour. [Start] starts a pipeline, and when the test is over stops it and looks
// whether the accounts were balanced in every snapshot, whether it drained, and whether any
// goroutine is left. [Trial.Storm] kills workers, keepers and controllers meanwhile, has other
// policies run the pipeline, rescales and pauses it; [Trial.Await] sees to it that tickets are
// answered. A test that hangs fails at once, with which handler waits for which stage, and its pipeline is stopped hard.
// [Watch], [Balanced], [AtRest] and [Diagnose] are the parts of the oracle, to be used
// alone.
//
// # Random pipelines
//
// [Plans] draws, with rapid, a whole [Plan]: a graph, options, faults, the load, a storm of
// deeds and an ending. [Plan.Run] runs it and returns what happened, and the promises that
// were broken. It is how Golda tries itself (make chaos); whoever writes a policy or changes
// the engine runs it, too.
//
// # Step by step
//
// [Orders] runs a test in as many orders as it is told, the actors of its pipeline handling one
// message at a time; time stands still meanwhile. It is how an error is found, and found
// again, that shows when a worker is slower than another: the order that failed has a seed, and
// is told with as few steps out of line as do it.
//
// # What is the same in two runs
//
// A plan is a value: the same seed draws the same one, and in it each command meets the same
// faults. Which goroutine is faster is not in it. So a plan that broke a promise once may have
// to be run a few times before it does so again.
//
// # Concurrency
//
// A trial and a plan look for goroutines that are left, so no other test may run beside them.
//
// The kit stands on the top floor: it imports rapid and goleak, and it reaches into the
// engine to find its actors. A program that is not a test should not import it.
package stagetest
