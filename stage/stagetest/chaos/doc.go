// Package chaos disturbs pipelines while they work, and draws random pipelines to disturb.
//
// # Your own pipeline
//
// [Disturb] does actions to a trial of package stagetest, again and again: it kills workers, the supervisors of stages, feeds and
// the control loop, changes the policy of the pipeline, rescales and pauses it. [Kill] kills one actor.
//
// # Random pipelines
//
// [Plans] draws, with rapid, a whole [Plan]: a graph, options, faults, the load, disturbances and an ending. [Plan.Run]
// runs it and returns what happened and which promises were broken. Golda tests itself in this way (make chaos). Run it,
// too, for a new policy or after a change of the engine.
//
// # Reproducibility
//
// A plan is a value: the same seed draws the same plan, and in it each command meets the same faults. The plan does not
// determine which goroutine is faster. So a plan that broke a promise once may have to be run a few times before it
// does so again.
//
// # Concurrency
//
// A plan looks for leaked goroutines, so no other test may run beside it.
//
// The package is in the top layer, like stagetest: it imports rapid and goleak, and it uses the engine's internals to find
// the actors that it kills.
package chaos
