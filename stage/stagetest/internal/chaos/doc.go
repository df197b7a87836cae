// Package chaos tests Golda itself: it draws random pipelines, and disturbs
// them while they work.
//
// # Random pipelines
//
// [Plans] draws, with rapid, a whole [Plan]: a graph, options, faults, the
// load, disturbances and an ending. [Plan.Run] runs it and returns a
// report with the promises that were broken. Run it (make chaos) for a new policy
// and after a change of the engine.
//
// # Reproducibility
//
// A plan is a value: the same seed draws the same plan, and in it each command
// meets the same faults. The plan does not determine which goroutine is faster.
// So a plan that broke a promise once may have to be run a few times before it
// does so again.
//
// # Concurrency
//
// A plan looks for leaked goroutines, so no other test may run beside it.
//
// The package is in the top layer, like stagetest: it imports rapid and goleak.
package chaos
