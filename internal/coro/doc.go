// Package coro runs functions that can be set aside and gone on with: stackful,
// asymmetric coroutines on top of [iter.Pull].
//
// A [Host] runs tasks. A [Task] is one run of one function on a coroutine; it goes on
// until the function returns or suspends itself. Whoever called [Host.Start] or
// [Host.Resume] is blocked meanwhile, as by a function call, and then free for the next task.
//
//	h := coro.New(coro.Config{Ready: queue.put})
//	h.Start(ctx, cmd, run)     // runs until it suspends or ends
//	for t := range queue {     // those that have been woken, by any goroutine
//		h.Resume(t)
//	}
//	h.Close()                  // unwinds all that are suspended
//
// # Ownership
//
// Coroutines belong to the host that made them. It keeps some that are idle, so that a
// task seldom pays for a stack of its own. There is no pool for all hosts: a coroutine
// belongs to the synctest bubble, and may be bound to the OS thread, of whoever made it.
// A Task belongs to one run and is never used again, so a wake-up that comes too
// late, or a handler's context that was kept, finds it ended.
//
// # Order and concurrency
//
// Every method may be called by any goroutine. A task is run by one at a time, not
// always by the same; several tasks of a host run at once only if several goroutines
// run them. A host that one goroutine serves thus gives its tasks exclusive
// state between two suspensions.
//
// A task is woken through its [Waker], once for each suspension, from any goroutine, even
// before it has been set aside. The host then gives it to [Config.Ready]: by the
// goroutine that woke it, or, if that came before the task was set aside, by the one that
// ran it. What is ready, and in which order it is resumed, is the affair of whoever owns
// the host.
//
// # Back-pressure
//
// None here: who calls Start decides how many tasks there are. A suspended task costs
// about 3 KB, and more if it has been deeper than 2 KB: its stack keeps the size that it once needed. (The
// runtime begins with stacks of 4 KB while the average goroutine of the program is deeper than some 1.1 KB.)
//
// # What can go wrong
//
// A panic of a task is recovered, by one recover for each coroutine, and is its [Task.Fault]; so is
// [runtime.Goexit]. Neither touches other tasks or whoever ran it. Suspending
// a task that has ended, or that is suspended already, is refused with [ErrNotRunning].
// A goroutine that suspends the task of another while that one runs cannot be told
// apart cheaply: [Config.Check] does so at some microseconds for each suspension.
//
// With the engine [Pull] a task must be at the same count of [runtime.LockOSThread] at each
// suspension, and at its end, as the goroutine that made its coroutine, and as the one that runs it. If
// not, the runtime ends the process; nobody can recover from that. Tasks that must
// hold on to their thread run on a host with the engine [Baton].
//
// # Looking in, and testing
//
// [Host.Stats] counts coroutines and tasks. In a synctest bubble a coroutine that was
// left behind fails the test, so a forgotten Close is seen.
package coro
