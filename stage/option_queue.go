package stage

import (
	"time"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
)

const (
	defaultCapacity = 1024 // commands in a stage's queue
	defaultBatch    = 256  // the most commands that a worker takes at once
)

// Capacity sets how many commands the queue holds. The default is 1024.
func Capacity(n int) Option {
	return once("Capacity", func(s *settings) { s.engine.Inbox.Capacity = n })
}

// KeyCapacity sets how many slots of a [Keyed] stage, or of one with [Fair], the
// commands of one key may hold, so that a key whose commands come faster than they are handled
// leaves slots to the others. The default is a quarter of the [Capacity], at
// least 1; the Capacity itself is no bound. For a command of a key that holds
// as many, the stage is full, and its [Overflow] rule decides: the command
// waits until the key has a free slot, or is refused with an [ErrFull] that
// names the bound, or it is dropped, or the oldest of its key is. Other keys go
// on. Commands without a key have no such bound.
//
// So a key holds up no other whose commands come from other callers, feeds or
// stages. A feed, and a caller that submits one command after the other, waits
// at the first command of a full key, with all behind it. A worker of another
// stage that has such commands hands over its commands for other keys first,
// and waits with the rest. If most of its commands are of one key, all workers
// of that stage soon wait, and its queue, which knows no keys, fills with
// commands of that key: the other keys wait there. Where that must not be, let
// the full stage refuse or drop (Overflow), or submit to the keyed stage by a
// feed for each group of keys. A larger KeyCapacity only takes up larger
// bursts.
//
// Retries keep their slots, and commands on an edge that closes a loop are
// accepted beyond the bound, as it is beyond the Capacity.
//
// With [pipeline.RunsHere] the bound holds in the process that runs the stage.
// Where commands are sent from, the stage's queue has no bound for a key, nor
// has the carrier: it feeds one command of a key at a time.
//
// [pipeline.RunsHere]:
// https://pkg.go.dev/github.com/golda-dev/golda/pipeline#RunsHere
func KeyCapacity(n int) Option {
	return func(s *settings) { s.engine.Inbox.KeyCapacity, s.boundsKeys = n, true }
}

// Overflow sets what the stage does when it is full. The default is
// [overflow.Wait].
func Overflow(rule overflow.Rule) Option {
	return once("Overflow", func(s *settings) { s.engine.Inbox.Overflow = inbox.Overflow(rule) })
}

// Discipline sets the order in which the queue hands its commands out. The
// default is first in, first out. See package stage/queue.
func Discipline(d queue.Discipline) Option {
	return once("Discipline", func(s *settings) { s.engine.Inbox.Discipline, s.disciplined = d, true })
}

// Ordered makes the results of a stage leave it in the order in which its
// commands arrived in its queue, although several workers handle them in
// parallel. Results are the commands that handlers forward and emit, to each of
// the next stages. A slow command holds back the results of later ones, and not
// their handling.
//
// A command keeps its place until it has ended at the stage. While it is
// suspended, or waits to be tried again after a crash or an error, it holds
// back the results of later commands. A command that ends with an error,
// expires, or is lost holds back none.
//
// The results that wait are bounded. When as many wait as the stage has slots
// ([Capacity]), not counting results of commands that workers have or that are
// suspended, the stage starts no further command until some have left. Its
// queue fills up, and the stages before it wait. Commands that a handler emits
// wait for the handler's end, and have no bound.
//
// Order is for results only. A caller gets its answer at once, however earlier
// commands end, and a stage that a handler submits to gets its command at once.
// A handler must not wait for a command that a later command of its stage
// forwards: that one waits for the handler.
//
// The order of the queue is fixed: a stage with Ordered takes no [Discipline],
// and policies do not change its order. A [Keyed] stage cannot have Ordered; it
// keeps the order of each key. A full stage with [overflow.DropOldest] drops no
// command that was started before and has come back.
func Ordered() Option { return func(s *settings) { s.engine.Inbox.Ordered = true } }

// Batch sets the most commands that a worker takes at once. The default is 256.
//
// Below that maximum the stage chooses the size by itself: as many commands as
// take 100 µs, and no more than a fair share of the queue, or than its
// capacity. What the commands of a batch forward leaves the worker when the
// batch is done. Batch(1) is for handlers that sometimes take very long, or
// that wait for what earlier commands forwarded: with larger batches all other
// commands of the batch, those before it too, would wait for that one.
//
// With more than 1, a worker of a stage that forwards to several stages
// continues when one of those is full. It keeps the commands for that stage, up
// to the [Capacity] of its own stage.
func Batch(n int) Option { return once("Batch", func(s *settings) { s.engine.Inbox.Batch = n }) }

// Linger makes a batch that is not full wait for more commands, until its first
// command has waited for d, which is at most a day. It is for a
// [behaviour.Batcher] that is so much better at many commands that the wait
// pays, such as an insertion of many rows. A stage that lingers takes as many
// commands at once as [Batch] says, however long they take. The default is not
// to wait.
//
// A stage without a Batcher may linger, too, and so may one for which a policy
// says so: its commands wait, are handled one after the other, and what they
// forward leaves together, as in any batch. For a single stage that is a delay
// only. It helps where the next stage has a Batcher.
func Linger(d time.Duration) Option {
	return once("Linger", func(s *settings) { s.engine.Inbox.Linger = d })
}
