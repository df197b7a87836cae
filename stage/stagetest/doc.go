// Package stagetest is a test kit for pipelines. It runs a pipeline in a test,
// injects faults, checks whether the pipeline keeps Golda's promises, and runs
// a test in many orders.
//
// # Your own pipeline
//
// [Run] starts a pipeline in a test, in real or virtual time, as a [Trial] that
// is stopped and checked when the test is over. [Ended] compares how a stage's
// commands have ended, [Fill] makes a stage full, and [Crowd] makes handlers
// overlap.
//
// [Inject] makes faults from a seed; [Injector.Middleware] puts them before the
// handlers of a stage, and [Wrap] before a behaviour. When the test is over,
// the trial stops the pipeline and checks that the accounts were balanced in
// every snapshot, that the pipeline drained, that nothing crashed except by
// injected faults, and that no goroutine is left; [Trial.Await] checks that
// tickets are answered. A test that hangs fails at once with a report of which
// handler waits for which stage, and its pipeline is stopped hard. [Watch],
// [AtRest] and [Diagnose] are the checks by themselves.
//
// [Trial.Disturb] disturbs a trial while it works: it kills workers and other
// actors, changes the policy, rescales and pauses.
//
// # Step by step
//
// [Orders] runs a test in a given number of orders. The actors of its pipeline
// handle one message at a time, and time stands still meanwhile. It finds, and
// finds again, errors that appear only when one worker is slower than another:
// the order that failed has a seed, and is reported with as few steps out of
// line as are needed.
//
// # Concurrency
//
// A trial looks for leaked goroutines, so no other test may run beside it.
//
// The kit is in the top layer: it imports goleak, and it uses the engine's
// internals to find its actors. A program that is not a test should not import
// it.
package stagetest
