// Package queue says in which order a stage takes the commands that wait in its
// queue.
//
// A stage's queue is first in, first out, unless the stage has another
// [Discipline]. A discipline is a value that is passed to the stage. The zero
// value of each has its stated defaults.
//
//	queue.FIFO{}                    // the oldest
//	queue.LIFO{}                    // the newest
//	queue.AdaptiveLIFO{Above: 32}   // the oldest, but the newest while more than 32 wait
//	queue.Priority{}                // the most important, as the command says
//	queue.Deadline{}                // the most urgent, as the command says
//
// [ByName] finds a discipline by its name, for flags and configuration files.
//
// A command reports its priority by a method, see [Prioritized], and its
// deadline by another, see [Dated]. For commands that cannot have methods there
// are [PriorityOf] and [DeadlineOf].
//
// # Which
//
// First in, first out is fair, and right as long as the stage keeps up. The
// other disciplines choose which commands suffer when the stage does not keep
// up: with LIFO and AdaptiveLIFO the commands that have waited for long, so
// that their callers have perhaps given up; with Priority the least important
// commands; with Deadline the commands that have time. When there is more work
// than time, an order by deadline makes every command late, because it
// continues with commands that are already late. A discipline does not decide
// which commands to drop, and when: none ever loses a command, late or not.
// Each of them except FIFO can let a command wait for as long as others keep
// coming.
//
// # The line
//
// A [Line] is the queue of one stage. Its owner guards it: no line may be used
// by two goroutines at once. Pushing and popping take constant time, or with
// Priority and Deadline the logarithm of the length, and allocate nothing once
// the line has reached its greatest length. A line never refuses an item: its
// owner decides when it is full. It keeps no reference to items that it
// returned, and when it is short again after a burst it releases memory.
//
// A user's method or function is called once for each command, by the goroutine
// that calls [Keyed].Key before it pushes the command, and so without the
// owner's lock. It is called once more for each waiting command when the
// discipline changes ([Line.Switch]), perhaps with the lock held.
//
// # Testing
//
// Nothing here starts a goroutine, reads a clock or holds a lock. One suite
// compares every discipline with a simple model made of slices.
//
// # A new discipline in this package
//
// A new discipline needs a file with its source named at the top, an entry in
// [ByName], and an entry with its law in the test suite.
package queue
