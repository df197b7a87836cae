// Package pool decides which workers are woken, what they work with, and where
// the workers of a shared pool go next.
//
// A [Set] is the workers of one stage, or of a shared pool: which of them are
// idle, which are on their way, and how many must leave. The lock of its owner
// guards it.
//
// The [Instances] of a stage are the values that handle its commands. They bound
// how many workers are at the stage at once.
//
// A [Pool] is a set of workers that several inboxes share. An inbox that has
// work gives the pool *tokens*, by its [Binding]; a pool with tokens has no
// idle worker. A worker takes a token, and makes a [Visit] at its inbox. In a
// pool with one queue the tokens are that queue. In a polled pool a token is a
// note in the binding, which a worker finds as it follows the visit plan.
//
// A pool has a lock of its own, and is called with no other lock. It calls no
// inbox: the type of the inboxes is a parameter of it, as is that of the workers. Functions that give it
// tokens, or take a worker away from it, wake the workers that are called,
// after the lock is released.
//
// # Eras
//
// An inbox counts the tokens that it gives under its own lock, and delivers
// them later. So deliveries may overtake one another. An inbox that takes its
// tokens back begins an era, and the tokens of older eras are void. The pool
// drops the void tokens that it has and the void tokens that are delivered
// late. The inbox refuses the void token that a worker brings.
package pool
