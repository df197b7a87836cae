// Package line has the lines of a stage, in which commands wait, each in an
// order of its own.
//
// A [Line] is not safe for concurrent use. The inbox of the stage calls it with
// the inbox's lock held, and knows it by the interface only: [FIFO] is first
// in, first out, which becomes the line of a discipline of package queue and
// back with [Reorder]; [Keyed] has a lane for each key, with rates and bounds;
// [Fair] has lanes that take turns, each by its weight;
// [Sequenced] lets the results of its commands leave in the order of arrival;
// [Guarded] asks guards. A line starts no goroutine and reads no clock, but for
// guards: see there.
//
// A line calls no code of users with two exceptions. [Reorder] asks waiting
// commands for their ranks, and guards are evaluated in the step that gives a
// command out. Otherwise the inbox asks a command for its rank, by
// [Line.Ranker], before it takes the lock.
//
// A command is pushed with its rank, given out by [Line.PopInto], and then in
// the batch of a worker, whose [Part] the line has told by [Line.Give]. From
// there it ends, or is tried again later ([Line.Block], [Line.Unblock]), or
// returns unhandled ([Line.Return]) and keeps its turn.
package line

import (
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
)

// Line holds the commands that wait in one stage. [Base] has a part of the
// methods for lines that do not need them.
type Line interface {
	// Len returns how many commands wait.
	Len() int
	// Takeable returns how many of them a worker may take now: at most Len.
	Takeable() int
	// Droppable returns how many of them the stage may drop for others.
	Droppable() int
	// Singly reports whether a worker takes one command at a time: when it has
	// begun that, the line may say something else of the others.
	Singly() bool
	// Resize tells the line how many slots the stage has.
	Resize(capacity int)

	// Ranker returns the function that gives a command, as envelopes have it,
	// its rank; nil if the line needs none. It calls code of users, so the
	// inbox does not hold its lock.
	Ranker() func(load any) Rank
	// Push adds a command.
	Push(e command.Envelope, r Rank)
	// PushAll adds commands in order. Commands beyond the ranks have none.
	PushAll(es []command.Envelope, ranks []Rank)
	// PopInto gives out up to len(dst) of the commands that may be taken, and
	// returns how many. The line is told by Give which worker has them.
	PopInto(dst []command.Envelope) int
	// Return puts commands back that were given out and not handled. They keep
	// their turn.
	Return(es []command.Envelope, ranks []Rank)
	// Drop removes the command that has waited for longest, as far as the line
	// knows. One is droppable.
	Drop() command.Envelope
	// Oldest returns the command that Drop would remove, or one that comes out
	// next. The line is not empty. The pointer is valid until the next change.
	Oldest() *command.Envelope
	// At returns the command that comes out after i others; nil if that is not
	// known.
	At(i int) *command.Envelope
	// Count counts the commands that match.
	Count(match func(*command.Envelope) bool) int
	// Remove removes the commands that match, and returns them. It leaves
	// commands for which results wait. It asks about each once.
	Remove(match func(*command.Envelope) bool) []command.Envelope
	// Drain removes all commands, for none is given out any more.
	Drain() []command.Envelope

	Batches
	Retries
	Results

	// Complete gives the permit of a command back whose handler has ended.
	Complete(p Permit)
	// Reconsider has the line look again at commands that it holds back.
	Reconsider()
	// Held returns how many commands are held back by guards, as far as is
	// known.
	Held() int
	// Account adds what the line knows to the accounts of its stage.
	Account(now int64, a *Accounts)
}

// Batches are the calls by which a line learns of the workers' batches. Only
// Give and Succeed take nil for a [Part]: other calls are for workers that have
// been given one.
type Batches interface {
	// Knows reports whether the parts of workers know the ranks of their
	// commands; see [Part.Ranks]. Asks reports whether otherwise commands that
	// return must be asked for their ranks.
	Knows() bool
	Asks() bool
	// Give gives a worker what PopInto has taken last: the last commands of the
	// worker's batch of n. It returns the worker's part, a new one if it had
	// none and needs one.
	Give(p *Part, n int) *Part
	// Book takes over what a worker has noted in its part.
	Book(p *Part)
	// Free ends the worker's hold on commands that have ended: their results
	// have been handed over, or are lost.
	Free(p *Part)
	// Cancel books that no handler begins that has not begun: the rest of the
	// batch ends without, or comes back.
	Cancel(p *Part)
	// Keep books that commands have left the batch, whose order may have
	// changed.
	Keep(p *Part)
	// End books that no further result is made by the command before the last
	// ones of the batch; Lose that it is blocked until its next try, or waits
	// again.
	End(p *Part, last int)
	Lose(p *Part, last int)
	// Abandon books that no further result is made by the last n commands of a
	// batch, whose worker was given up.
	Abandon(p *Part, n int)
	// Succeed puts the part of another worker in the place of one.
	Succeed(from, to *Part)
}

// Retries are the calls by which a line learns of commands that wait for their
// next try.
type Retries interface {
	// Awaited reports whether later commands wait for one that waits for its
	// next try, so that it may neither be removed nor give up its slot.
	Awaited() bool
	// Block books that a command waits for its next try.
	Block(r Rank)
	// Unblock puts a command back whose next try is due; false: it is pushed as
	// any command.
	Unblock(e command.Envelope, r Rank) bool
	// Release books that commands have ended which were given out and would
	// have returned: the rest of a batch that ends, or commands that waited for
	// their next try.
	Release(ranks ...Rank)
}

// Results are the results of an ordered stage that have not left it.
type Results interface {
	// Leave appends the results that may leave. If there are any the worker is
	// the only one that gets some, until it has handed all of them over and
	// asks again.
	Leave(p *Part, into []Result) []Result
	// LeadsTo reports whether a result that has not left leads to an inlet.
	LeadsTo(to *behaviour.Inlet) bool
}

// Base has the methods that most lines do not need. They do nothing.
type Base struct{}

// Singly returns false.
func (Base) Singly() bool { return false }

// Resize does nothing.
func (Base) Resize(int) {}

// Ranker returns nil.
func (Base) Ranker() func(load any) Rank { return nil }

// Knows returns false.
func (Base) Knows() bool { return false }

// Asks returns false.
func (Base) Asks() bool { return false }

// Give returns the part.
func (Base) Give(p *Part, _ int) *Part { return p }

// Book does nothing.
func (Base) Book(*Part) {}

// Free does nothing.
func (Base) Free(*Part) {}

// Cancel does nothing.
func (Base) Cancel(*Part) {}

// Keep does nothing.
func (Base) Keep(*Part) {}

// End does nothing.
func (Base) End(*Part, int) {}

// Lose does nothing.
func (Base) Lose(*Part, int) {}

// Abandon does nothing.
func (Base) Abandon(*Part, int) {}

// Succeed does nothing.
func (Base) Succeed(_, _ *Part) {}

// Awaited returns false.
func (Base) Awaited() bool { return false }

// Block does nothing.
func (Base) Block(Rank) {}

// Unblock returns false.
func (Base) Unblock(command.Envelope, Rank) bool { return false }

// Release does nothing.
func (Base) Release(...Rank) {}

// Leave appends nothing.
func (Base) Leave(_ *Part, into []Result) []Result { return into }

// LeadsTo returns false.
func (Base) LeadsTo(*behaviour.Inlet) bool { return false }

// Complete does nothing.
func (Base) Complete(Permit) {}

// Reconsider does nothing.
func (Base) Reconsider() {}

// Held returns 0.
func (Base) Held() int { return 0 }

// Account does nothing.
func (Base) Account(int64, *Accounts) {}
