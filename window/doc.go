// Package window makes stages that collect commands and pass them on together:
// the commands of a minute, a hundred rows, the parts of one order. Their
// results are forwarded like the results of any flow.
//
//	hits := window.By("hits", Hit.Host, window.Bounds[Hit]{Time: time.Minute, Count: 1000})
//	report := stage.Sink("report", func(_ context.Context, w window.Window[string, []Hit]) error { … })
//	p, err := pipeline.New("log", hits.To(report))
//
//	[All]        one window after the other, of all commands
//	[By]         windows of the commands with the same key
//	[Aggregate]  as By, but a sum of some kind in place of the commands
//	[Join]       parts that belong together, complete or not
//	[JoinTicket] parts that came of one command, as soon as nothing else of it is on its way
//	[Debounce]   the last command of a key, when there was none for a while
//	[Throttle]   at most one command of a key in a period: the first, and then the latest
//
// Time is the clock's time when a command is handled. Package window/event has
// windows by a time within the command.
//
// # What happens to commands
//
// A command that is in an open window is suspended: no worker holds it, and it
// counts as in hand. The result of the window travels with its first command,
// whose values are in the context. It does not end with the context of that
// command's caller.
//
// All commands of a window end with its result. A caller that waits for any of
// them, a source that hears of their ends, and a source.Checkpoint wait until
// the result has ended, with all that was emitted on its way, and get its
// error. So an inlet delivers all messages of a window again if the next stage
// fails, or if the process is killed before. The answer to the result goes to
// the caller of the first command; the others get none. So pipeline.New refuses
// a window that leads nowhere. In the accounts the other commands are replied
// to when the first has passed the result on, and a result that fails is one
// failure, with one letter, unless callers or sources hear of it for all
// commands. If passing it on fails, as a stage.Flow.Route or a middleware may,
// all commands of the window fail, and each is tried again or not as
// stage.Retry says.
//
// The same is true of the commands that an [Aggregate] has summed up, and of
// commands that [Debounce] and [Throttle] have dropped for a later one,
// although they are not held: their tickets wait. A source that bounds its
// commands in flight must allow as many commands as a window collects, or the
// window waits for its time.
//
// With many keys, the open windows may have all commands that a
// source.Checkpoint or an inlet has in flight, or all that are left of its
// stream. A window with a time is closed when that is over. A window that only
// further commands close, by Count or Bytes, is closed [Early] when nothing has
// happened for a second in the stages behind such a source, and the first such
// window is logged.
//
// A command whose caller's context or own deadline ends, or whose stage.Timeout
// is over, leaves its window, and ends with that error. If the result is on its
// way, the command is in it all the same.
//
// In a drain, and so before a stop, an open window is closed when no further
// command can come. Nothing is lost, and no time is waited for. In a hard stop
// each command in an open window is dead-lettered with stage.ErrStopped.
//
// A middleware (stage.Middleware) of an [Aggregate] must not fail a command
// after next has returned: for the first command of a window that is all of the
// window, and the others are done by then.
//
// A handler that waits for a window's result, as with a Call, keeps a drain
// waiting, and the drain does not close that window. Give windows a time then.
//
// # Order
//
// The stage has one worker of its own, whatever the options and the policy say:
// a window has its commands in the order of their arrival, and the results of
// one key leave in the order in which its windows were closed.
//
// # Functions
//
// A key, a size, and whatever looks into a window are functions that are called
// for each command. They must be quick and not call the pipeline. If one
// panics, the command that it was called for has crashed, alone; its window
// stays as it was. It is tried again if stage.Retry says so, which an
// [Aggregate] does not take.
//
// # Memory
//
// A command in a window holds some 6 KB beside itself. Bounds.Held is how many
// there are at most. To collect many commands at little cost, sum them up with
// [Aggregate], of which only the first of each window is held, and of the
// others 8 bytes and the ticket, if they have one; or, without keys, use a
// behaviour.Batcher with stage.Batch and stage.Linger, whose commands wait in
// the queue.
//
// A key is compared as a map does. A command whose key is not equal to itself,
// such as a NaN, fails.
package window
