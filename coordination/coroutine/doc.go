// Package coroutine lets a handler wait without holding the worker that runs it.
//
//	func(c coroutine.Context, conn net.Conn) {
//		line, err := coroutine.Await(c, func(context.Context) (string, error) {
//			return bufio.NewReader(conn).ReadString('\n')
//		})
//		...
//		err = coroutine.Sleep(c, time.Second)
//	}
//
// A handler runs as a stackful, asymmetric coroutine (Moura 2004). It runs alone until
// it suspends itself, in [Await], [Sleep], [Yield] or a call built on [Context.Suspend], such as those
// of semaphores and conditions; meanwhile its worker runs other handlers.
//
// # Ownership
//
// A [Context] belongs to one run of one handler. It is a [context.Context] like
// any other, for any goroutine; but only the handler itself, on the goroutine on which it
// was called, may suspend with it. A context that is derived from it, by
// [context.WithTimeout] or errgroup, is an ordinary one that cannot suspend, so the
// usual mistake does not compile.
//
// Handlers are served by somebody: by a scheduler (package coordination/scheduler), or by a stage
// (stage.Coroutine, or a behaviour.Suspending given to stage.New). Whoever serves them owns their coroutines, keeps
// idle ones for reuse, and unwinds those that are suspended when it closes.
//
// # A limit for one wait
//
// [WithContext] binds a handler's waits to a context, such as one with a time limit: each ends with that context at the
// latest, and the handler goes on.
//
//	ctx, cancel := context.WithTimeout(c, time.Second)
//	defer cancel()
//	err := sem.Acquire(coroutine.WithContext(ctx, c))
//
// # Order and concurrency
//
// Between two suspensions no other handler of the same scheduler runs, so what they
// share needs no lock. That is not so in a stage, unless it has one worker only. After a
// suspension it may have changed. Handlers go on in the order in which they were woken.
//
// # Back-pressure
//
// A suspended handler holds about 3 KB: its stack, which keeps the size that it once
// needed. How many there are at once is bounded by who serves them.
//
// # Being stopped
//
// A handler whose server closes gets [ErrStopped] from the suspension it is in, and from
// any later one at once; its context is done. It should return. Its deferred calls run.
//
// A stopped handler that suspends 100,000 times more, as "for { coroutine.Yield(c) }" does, is ended as [runtime.Goexit] would end
// it: its deferred calls run. Its server reports [ErrIgnoredStop]; in a stage it is a crash of the handler.
//
// # What can go wrong
//
//   - In a stage a crash is one as of any handler: see behaviour, and stage.CrashError. In a
//     scheduler a panic is a [PanicError], and [runtime.Goexit] is [ErrGoexit], told to whoever serves the
//     handler. No other handler notices.
//   - To suspend with a context whose handler has returned, or is suspended, is refused
//     with [ErrNotRunning].
//   - A goroutine that the handler started and that suspends while the handler itself
//     runs cannot be told apart cheaply. Two handlers may then run at once. A scheduler whose
//     Config.Check is set finds out at each suspension, for some microseconds, and the
//     call is refused with ErrNotRunning. Have your tests set it.
//   - A handler that suspends while it holds [runtime.LockOSThread], or inside a
//     callback from C, or that returns without having unlocked, ends the process: the runtime
//     can switch coroutines only between equally locked goroutines, and says so. Set Config.Threads of the scheduler for such handlers.
//   - A handler that blocks without [Await] holds up all others of its worker.
//
// # Looking in, and testing
//
// In main, or in a test, [Blocking] makes a Context that suspends by blocking, so a
// function that takes a Context can be called as it is. In a synctest bubble times
// are exact, and a handler that was left suspended fails the test.
package coroutine
