// Package supervisor keeps children alive: it starts them in order, restarts a
// child that fails, gives up when failures come too often, and stops the
// children in reverse order. A child is a plain function, an actor, or another
// supervisor:
//
//	err := supervisor.Run(ctx, supervisor.Spec{
//		Strategy:  supervisor.OneForOne,
//		Intensity: supervisor.Intensity{Restarts: 3, Within: time.Minute},
//		Children: []supervisor.Child{
//			supervisor.Service("poller", poll), // func(context.Context) error
//			supervisor.Service("pusher", push),
//		},
//	})
//
// The semantics are as in Erlang/OTP's supervisor; docs/supervision.md has a
// table of them, each with the test that holds it:
//
//   - A child is started when the child before it has reported that it is
//     ready. If a child cannot start, the supervisor stops the children before
//     it and the start fails.
//   - When a child ends, its restart type ([Permanent], [Transient],
//     [Temporary]) says whether it is restarted. The [Strategy] says which
//     siblings are restarted with it: they are stopped in reverse order, then
//     started in order.
//   - Each restart counts against the [Intensity]. When there is one restart
//     too many, the supervisor stops all children and itself, with an
//     [*EscalationError] that holds the failures. A supervisor that is a child
//     then fails towards the supervisor above it.
//   - A child that is asked to stop has a time limit. A child that exceeds it
//     is abandoned, because Go cannot kill a goroutine: the supervisor reports
//     it and no longer waits for it.
//   - Children can be added and removed while the tree runs: [Tree.Add],
//     [Tree.Terminate], [Tree.Restart], [Tree.Delete].
//
// # Concurrency
//
// One goroutine at a time makes the decisions, one step after another: it
// starts or stops a single child and continues when that child has answered.
// Events that arrive during a step are handled when the step is over. A request
// to stop is the exception: it also ends a start that hangs. Any goroutine may
// call any method of [Tree] at any time, with one exception: a child must not
// call [Tree.Stop], [Tree.Wait] or a method that changes the children, because
// it would wait for itself.
//
// Foreign code (Spawn, hooks, deciders, services) may panic or end its
// goroutine. That becomes an error or a crash with a stack and affects no other
// child.
//
// # Resume
//
// A supervisor never resumes or reuses an incarnation of a child after a crash,
// because it cannot know what state the incarnation left behind. It stops the
// incarnation, waits for its end, and starts a new one under a new name, so
// that a late message to the old incarnation cannot reach the new one. This is
// why a decider has no "resume" directive. State that must outlive an
// incarnation belongs outside of it.
package supervisor
