// Package coro runs functions that can be suspended and resumed: stackful,
// asymmetric coroutines on top of [iter.Pull].
//
// A [Host] runs tasks. A [Task] is one run of one function on a coroutine; it
// runs until the function returns or suspends itself. The caller of
// [Host.Start] or [Host.Resume] is blocked meanwhile, as by a function call,
// and is then free for the next task.
//
//	h := coro.New(coro.Config{Ready: queue.put})
//	h.Start(ctx, cmd, run)     // runs until it suspends or ends
//	for t := range queue {     // tasks that have been woken, by any goroutine
//		h.Resume(t)
//	}
//	h.Close()                  // unwinds all suspended tasks
//
// # Ownership
//
// Coroutines belong to the host that made them. The host keeps some idle ones,
// so that a task seldom pays for a new stack. There is no pool for all hosts: a
// coroutine belongs to the synctest bubble of the goroutine that made it, and
// may be bound to that goroutine's OS thread. A Task belongs to one run and is
// never reused, so a late wake-up, or a handler's context that was kept, finds
// that it has ended.
//
// # Order and concurrency
//
// Every method may be called by any goroutine. A task is run by one goroutine
// at a time, not always by the same one; several tasks of a host run at once
// only if several goroutines run them. So the tasks of a host that a single
// goroutine serves have exclusive access to their data between two suspensions.
//
// A task is woken through its [Waker], once for each suspension, from any
// goroutine, even before it has suspended completely. The host then passes it
// to [Config.Ready]: on the goroutine that woke it, or, if the wake-up came
// before the task had suspended, on the goroutine that ran it. The owner of the
// host keeps the ready tasks and decides on the order in which they are
// resumed.
//
// # Back-pressure
//
// There is none here: the caller of Start decides how many tasks there are. A
// suspended task costs about 3 KB, and more if its stack has been deeper than 2
// KB: the stack keeps the largest size that it needed. (The runtime starts with
// stacks of 4 KB while the average goroutine of the program is deeper than
// about 1.1 KB.)
//
// # Errors
//
// A panic of a task is recovered, by one recover for each coroutine, and
// becomes its [Task.Fault]; so does [runtime.Goexit]. Neither affects other
// tasks or the goroutine that ran the task. A suspension of a task that has
// ended, or that is suspended already, fails with [ErrNotRunning]. A goroutine
// that suspends a task other than its own, while that task runs, cannot be
// detected cheaply: [Config.Check] does it for some microseconds at each
// suspension.
//
// With the engine [Pull], a task must have the same count of
// [runtime.LockOSThread], at each suspension and at its end, as the goroutine
// that made its coroutine, and as the goroutine that runs it. Otherwise the
// runtime ends the process; this cannot be recovered. Tasks that must hold
// their thread run on a host with the engine [Baton].
//
// # Inspection and testing
//
// [Host.Stats] counts coroutines and tasks. In a synctest bubble a leaked
// coroutine fails the test, so a forgotten Close is detected.
package coro
