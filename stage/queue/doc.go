// Package queue says in which order the commands that wait at a stage come out.
//
// A stage's queue is first in, first out, unless the stage is given another
// [Discipline]. That is a value: write it down and hand it to the stage. The zero
// value of each has its stated defaults.
//
//	queue.FIFO{}                    // the one that came first
//	queue.LIFO{}                    // the one that came last
//	queue.AdaptiveLIFO{Above: 32}   // the first, but the last while more than 32 wait
//	queue.Priority{}                // the most important, as the command says
//	queue.Deadline{}                // the most urgent, as the command says
//
// [ByName] finds a discipline by its name, for flags and configuration files.
//
// A command says how important it is by a method, [Prioritized], and by when it is
// to be done by another, [Dated]. For commands that cannot have methods there are
// [PriorityOf] and [DeadlineOf].
//
// # Which
//
// First in, first out is fair, and right as long as the stage keeps up. The others
// choose who is to suffer when it does not: with LIFO and AdaptiveLIFO those who have
// waited for long, and have perhaps given up; with Priority what matters least; with
// Deadline what has time, until there is more to do than time, and then everybody:
// an order by deadline alone goes on with what is late already. What is to be let go, and
// when, is no affair of a discipline: none ever loses a command, late or not, and any of
// them but FIFO can let one wait for as long as others keep coming.
//
// # The line
//
// A [Line] is the queue of one stage. Its owner guards it; nothing here may be used
// by two goroutines at once. Pushing and popping take constant time, or with Priority and
// Deadline the logarithm of the length, and allocate nothing once the line is as long as
// it gets. A line never refuses: its owner decides when it is full. It keeps nothing of
// what it gave out, and when it is short again after a burst it lets go of the room.
//
// A user's method or function is called once for each command, by whoever calls
// [Keyed].Key before the command is pushed, and so without the owner's lock; and once
// more for what waits when the discipline changes ([Line.Switch]), perhaps with it.
//
// # Testing
//
// Nothing here starts a goroutine, reads a clock or holds a lock. One suite
// compares every discipline with a slice that does the same in a plain way.
//
// # A new discipline here
//
// A file with its source named at the top, a line in [ByName], and a line with its law in
// the suite.
package queue
