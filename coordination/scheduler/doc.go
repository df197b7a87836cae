// Package scheduler waits for events of registered sources and runs a handler
// for each, one at a time. It runs cooperative tasks among them.
//
//	s := scheduler.New(scheduler.Config{})
//	defer s.Close()
//	s.Register(scheduler.Accept(l), func(c coroutine.Context, ev any) {
//		conn := ev.(net.Conn)      // written as if it blocked
//		...
//		n, err := coroutine.Await(c, func(context.Context) (int, error) { return conn.Read(buf) })
//	})
//	s.Register(scheduler.Every(time.Second), status)
//	s.Go(task)
//	err := s.Loop()
//
// It combines two models. One is an event scheduler between Reactor and
// Proactor, with an observer of sources, a queue of ready events, and handlers
// that are stackful coroutines; its step handles at most one event, and its
// loop runs until it is stopped. The other is cooperative task management on
// asymmetric coroutines, with a pool, semaphores and conditions, of Moura's
// thesis (PUC-Rio 2004, chapter 6 and appendix A). docs/coordination.md lists
// the errors in the figures of these texts, and the tests that show how this
// package differs.
//
// # Ownership
//
// A [Scheduler] belongs to the goroutine that calls [Scheduler.Step] or
// [Scheduler.Loop], and that goroutine runs all handlers and tasks. So data
// that they share needs no lock. A [Source] has a goroutine of its own, unless
// it is a timer; a [Poller] is called by the scheduler. A function given to
// coroutine.Await has a goroutine of its own, too. Close ends all of these
// goroutines, except functions that ignore their contexts.
//
// # Order
//
// Ready entries are processed first come, first served: events, new tasks and
// woken handlers are in one queue. Only when that queue is empty are the
// sources checked again. Timers that are due, and the handlers that they wake,
// have a queue of their own, which gets every second turn until it is empty. A
// handler that yields goes to the end of the first queue. With Config.Rand any
// ready entry may be next; but the events of one source stay in order.
//
// A source stays registered after one of its handlers has ended: each event
// starts a new run. A handler may ask for the next event itself
// ([Registration.Next], the completion token); it then gets the event, and no
// new run is started.
//
// # Time
//
// A timer is never early. It is late when a handler holds up the scheduler,
// which is not preemptive, or when other timers are due before it; a source
// with many events does not delay it. Handlers with long computations should
// pass them to coroutine.Await, or yield. Config.Patience reports handlers that
// do neither.
//
// # Back-pressure
//
// A source may have Config.Backlog open events: waiting events, and events that
// handlers are handling. Beyond that its notify blocks, so an acceptor stops
// accepting and a channel fills up. [Scheduler.Go] is not bounded: the program
// decides how many tasks it starts.
//
// # Waiting for tasks, and limits of waits
//
// [Scheduler.Go] returns the task; [Task.Join] waits for its end. A run of a
// handler is a task, too: [TaskOf], [Registration.Runs]. Each wait, for a
// semaphore, a condition, the next event or a task, can be bound to a context
// and ends with it: see coroutine.WithContext. [Semaphore.TryAcquire] does not
// wait at all.
//
// # Errors
//
// A handler or task that panics or calls [runtime.Goexit] ends alone:
// Config.Error gets the error, and all others continue. The same holds for a
// source that panics or fails; its registration ends. A handler that calls
// Step, Loop or Close panics. Package coroutine lists the uses of its context
// that a handler must avoid.
//
// When all remaining handlers and tasks wait for one another, Loop returns
// [ErrDeadlock]. A wait that a context may end does not count as such.
//
// # Inspection
//
// [Scheduler.Snapshot] returns the current state. Errors name the handler's
// function and the source.
//
// # Testing
//
// In a synctest bubble times are exact and take no time, and "for s.Step(0) {}"
// handles everything that is ready. A seeded Config.Rand tries other orders,
// the same ones for the same seed. A scheduler belongs to the bubble in which
// it first runs.
package scheduler
