// Package engine is a stage without its command type: its inbox, its pool of
// workers, the supervisor of the pool, and the versions of its behaviour.
// Package stage wraps a [Core] in types and options for users; package pipeline
// checks, starts, scales and stops it.
//
// # Pools and their supervisors
//
// A [Pool] is a set of workers, with a number of workers that is wanted. Each
// stage has its own; a shared pool serves several stages, and the own pools of
// those have no workers meanwhile.
//
// A poolSupervisor, an actor, supervises the workers of one pool. It starts and
// stops workers until there are as many as are wanted, replaces a worker that
// crashed, at once or after a pause, and gives up after too many crashes in a
// row. All that it does happens in its own goroutine, one message at a time. It
// is a child in a tree of package supervisor.
//
// A worker object outlives its actor: a pool keeps one for each slot, so that
// commands that a worker still held when its actor ended are handed over by the
// next actor in that slot.
package engine
