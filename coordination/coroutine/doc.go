// Package coroutine lets a handler wait without holding the worker that runs
// it.
//
//	func(c coroutine.Context, conn net.Conn) {
//		line, err := coroutine.Await(c, func(context.Context) (string, error) {
//			return bufio.NewReader(conn).ReadString('\n')
//		})
//		...
//		err = coroutine.Sleep(c, time.Second)
//	}
//
// A handler runs as a stackful, asymmetric coroutine (Moura 2004). It runs
// alone until it suspends, in [Await], [Sleep], [Yield] or a call built on
// [Context.Suspend], such as the methods of semaphores and conditions;
// meanwhile its worker runs other handlers.
//
// # Ownership
//
// A [Context] belongs to one run of one handler. As a [context.Context] it may
// be used by any goroutine; but only the handler itself, on the goroutine on
// which it was called, may suspend with it. A context that is derived from it,
// by [context.WithTimeout] or errgroup, is an ordinary one that cannot suspend,
// so the usual mistake does not compile.
//
// A handler has a server: a scheduler (package coordination/scheduler), or a
// stage (stage.Coroutine, or a behaviour.Suspending given to stage.New). The
// server owns the coroutines of its handlers, keeps idle ones for reuse, and
// unwinds suspended ones when it closes.
//
// # A limit for one wait
//
// [WithContext] binds a handler's waits to a context, such as one with a time
// limit: each wait ends with that context at the latest, and the handler
// continues.
//
//	ctx, cancel := context.WithTimeout(c, time.Second)
//	defer cancel()
//	err := sem.Acquire(coroutine.WithContext(ctx, c))
//
// # Several waits at once
//
// [Gather] runs several blocking functions at the same time, such as calls of
// stages, and waits for all of them. [First] waits for the first that succeeds,
// and [Race] for the first at all; both cancel the others.
//
// # Order and concurrency
//
// Between two suspensions no other handler of the same scheduler runs, so data
// that they share needs no lock. After a suspension the data may have changed.
// In a stage this holds only if the stage has one worker. Handlers are resumed
// in the order in which they were woken.
//
// # Back-pressure
//
// A suspended handler holds about 3 KB: its stack, which keeps the largest size
// that it once needed. The server bounds how many handlers there are at once.
//
// # Being stopped
//
// A handler whose server closes gets [ErrStopped] from its current suspension,
// and immediately from any later one; its context is done. It should return.
// Its deferred calls run.
//
// If a stopped handler suspends 100,000 times more, as "for {
// coroutine.Yield(c) }" does, it is ended as by
// [runtime.Goexit]: its deferred calls run. Its server reports [ErrIgnoredStop]; in a stage this is a crash of the
// handler.
//
// # Errors
//
//   - In a stage a suspending handler crashes like any handler: see behaviour,
//     and stage.CrashError. In a scheduler a panic is reported as a
//     [PanicError], and [runtime.Goexit] as [ErrGoexit]. No other handler is
//     affected.
//   - A suspension with a context whose handler has returned, or is suspended,
//     fails with [ErrNotRunning].
//   - If a goroutine that the handler started suspends while the handler itself
//     runs, this cannot be detected cheaply. Two handlers may then run at once.
//     A scheduler with Config.Check detects it at each suspension, which costs
//     some microseconds, and the call fails with ErrNotRunning. Set it in
//     tests.
//   - A handler that suspends while it holds [runtime.LockOSThread], or inside
//     a callback from C, or that returns without having unlocked, ends the
//     process with an error message: the runtime can switch coroutines only
//     between equally locked goroutines. Set Config.Threads of the scheduler
//     for such handlers.
//   - A handler that blocks without [Await] holds up all others of its worker.
//
// # Testing
//
// In main, or in a test, [Blocking] makes a Context that suspends by blocking,
// so a function that takes a Context can be called directly. In a synctest
// bubble times are exact, and a handler that is still suspended at the end
// fails the test.
package coroutine
