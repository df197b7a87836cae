// Package scheduler waits for events of registered sources and runs a handler for each,
// one at a time. It runs cooperative tasks among them.
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
// It unites two models. One is an event scheduler between Reactor and Proactor, with an
// observer of sources, a queue of what is ready, and handlers that are stackful
// coroutines; its step handles at most one event, its loop goes on until it is
// stopped. The other is the cooperative management of tasks on asymmetric coroutines, with a pool,
// semaphores and conditions, of Moura's thesis (PUC-Rio 2004, chapter 6 and appendix A).
// docs/coordination.md tells where their figures err, and which test shows what is done here.
//
// # Ownership
//
// A [Scheduler] belongs to the goroutine that calls [Scheduler.Step] or [Scheduler.Loop], and this one runs all
// handlers and tasks. So what they share needs no lock. A [Source] has a
// goroutine of its own, unless it is a timer; a [Poller] is asked by the scheduler. A
// function given to coroutine.Await has a goroutine of its own, too. Close ends them all but
// those that do not listen to their contexts.
//
// # Order
//
// What is ready is handled first come, first served: events, beginnings of tasks and those that
// were woken stand in one line. Only when that is empty are the sources looked at
// again. Timers that are due, and the handlers that they wake, have a line of their own and
// every second turn until it is empty. Who yields goes to the end of the first line. With Config.Rand any of what is
// ready may be next; but the events of one source stay in order.
//
// A source stays registered after a handler of it has ended: each event begins a new run. A
// handler may ask for the next event itself ([Registration.Next], the completion token);
// it then gets it, and no new run is begun.
//
// # Time
//
// A timer is never early. It is late when a handler holds up the scheduler, which is not preempted, or when other
// timers are due before it; a source with many events does not delay it.
// Handlers that have something long to do give it to coroutine.Await, or yield. Config.Patience
// tells of those that do not.
//
// # Back-pressure
//
// A source may have Config.Backlog events that have not been dealt with: those that
// wait, and those that handlers are at. Beyond that its notify blocks, so an
// acceptor stops accepting and a channel fills up. Nothing bounds [Scheduler.Go]: it is the program's own.
//
// # Waiting for tasks, and not for ever
//
// [Scheduler.Go] returns the task, for whose end others wait with [Task.Join]. Each wait, of a semaphore, a condition, the next event or a
// task, ends with a context if it is given one: see coroutine.WithContext. [Semaphore.TryAcquire] does not wait at all.
//
// # What can go wrong
//
// A handler or task that panics or calls [runtime.Goexit] ends alone: Config.Error hears of it, and all
// others go on. So does a source that panics or fails, and its registration ends. A call of Step, Loop or Close by
// a handler panics. Package coroutine says what a handler must not do with its context.
//
// When all that are left wait for one another, Loop returns [ErrDeadlock]. A wait that a context may end is
// none of these.
//
// # Looking in
//
// [Scheduler.Snapshot] tells what is there. Errors name the handler's function and the source.
//
// # Testing
//
// In a synctest bubble times are exact and take no time, and "for s.Step(0) {}" handles
// what is there. A seeded Config.Rand walks through other orders, the same ones for
// the same seed. A scheduler belongs to the bubble in which it first runs.
package scheduler
